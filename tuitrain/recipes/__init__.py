"""Built-in recipes, one TOML file each; the first comment of a file is its line in `tuitrain recipes`."""
