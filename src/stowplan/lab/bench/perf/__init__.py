"""Upstream's own benchmark definitions (test/integration/scheduler_perf), run with this scheduler.

* `definitions`: the files: test cases, workloads and their operations
* `manifests`: the templates that operations name, filled in
* `operations`: what a workload does to the cluster
* `declaredfeatures`: features of nodes that upstream makes up for its benchmark of them
* `figures`: throughput and durations, computed as upstream does, and their thresholds
* `run`: a cluster and a scheduler for one workload
"""
