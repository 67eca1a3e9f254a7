"""The corpus on a real API server, with `stowplan run` and other schedulers in processes."""
