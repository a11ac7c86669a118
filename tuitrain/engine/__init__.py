"""The training engine: the only room that imports torch. Import `tuitrain.engine.train` when a run starts, not before."""
