"""Pods of DaemonSets on nodes that are new to a simulated cluster, as their controller would create them."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from stowplan.api.decode import convert
from stowplan.api.pod import Pod
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.scheduling import is_daemon


def daemons_of(cluster: Cluster) -> list[Pod]:
    """A pod of every DaemonSet of a cluster, without the node that it is for."""
    found: dict[tuple[str, str], Pod] = {}
    for pod in cluster.pods:
        owner = next((one for one in pod.metadata.owner_references if one.controller), None)
        if owner is not None and is_daemon(pod):
            found.setdefault((pod.namespace, owner.uid or owner.name), _for_any_node(pod))
    return list(found.values())


def _for_any_node(pod: Pod) -> Pod:
    body = msgspec.to_builtins(replace(pod, spec=replace(pod.spec, node_name="")))
    affinity = (body["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        terms = [
            {"matchExpressions": term["matchExpressions"]}
            for term in required.get("nodeSelectorTerms") or ()
            if term.get("matchExpressions")
        ]
        affinity.pop("requiredDuringSchedulingIgnoredDuringExecution")
        if terms:
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    return convert(body, Pod)


def put_daemons(cluster: Cluster, daemons: Iterable[Pod], nodes: Sequence[str]) -> dict[str, str]:
    """Put the pods of DaemonSets on new nodes where they may run; returns the node of each."""
    found = {}
    for daemon in daemons:
        feasible = set(cluster.evaluate(daemon).feasible_rows.tolist())
        for node in nodes:
            if cluster.table.row_of(node) in feasible:
                name = f"{daemon.name}-{node}"
                cluster.put_copy(daemon, name, node)
                found[f"{daemon.namespace}/{name}"] = node
    return found
