"""What more devices would bring: each fitting strategy and device count measured for a few steps, before a run is started."""
