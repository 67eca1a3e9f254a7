"""A whole cluster in one process: API server, scheduler, controllers and kubelets put together.

* `cluster`: the parts, and what they share
* `manifests`: what to start from, also as `kubectl get -o yaml` prints it of another cluster
* `progress`: what a person sees while it runs
* `demo`: a small varied workload, narrated
"""

from stowplan.localcluster.up.cluster import ClusterPlan, LocalCluster

__all__ = ["ClusterPlan", "LocalCluster"]
