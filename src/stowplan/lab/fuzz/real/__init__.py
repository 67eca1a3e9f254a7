"""The corpus on a real API server, with `stowplan run` and other schedulers in processes.

`controlplane` starts the binaries, `run` puts the objects there and compares what the schedulers did.
"""
