"""Plugins whose work is not built yet: right for pods that do not need them, honest about those that do.

Their names hold their places in every profile. A pod without volumes passes them as it should; the attempt to
place a pod that needs them ends with an error that says so.
"""

from collections.abc import Hashable, Sequence
from typing import Final

from stowplan.api.pod import Volume
from stowplan.cluster.podinfo import PodInfo
from stowplan.cluster.view import NodeRows
from stowplan.framework.cycle import Cycle
from stowplan.framework.errors import NotBuiltError
from stowplan.framework.events import EventRegistration
from stowplan.framework.plugin import Plugin, Reads, Scores
from stowplan.framework.status import SKIP, Status
from stowplan.plugins.args import VolumeBindingArgs


class _ForVolumes(Plugin):
    """Skips pods without the kinds of volumes it is about."""

    reads = Reads.NOTHING
    signs_template = True
    constant_pre_filter = True

    def concerns(self, volume: Volume) -> bool:
        return volume.persistent_volume_claim is not None or volume.ephemeral is not None

    def sign(self, pod: PodInfo) -> Hashable:
        return any(map(self.concerns, pod.spec.volumes))

    def events(self) -> Sequence[EventRegistration]:
        """It rejects no pod, so no event can help one."""
        return ()

    def pre_filter(self, cycle: Cycle, pod: PodInfo) -> Status:
        if self.sign(pod):
            raise NotBuiltError(self.name, f"{self.name}: pods with such volumes are not supported yet")
        return SKIP

    def filter(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> None:
        return None


class VolumeBinding(_ForVolumes):
    """Will find volumes for claims on each node."""

    args_type = VolumeBindingArgs
    constant_pre_score = True

    def pre_score(self, cycle: Cycle, pod: PodInfo) -> Status:
        return SKIP

    def score(self, cycle: Cycle, pod: PodInfo, nodes: NodeRows) -> Scores | None:
        return None


NOT_BUILT: Final = frozenset(cls.name for cls in _ForVolumes.__subclasses__())
"""The plugins that only hold their places so far."""
