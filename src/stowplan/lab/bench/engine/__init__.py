"""Benchmarks of the scheduling engine and of single parts of it, in memory."""
