"""Workloads of pods that are scheduled in groups: gangs, gangs in racks, and some that do not fit."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from stowplan.api.decode import decode
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.api.pod_groups import PodGroup
from stowplan.api.releases import RELEASES
from stowplan.config import LoadedConfig, default_config
from stowplan.lab.bench.engine.workloads import NAMESPACE, BenchWorkload, WorkloadShape, basic, make_pod

DOMAINS: Final = 100
RACK: Final = "example.com/rack"
POOL: Final = "example.com/pool"
POOL_SHARE: Final = 0.9
"""The pool of the gang that does not fit has nodes for so large a part of its pods."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class GangWorkload(BenchWorkload):
    """Pods in groups of `group_size`, all of which have to be placed.

    With `topology` each group has to be placed in one of 100 racks. Of the first groups, `too_large` find
    room for nine tenths of their pods only, and all other pods are on their own. With a `priority` all pods
    that are there already may be preempted, which does not help.
    """

    group_size: int = 64
    topology: bool = False
    too_large: int = 0
    priority: int = 0

    def objects(self, nodes: int, existing_per_node: int, pods: int) -> list[Object]:
        groups = -(-pods // self.group_size)
        return [self._group(number, pods) for number in range(min(self.too_large, groups) or groups)]

    def pod(self, number: int, node_name: str = "") -> Pod:
        shape = basic(number, "")
        if self.too_large and number >= self.too_large * self.group_size:
            return make_pod(f"new-{number}", shape, 100, node_name)
        spec: dict[str, Any] = {"schedulingGroup": {"podGroupName": self._name(number // self.group_size)}}
        amounts = {}
        if self.too_large:
            spec |= {"nodeSelector": {POOL: "gang"}, "priority": self.priority}
            amounts = {"cpu": "30"}
        return make_pod(f"new-{number}", WorkloadShape(shape.labels, spec, amounts=amounts), 100, node_name)

    def existing(self, node: int, count: int) -> Iterator[Pod]:
        return BenchWorkload((basic,)).existing(node, count)

    def node_labels(self, number: int) -> dict[str, str]:
        """Labels of a node in addition to the common ones."""
        if self.too_large:
            return {POOL: "gang"} if number < self.group_size * POOL_SHARE else {}
        return {RACK: f"rack-{number % DOMAINS:03}"} if self.topology else {}

    def unbindable(self, pods: int) -> int:
        """Number of pods that are never bound."""
        return min(self.too_large * self.group_size, pods)

    @property
    def config(self) -> LoadedConfig:
        """Configuration of a scheduler of these pods."""
        gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": self.topology}
        return default_config(FeatureGates(gates, RELEASES["1.37"]))

    @property
    def together(self) -> int:
        return self.group_size

    def _group(self, number: int, pods: int) -> PodGroup:
        size = min(self.group_size, pods - number * self.group_size)
        spec: dict[str, Any] = {
            "schedulingPolicy": {"gang": {"minCount": size}},
            "priority": self.priority,
        }
        if self.topology:
            spec["schedulingConstraints"] = {"topology": [{"key": RACK}]}
        name = self._name(number)
        document = {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"},
            "spec": spec,
        }
        return decode(_encode(document), PodGroup)

    @staticmethod
    def _name(number: int) -> str:
        return f"gang-{number}"


def gang_workload(name: str, group_size: int) -> GangWorkload:
    return GangWorkload(
        (basic,),
        group_size=group_size,
        topology=name == "gang-topology",
        too_large=_TOO_LARGE.get(name, 0),
        priority=10 if name == "gang-vain" else 0,
    )


_TOO_LARGE: Final = {"gang-nofit": 1, "gang-vain": 16}
GANG_WORKLOADS: Final = ("gang", "gang-topology", "gang-nofit", "gang-vain")
