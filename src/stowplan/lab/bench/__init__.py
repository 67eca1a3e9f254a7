"""Benchmarks: workloads of many shapes, and the clocks around them.

* `engine`: the scheduling engine and single parts of it, in memory
* `servers`: HTTP, the API server, start-up, long runs; `scale`: growth of clusters
* `perf`: upstream's benchmark definitions

A benchmark is a module with a run (what is measured) and figures (the result); `cli.lab.bench` prints
them.
"""
