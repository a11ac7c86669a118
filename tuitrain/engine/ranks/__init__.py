"""The processes that train one run, a rank each: how they are started, find each other, and train."""
