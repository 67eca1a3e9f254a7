"""Measuring the engine: the shapes of the workloads, and the clocks around them."""
