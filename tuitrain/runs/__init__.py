"""What is kept of a run: its folder, metrics, TensorBoard files and log, the list of runs, and the record that the screens show."""
