"""Asking one plugin of an earlier release about a small cluster, by node name."""

from collections.abc import Iterable
from typing import Any

from scheduler.plugins.answers import points, verdicts
from stowplan.api.meta import Object, ObjectMeta
from stowplan.api.workloads import Service, ServiceSpec
from stowplan.testing import Cluster, NodeBuilder, PodBuilder, cluster

OLD_SCALE = {"maxPriority": 10}


def only(plugin: str, args: dict[str, Any] | None = None, *beside: str) -> dict[str, Any]:
    """A current configuration that uses one plugin, others with it, and the ones every profile needs."""
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {
            "multiPoint": {
                "enabled": [{"name": name} for name in ("PrioritySort", "DefaultBinder", plugin, *beside)],
                "disabled": [{"name": "*"}],
            }
        },
        "pluginConfig": [{"name": plugin, "args": args}] if args else [],
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }


def world(
    plugin: str,
    nodes: Iterable[NodeBuilder],
    pods: Iterable[PodBuilder] = (),
    *,
    args: dict[str, Any] | None = None,
    objects: Iterable[Object] = (),
) -> Cluster:
    return cluster(nodes, pods, objects=objects, config=only(plugin, args))


def kept_off(made: Cluster, wanting: PodBuilder) -> dict[str, tuple[str, ...]]:
    """The nodes that are rejected, and why."""
    found = verdicts(made, wanting)
    return {name: status.reasons for name, status in found.items() if not status.is_success}


def given(made: Cluster, wanting: PodBuilder, plugin: str) -> dict[str, int]:
    """The scores of a plugin with weight 1."""
    found = points(made, wanting, plugin)
    assert found is not None
    return found


def service(name: str, **selector: str) -> Service:
    return Service(
        metadata=ObjectMeta(name=name, namespace="default"), spec=ServiceSpec(selector=selector or None)
    )
