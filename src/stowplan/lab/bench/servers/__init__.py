"""Benchmarks with servers and processes: HTTP, the API server, start, soak."""
