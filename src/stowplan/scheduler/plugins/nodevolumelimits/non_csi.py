"""Limits of one kind of disk each, from before there were CSI drivers. No part of the default profile.

Nodes that have a CSINode leave these disks to CSI drivers and are passed. On others the limit is, in this
order: `maxVolumes` of the plugin's arguments, or what the kind of machine can take; and above both what the
node itself says it can take.
"""

import re
from collections.abc import Hashable, Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np

from stowplan.api.fielderrors import Path, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.api.node import Node
from stowplan.api.quantity import value_of
from stowplan.api.rules.csitranslation import AWS_EBS, AZURE_DISK, GCE_PD
from stowplan.scheduler.framework import (
    SKIP,
    Action,
    ClusterEvent,
    Codes,
    Contract,
    Cycle,
    EventRegistration,
    NodeRows,
    Plugin,
    PodInfo,
    Resource,
    Signs,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from stowplan.scheduler.framework.advanced import NODE_ADD, FeatureGates, Obstacle, Shortfall, pod_resources
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.nodevolumelimits.csi import REASON
from stowplan.scheduler.table.attachments import Attachable, AttachmentProblem, Trouble, needs_of
from stowplan.scheduler.table.changes import Rows

_TOO_MANY, _MISSING = 1, 2
_WRONG, _FIRST_FAULT = -1, -2
_SKIPPED: Final = "skipped"
_MACHINE: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_FEWER_BLOCK_STORES: Final = re.compile(r"^[cmr]5.*|t3|z1d")
_BLOCK_STORES, _BLOCK_STORES_OF_FEWER, _DISKS = 39, 25, 16


class MaxVolumeCountArgs(PluginArgs, frozen=True):
    """Number of disks for nodes that do not report their limit; 0: the default of the kind of machine."""

    max_volumes: int = 0

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        if self.max_volumes >= 0:
            return []
        return [invalid(path.child("maxVolumes"), self.max_volumes, "not in valid range [0, inf)")]


class MaxEBSVolumeCountArgs(MaxVolumeCountArgs, frozen=True):
    """Arguments of MaxEBSVolumeCount."""


class MaxGCEPDVolumeCountArgs(MaxVolumeCountArgs, frozen=True):
    """Arguments of MaxGCEPDVolumeCount."""


class MaxAzureDiskVolumeCountArgs(MaxVolumeCountArgs, frozen=True):
    """Arguments of MaxAzureDiskVolumeCount."""


class WantedDisks(NamedTuple):
    """Number of disks of the kind a pod needs, those in use somewhere, or why that is unknown."""

    number: int
    shared: tuple[Attachable, ...]
    problem: AttachmentProblem | None


class LimitByKind(Plugin):
    """Counts the disks of one kind on each node. The base of a plugin per kind."""

    kind: ClassVar[str]
    field: ClassVar[str]
    resource: ClassVar[str]
    args: MaxVolumeCountArgs

    contract = Contract(
        signs=Signs.VOLUMES,
        needs=(
            "persistentvolumes",
            "persistentvolumeclaims",
            "storageclasses",
            "csidrivers",
            "volumeattachments",
        ),
        can_fail=True,
    )

    def limit_of_machine(self, machine: str) -> int:
        """Maximum number of disks for a type of machine."""
        return _DISKS

    def sign(self, pod: PodInfo) -> Hashable:
        return self._wanted(pod) if self._concerns(pod) else _SKIPPED

    def events(self) -> Sequence[EventRegistration]:
        return (
            EventRegistration(NODE_ADD),
            EventRegistration(ClusterEvent(pod_resources(self.handle.behaviour).of_assigned, Action.DELETE)),
            EventRegistration(ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD)),
        )

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status | None:
        if not self._concerns(pod):
            return SKIP
        cycle.write(self, self._wanted(pod))
        return None

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Codes | None:
        wanted: WantedDisks = cycle.read(self)
        if not wanted.number and wanted.problem is None:
            return None
        table = nodes.table
        rows = range(nodes.count) if isinstance(nodes.rows, slice) else nodes.rows.tolist()
        codes = [self.filter_row(cycle, pod, row) if table.valid[row] else 0 for row in rows]
        return np.array(codes, dtype=np.int64)

    def filter_row(self, cycle: Cycle, pod: PodInfo, row: int) -> int:
        wanted: WantedDisks = cycle.read(self)
        if wanted.problem is not None:
            return _MISSING if wanted.problem.trouble is Trouble.MISSING else _WRONG
        in_use = cycle.table.volumes_in_use
        if not wanted.number or in_use.attached.has_csi_node[row]:
            return 0
        if row in in_use.faults:
            fault = self._fault(row)
            if fault:
                return fault
        here = sum(row in in_use.attached.users.get(volume, ()) for volume in wanted.shared)
        node = cycle.table.nodes[row]
        assert node is not None
        too_many = in_use.attached.counts(self.kind)[row] + wanted.number - here > self._limit(node)
        return _TOO_MANY if too_many else 0

    def passes_with_fewer(self, pod: PodInfo) -> bool:
        return True

    def ignores_pods(self, pod: PodInfo, row: int, others: Sequence[PodInfo]) -> bool:
        """Nodes that have a CSINode pass regardless of attached disks."""
        attached = self.handle.table.volumes_in_use.attached
        return attached.has_csi_node.item(row) or not any(other.template.volumes for other in others)

    def reason(self, cycle: Cycle, pod: PodInfo, code: int) -> Status:
        if code == _TOO_MANY:
            return unschedulable(REASON)
        problem = cycle.read(self).problem
        if code <= _FIRST_FAULT:
            problem = cycle.table.volumes_in_use.problem(_FIRST_FAULT + 1 - code)
        assert problem is not None
        return unresolvable(problem.message) if code == _MISSING else error(problem.message)

    def obstacle(self, cycle: Cycle, pod: PodInfo, rows: Rows) -> Obstacle | None:
        found = self.shortfall(cycle, pod, int(rows[0]))
        return None if found is None else Obstacle(f"volume limit ({found.text})")

    def shortfall(self, cycle: Cycle, pod: PodInfo, row: int) -> Shortfall | None:
        wanted: WantedDisks = cycle.read(self)
        node = cycle.table.nodes[row]
        if wanted.problem is not None or node is None:
            return None
        used, limit = int(cycle.table.volumes_in_use.attached.counts(self.kind)[row]), self._limit(node)
        detail = f"{used} of {limit} disks are attached, {wanted.number} wanted"
        return Shortfall("volume limit", detail, max(used + wanted.number - limit, 0) / max(limit, 1))

    def _concerns(self, pod: PodInfo) -> bool:
        return any(
            volume.persistent_volume_claim is not None
            or volume.ephemeral is not None
            or getattr(volume, self.field) is not None
            for volume in pod.template.volumes
        )

    def _wanted(self, pod: PodInfo) -> WantedDisks:
        table = self.handle.table
        needs = needs_of(pod.pod, pod.template.volumes, table.storage, migrated=False, new=True)
        own = [volume for volume in needs.volumes if volume.driver == self.kind]
        users = table.volumes_in_use.attached.users
        return WantedDisks(
            len(own), tuple(sorted(volume for volume in own if volume in users)), needs.problem
        )

    def _fault(self, row: int) -> int:
        """The code of a pod of a row whose disks cannot be told, 0 if there is none."""
        in_use = self.handle.table.volumes_in_use
        number = in_use.fault(row, Trouble.WRONG)
        return _FIRST_FAULT + 1 - number if number else 0

    def _limit(self, node: Node) -> int:
        said = node.status.allocatable.get(self.resource)
        if said is not None:
            return value_of(said)
        if self.args.max_volumes:
            return self.args.max_volumes
        labels = node.metadata.labels
        return self.limit_of_machine(next((labels[key] for key in _MACHINE if key in labels), ""))


class MaxEBSVolumeCount(LimitByKind):
    """Elastic block stores of AWS."""

    args_type = MaxEBSVolumeCountArgs
    kind = AWS_EBS
    field = "aws_elastic_block_store"
    resource = "attachable-volumes-aws-ebs"

    def limit_of_machine(self, machine: str) -> int:
        return _BLOCK_STORES_OF_FEWER if _FEWER_BLOCK_STORES.search(machine) else _BLOCK_STORES


class MaxGCEPDVolumeCount(LimitByKind):
    """Persistent disks of GCE."""

    args_type = MaxGCEPDVolumeCountArgs
    kind = GCE_PD
    field = "gce_persistent_disk"
    resource = "attachable-volumes-gce-pd"


class MaxAzureDiskVolumeCount(LimitByKind):
    """Disks of Azure."""

    args_type = MaxAzureDiskVolumeCountArgs
    kind = AZURE_DISK
    field = "azure_disk"
    resource = "attachable-volumes-azure-disk"
