"""Background writes of pod groups' conditions.

A group that was placed once stays so, regardless of later members. A written condition is remembered until
the informer has seen it: a cycle that follows at once would otherwise take an old object for the current one,
and overwrite the newer condition.
"""

from dataclasses import dataclass

from stowplan.api.coscheduling import CoschedulingPodGroup
from stowplan.api.pod_groups import INITIALLY_SCHEDULED, GroupCondition, PodGroup
from stowplan.api.status import ApiError
from stowplan.runtime.logs import Ref
from stowplan.scheduler.context import Context
from stowplan.scheduler.cycle.failure_handler import UNHANDLED
from stowplan.scheduler.events import condition_patch, initially_scheduled, is_replaced, patch_group_status

_MOST_WRITTEN = 1024
"""Number of remembered conditions from which those of deleted groups are dropped."""


@dataclass(slots=True)
class _Write:
    """Last wanted condition of a group, and the state of its write."""

    uid: str
    condition: GroupCondition
    under_way: bool = False


class GroupStatusWriter:
    """Writes the condition PodGroupInitiallyScheduled; one write per group at a time, and only the last."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._wanted: dict[str, _Write] = {}

    def submit(self, group: PodGroup, status: str, reason: str, message: str) -> None:
        """Have a group's condition say this, unless it says True and this does not.

        Groups of scheduler-plugins have no conditions: a controller of theirs says how far they are.
        """
        if isinstance(group, CoschedulingPodGroup):
            return
        wanted = GroupCondition(
            type=INITIALLY_SCHEDULED,
            status=status,
            observed_generation=group.metadata.generation,
            reason=reason,
            message=message,
        )
        present = self._present(group)
        if present is not None and present.status == "True" and status != "True":
            return
        if present is not None and _is_same(present, wanted):
            return
        write = self._wanted.get(group.key)
        if write is None or write.uid != group.metadata.uid:
            write = self._wanted[group.key] = _Write(group.metadata.uid, wanted)
        write.condition = wanted
        if not write.under_way:
            write.under_way = True
            self._context.tasks.start(self._write(group, write), "pod group status")
        if len(self._wanted) > _MOST_WRITTEN:
            self._forget_gone()

    def _present(self, group: PodGroup) -> GroupCondition | None:
        """The condition as it is, or will be when what is under way is written."""
        seen = initially_scheduled(group)
        write = self._wanted.get(group.key)
        if write is None or write.uid != group.metadata.uid:
            return seen
        if not write.under_way and seen is not None and _is_same(seen, write.condition):
            del self._wanted[group.key]
            return seen
        return write.condition

    async def _write(self, group: PodGroup, write: _Write) -> None:
        context = self._context
        written: GroupCondition | None = None
        try:
            while write.condition is not written:
                written = write.condition
                patch = condition_patch(self._latest(group), written, context.clock.now())
                if patch is not None:
                    await patch_group_status(context.client, group, patch, context.rng)
        except ApiError as failure:
            self._forget(group, write)
            if not (failure.is_not_found or is_replaced(failure)):
                about = Ref(group.key)
                context.logger.error(
                    "Failed to update PodGroup status", podGroup=about, err=failure, logger=UNHANDLED
                )
        except Exception as cause:  # noqa: BLE001 - a status that cannot be written must not end the scheduler
            self._forget(group, write)
            about = Ref(group.key)
            context.unexpected(
                "Writing a pod group's status failed", cause, source="pod_group_status", podGroup=about
            )
        finally:
            write.under_way = False

    def _latest(self, group: PodGroup) -> PodGroup:
        """The group as it was last told of, if it is still the same."""
        known = self._context.cache.groups.object(group.group_key)
        same = isinstance(known, PodGroup) and known.metadata.uid == group.metadata.uid
        return known if same and isinstance(known, PodGroup) else group

    def _forget(self, group: PodGroup, write: _Write) -> None:
        """Forget a condition that could not be written; it is tried again after the next attempt."""
        if self._wanted.get(group.key) is write:
            del self._wanted[group.key]

    def _forget_gone(self) -> None:
        groups = self._context.cache.groups
        for key, write in list(self._wanted.items()):
            known = groups.object(f"podgroup/{key}")
            if known is None or known.metadata.uid != write.uid:
                del self._wanted[key]


def _is_same(one: GroupCondition, other: GroupCondition) -> bool:
    """True if two conditions are equal except for their times."""
    return (one.status, one.reason, one.message, one.observed_generation) == (
        other.status,
        other.reason,
        other.message,
        other.observed_generation,
    )
