"""Opportunistic batching (feature gate OpportunisticBatching), as kube-scheduler counts it.

kube-scheduler keeps the ranking of the last pod for half a second. If the next pod has the same signature and
the node just used is full, it takes the next node of that ranking, its *hint*, without looking at others.
Since 1.37 the node just used is scored again if it still has room.

Here every pod is decided with results that are kept for its equivalence class and refreshed where something
changed (framework/runtime.py), with or without the gate; that costs less than a hint and is never stale. With
the gate, the rules of batches are also followed and counted: there is a hint under the same conditions, and
it was used if the chosen node is one of the batch.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Final

import numpy as np

from stowplan.api.pod import Pod
from stowplan.api.releases.behaviour import Batching
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger, Ref
from stowplan.scheduler.cycle.instrument import Instrument
from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.cycle.schedule_result import ScheduleResult
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.interface import UNSIGNED, ExtensionPoint, Plugin
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.metrics.scheduling import BatchCounts
from stowplan.scheduler.plugins.imagelocality import normalized_name
from stowplan.scheduler.plugins.podtopologyspread import PodTopologySpread
from stowplan.scheduler.queue.queued_pod import QueuedPod
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue
from stowplan.scheduler.table.columns import BoolColumn
from stowplan.scheduler.table.podinfo import PodInfo, storage_volumes

MAX_AGE: Final = 0.5
"""Seconds for which a batch can be used."""

POD_SKIPPED: Final = "pod_skipped"
POD_NOMINATED: Final = "pod_nominated"
POD_INCOMPATIBLE: Final = "pod_incompatible"
EXPIRED: Final = "expired"
NODE_MISSING: Final = "node_missing"
NODE_NOT_FULL: Final = "node_not_full"
EMPTY_LIST: Final = "empty_list"
POD_NOT_BATCHABLE: Final = "pod_not_batchable"
"""Why a batch cannot be used: values of the label `reason`.

The others of upstream are errors of plugins, which fail the pod here, and `pod_failed`, which upstream never
counts either: the pod after one that failed was not the next one, so it is `pod_skipped`.
"""


# Signatures


def _requests(pod: PodInfo) -> Hashable:
    asked = pod.template.requests
    return (
        asked.milli_cpu,
        asked.memory,
        asked.ephemeral_storage,
        tuple(sorted(asked.scalars.items())),
        asked.non_zero_milli_cpu,
        asked.non_zero_memory,
    )


def _tolerations(pod: PodInfo) -> Hashable:
    return tuple(sorted(pod.pod.spec.tolerations, key=lambda one: (one.key, one.value)))


def _node_affinity(pod: PodInfo) -> Hashable:
    spec = pod.pod.spec
    affinity = None if spec.affinity is None else spec.affinity.node_affinity
    return repr(affinity), tuple(sorted((spec.node_selector or {}).items()))


def _host_ports(pod: PodInfo) -> Hashable:
    return tuple(sorted({port.port for port in pod.template.ports}))


def _images(pod: PodInfo) -> Hashable:
    spec = pod.pod.spec
    return frozenset(normalized_name(one.image) for one in (*spec.containers, *spec.init_containers))


def _labels(pod: PodInfo) -> Hashable:
    return tuple(sorted(pod.pod.metadata.labels.items()))


_BY_TEMPLATE: Final[dict[str, Callable[[PodInfo], Hashable]]] = {
    "NodeResourcesFit": _requests,
    "NodeResourcesBalancedAllocation": _requests,
    "NodeUnschedulable": _tolerations,
    "TaintToleration": _tolerations,
    "NodeAffinity": _node_affinity,
    "NodePorts": _host_ports,
    "ImageLocality": _images,
}
"""Signatures of in-tree plugins as in upstream; equal for the pods of a template."""

_BY_VOLUMES: Final = frozenset(("NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"))
_SIGN_NOTHING: Final = frozenset(("PodTopologySpread", "DynamicResources", "NodeName", "InterPodAffinity"))


class Signer:
    """Signs pods of a profile as upstream does: None for those that are never in a batch.

    These are pods with spread constraints (of their own or by default), pod affinity or claims, and all pods
    of a profile with extenders or with a plugin that cannot sign.
    """

    def __init__(self, framework: Framework, *, extenders: bool) -> None:
        points = (
            ExtensionPoint.PRE_FILTER,
            ExtensionPoint.FILTER,
            ExtensionPoint.PRE_SCORE,
            ExtensionPoint.SCORE,
        )
        plugins = {plugin.name: plugin for point in points for plugin in framework.at(point)}
        self._key = f"batch {framework.profile.scheduler_name}"
        self._classes = framework.table.devices.classes
        spread = plugins.get("PodTopologySpread")
        defaults = isinstance(spread, PodTopologySpread) and spread.has_default_constraints
        self.signs = not extenders and not defaults
        """True if it signs any pods."""
        self._fragments = [_BY_TEMPLATE[name] for name in plugins if name in _BY_TEMPLATE]
        affinity = plugins.get("InterPodAffinity")
        if affinity is not None and not affinity.args.ignore_preferred_terms_of_existing_pods:
            self._fragments.append(_labels)
        self._volumes = not _BY_VOLUMES.isdisjoint(plugins)
        known = _BY_TEMPLATE.keys() | _BY_VOLUMES | _SIGN_NOTHING
        self._others: Sequence[Plugin] = [plugin for name, plugin in plugins.items() if name not in known]

    def sign(self, pod: PodInfo) -> Hashable | None:
        if not self.signs or _is_never_signed(pod.pod):
            return None
        template = pod.template
        if template.scalars and any(name in self._classes.resources for name, _ in template.scalars):
            return None
        parts = template.facts.get(self._key)
        if parts is None:
            parts = tuple(fragment(pod) for fragment in self._fragments)
            template.note(self._key, parts)
        others = tuple(plugin.sign(pod) for plugin in self._others)
        if UNSIGNED in others:
            return None
        volumes = tuple(_sources(pod.pod)) if self._volumes and template.volumes else ()
        return parts, others, volumes, pod.pod.spec.node_name


def _is_never_signed(pod: Pod) -> bool:
    spec = pod.spec
    affinity = spec.affinity
    by_pods = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity) is not None
    return bool(spec.topology_spread_constraints or by_pods or spec.resource_claims)


def _sources(pod: Pod) -> list[str]:
    """Sources of volumes, without the names of the volumes."""
    return [repr(volume).partition(",")[2] for volume in storage_volumes(pod)]


# Batches


class Batch:
    """The batch of one profile: which nodes are left of the last ranking, for which pods, and since when."""

    def __init__(
        self,
        framework: Framework,
        behaviour: Batching,
        counts: BatchCounts,
        *,
        clock: Clock,
        timer: Callable[[], float],
        logger: Logger,
        extenders: bool,
    ) -> None:
        self._signer = Signer(framework, extenders=extenders)
        self._table = framework.table
        self._profile = framework.profile.scheduler_name
        self._rescores = behaviour.rescores_last_node
        self._skips_nominated = behaviour.skips_nominated_pods
        self._counts = counts
        self._clock = clock
        self._timer = timer
        self._logger = logger
        self._signature: Hashable | None = None
        self._nodes: BoolColumn = np.zeros(0, dtype=np.bool_)
        self._left = 0
        self._since = 0.0
        self._last_cycle = -1
        self._last_node = ""

    def note(self, pod: PodInfo, evaluation: Evaluation, row: int | None, cycle: int) -> None:
        """A scheduling cycle chose a row for a pod, or none."""
        if evaluation.rejected_outright is not None:
            return
        if not self._signer.signs and self._logger.level < 4:
            counts = self._counts
            counts.no_hint += 1
            if row is not None:
                counts.take_unbatchable(evaluation.feasible_count)
            return
        began = self._timer()
        signature = self._signer.sign(pod)
        hinted = self._ask(pod, signature, evaluation, cycle)
        asked = self._timer()
        self._counts.asked(hinted, asked - began)
        if row is not None:
            self._log_choice(pod, hinted, evaluation, row, cycle)
            self._store(pod, signature, hinted, evaluation, row, cycle)
            self._counts.stored(self._timer() - asked)

    def _ask(self, pod: PodInfo, signature: Hashable | None, evaluation: Evaluation, cycle: int) -> bool:
        """True if there is a hint for the pod."""
        reason = self._problem(pod, signature, evaluation, cycle) if self._left else None
        if reason is not None:
            self._flush(pod, reason, cycle)
        about = {"profile": self._profile, "pod": Ref(pod.key), "cycleCount": cycle}
        if reason is not None or not self._left:
            self._counts.no_hint += 1
            self._logger.info(4, "OpportunisticBatch no node hint available for pod", **about)
            return False
        self._left -= 1
        self._logger.info(3, "OpportunisticBatch provided node hint", **about, remainingNodes=self._left)
        return True

    def _problem(
        self, pod: PodInfo, signature: Hashable | None, evaluation: Evaluation, cycle: int
    ) -> str | None:
        """Why the batch cannot be used for a pod."""
        if cycle != self._last_cycle + 1:
            return POD_SKIPPED
        if self._skips_nominated and pod.pod.status.nominated_node_name:
            return POD_NOMINATED
        if signature is None or signature != self._signature:
            return POD_INCOMPATIBLE
        if self._clock.monotonic() > self._since + MAX_AGE:
            return EXPIRED
        row = self._table.row_of(self._last_node)
        if row is None:
            return NODE_MISSING
        if not evaluation.pod_class.filters.feasible.item(row):
            return None
        return self._rescore(row) if self._rescores else NODE_NOT_FULL

    def _rescore(self, row: int) -> str | None:
        """The last node takes part again."""
        began = self._timer()
        size = len(self._nodes)
        missing = bool((self._nodes & ~self._table.valid[:size]).any()) or row >= size
        if not missing:
            self._nodes[row] = True
            self._left += 1
        self._counts.rescored(self._timer() - began)
        return NODE_MISSING if missing else None

    def _is_hinted(self, hinted: bool, evaluation: Evaluation, row: int) -> bool:
        """True if the chosen node is one that the batch could hint at."""
        return bool(
            hinted and evaluation.only_row is None and row < len(self._nodes) and self._nodes.item(row)
        )

    def _log_choice(self, pod: PodInfo, hinted: bool, evaluation: Evaluation, row: int, cycle: int) -> None:
        if self._logger.enabled(4):
            chosen = self._table.name_of(row)
            self._logger.info(
                4,
                "OpportunisticBatch set cycle state",
                pod=Ref(pod.key),
                profile=self._profile,
                cycleCount=cycle,
                hintedNode=chosen if self._is_hinted(hinted, evaluation, row) else "",
                chosenNode=chosen,
            )

    def _store(
        self,
        pod: PodInfo,
        signature: Hashable | None,
        hinted: bool,
        evaluation: Evaluation,
        row: int,
        cycle: int,
    ) -> None:
        """Keep what the next pod may use."""
        self._last_cycle, self._last_node = cycle, self._table.name_of(row)
        used = self._is_hinted(hinted, evaluation, row)
        if hinted:
            self._counts.hinted(used)
        if used:
            self._nodes[row] = False
            return
        others = evaluation.feasible_count - 1
        if signature is None or not others:
            self._left = 0
            self._flush(pod, POD_NOT_BATCHABLE if others else EMPTY_LIST, cycle)
            return
        self._signature, self._left = signature, others
        self._nodes = evaluation.pod_class.filters.feasible.copy()
        self._nodes[row] = False
        self._since = self._clock.monotonic()
        self._logger.info(
            4,
            "OpportunisticBatch set batch information",
            profile=self._profile,
            nodes=others,
            cycleCount=cycle,
        )

    def _flush(self, pod: PodInfo, reason: str, cycle: int) -> None:
        self._counts.flushed(reason)
        self._logger.info(
            4,
            "OpportunisticBatch found unusable state",
            pod=Ref(pod.key),
            profile=self._profile,
            cycleCount=cycle,
            reason=reason,
        )


class BatchInstrument(Instrument):
    """Follows the batches of all profiles (feature gate OpportunisticBatching)."""

    def __init__(self, batches: Mapping[str, Batch], queue: SchedulingQueue) -> None:
        self._batches = batches
        self._queue = queue

    def searched(self, profile: Profile, queued: QueuedPod, result: ScheduleResult, began: float) -> None:
        batch = self._batches[profile.name]
        batch.note(queued.pod, result.evaluation, result.row, self._queue.cycle)
