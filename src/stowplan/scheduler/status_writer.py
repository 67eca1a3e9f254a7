"""Background writes of pods' statuses."""

from dataclasses import dataclass

from stowplan.api.pod import Pod
from stowplan.api.status import ApiError
from stowplan.runtime.logs import Ref
from stowplan.scheduler.context import Context
from stowplan.scheduler.cycle.failure_handler import OVERRIDING, UNHANDLED, UPDATING
from stowplan.scheduler.events import failure_patch, is_replaced, patch_status


@dataclass(slots=True)
class _StatusUpdate:
    """Update of a pod's status to write."""

    pod: Pod
    reason: str
    message: str
    nominated_node: str | None


class StatusWriter:
    """Writes in the background why pods could not be placed.

    One write per pod is under way at a time. Later updates are merged and written after it; nominations are
    not lost by that.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._under_way: dict[str, _StatusUpdate | None] = {}

    def submit(self, pod: Pod, reason: str, message: str, nominated_node: str | None) -> None:
        wanted = _StatusUpdate(pod, reason, message, nominated_node)
        if self._context.logger.enabled(3):
            self._log(wanted)
        uid = pod.metadata.uid
        if uid in self._under_way:
            later = self._under_way[uid]
            if later is not None and wanted.nominated_node is None:
                wanted.nominated_node = later.nominated_node
            self._under_way[uid] = wanted
        else:
            self._under_way[uid] = None
            self._context.tasks.start(self._write(uid, wanted), "pod status")

    def _log(self, wanted: _StatusUpdate) -> None:
        nomination: dict[str, object] = {}
        if wanted.nominated_node is not None:
            nomination = {"nominatedNodeName": wanted.nominated_node, "nominatingMode": OVERRIDING}
        self._context.logger.info(
            3,
            UPDATING,
            pod=Ref(wanted.pod.key),
            conditionType="PodScheduled",
            conditionStatus="False",
            conditionReason=wanted.reason,
            **nomination,
        )

    async def _write(self, uid: str, first: _StatusUpdate) -> None:
        context = self._context
        wanted: _StatusUpdate | None = first
        pod = first.pod
        try:
            while wanted is not None and not self._is_another(pod):
                patch = failure_patch(
                    pod,
                    reason=wanted.reason,
                    message=wanted.message,
                    now=context.clock.now(),
                    nominated_node=wanted.nominated_node,
                )
                try:
                    await patch_status(context.client, pod, patch, context.rng)
                except ApiError as error:
                    if is_replaced(error):
                        return
                    context.logger.error("Error updating pod", pod=Ref(pod.key), err=error, logger=UNHANDLED)
                wanted, self._under_way[uid] = self._under_way[uid], None
                if wanted is not None:
                    pod = self._latest(wanted.pod)
        except Exception as cause:  # noqa: BLE001 - a status that cannot be written must not end the scheduler
            context.unexpected("Writing a pod's status failed", cause, source="pod_status", pod=Ref(pod.key))
        finally:
            del self._under_way[uid]

    def _is_another(self, pod: Pod) -> bool:
        """True if a new pod has its name by now: it must not get a status that is not its own."""
        known = self._context.find(pod.key)
        return known is not None and known.metadata.uid != pod.metadata.uid

    def _latest(self, pod: Pod) -> Pod:
        """The pod as it was last told of, if it is still the same."""
        known = self._context.find(pod.key)
        return known if known is not None and known.metadata.uid == pod.metadata.uid else pod
