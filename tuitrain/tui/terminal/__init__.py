"""The terminal itself: what is sent to it, what is printed past us, what it can show and copy."""
