"""Plugins' answers for the nodes of a small cluster, by node name."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.config import default_profile
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import SUCCESS, Status
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.testing import Cluster, PodBuilder, cluster
from stowplan.testing.clusters import AnyNode, AnyPod

PASSES = SUCCESS


def verdicts(world: Cluster, wanting: AnyPod) -> dict[str, Status]:
    """Filter verdict on every node: `PASSES`, or the first rejection."""
    evaluation = world.evaluate(wanting)
    rows = np.flatnonzero(world.table.valid).tolist()
    return {world.table.name_of(row): evaluation.status(row) for row in rows}


def points(world: Cluster, wanting: AnyPod, plugin: str) -> dict[str, int] | None:
    """Score times weight by node, of one plugin; None if it took no part."""
    evaluation = world.evaluate(wanting)
    rows = evaluation.feasible_rows
    found = evaluation.scores(rows).get(plugin)
    if found is None:
        return None
    return {world.table.name_of(row): score for row, score in zip(rows.tolist(), found, strict=True)}


def profile_with(plugin: str, args: dict[str, Any]) -> dict[str, Any]:
    """The default configuration, but for one plugin's arguments."""
    profile = {
        "schedulerName": "default-scheduler",
        "pluginConfig": [{"name": plugin, "args": args}],
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def gated_cluster(gates: dict[str, bool], nodes: Sequence[AnyNode], pods: Sequence[PodBuilder]) -> Cluster:
    """A cluster whose default profile runs under feature gates."""
    world = cluster(nodes=nodes, pods=pods)
    chosen = FeatureGates(gates)
    framework = Framework(default_profile(chosen), world.table, in_tree_registry(), chosen)
    world.frameworks = {framework.profile.scheduler_name: framework}
    return world
