"""Benchmarks of growth: large clusters, long runs, expensive objects."""
