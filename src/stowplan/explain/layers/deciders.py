"""The scheduler that decides a pod: this one, another that is seen to work, or nobody.

A name alone says nothing: a scheduler counts as working if its lease is renewed, if it has placed pods that
name it, or if it wrote events about one of them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final

from stowplan.api.catalogue import EVENTS, LEASES
from stowplan.api.meta import seconds_of
from stowplan.api.pod import Pod
from stowplan.api.writes import Event, Lease
from stowplan.explain.document.layers import Decider
from stowplan.explain.layers.reads import ObjectReads
from stowplan.explain.layout import plural, span

DEFAULT: Final = "default-scheduler"
_LEASES_IN: Final = "kube-system"
_SUFFIX: Final = "-scheduler"
_SLACK: Final = 2.0
"""A lease counts as renewed for twice its duration: clocks differ."""


class Deciders:
    """Finds the decider of pods, once for each scheduler that they name.

    `profiles` are those of the scheduler or configuration that answers. `now` is None for a dump: leases in
    it are as old as the dump.
    """

    def __init__(
        self,
        profiles: Collection[str],
        pods: Callable[[], Iterable[Pod]],
        reads: ObjectReads,
        now: float | None,
    ) -> None:
        self._profiles = profiles
        self._pods = pods
        self._reads = reads
        self._now = now
        self._known: dict[str, Decider] = {}
        self._placed: Counter[str] | None = None

    def ours(self, pod: Pod) -> Decider | None:
        """The decider of a pod that is ours; None for any other pod."""
        name = pod.spec.scheduler_name or DEFAULT
        if name not in self._profiles:
            if pod.spec.scheduler_name:
                return None
            name = next(iter(self._profiles))
        return Decider(name, "this", name, f"decided by profile {name}")

    async def of(self, pod: Pod) -> Decider:
        """The decider of a pod; `pod` is also where events are looked for."""
        found = self.ours(pod)
        if found is not None:
            return found
        name = pod.spec.scheduler_name
        if name not in self._known:
            self._known[name] = await self._find(name, pod)
        return self._known[name]

    async def _find(self, name: str, pod: Pod) -> Decider:
        if self._placed is None:
            self._placed = Counter(one.spec.scheduler_name for one in self._pods() if one.spec.node_name)
        placed = self._placed[name]
        if placed:
            return Decider(name, "other", text=f"decided by scheduler {name}, which placed {_pods(placed)}")
        lease = await self._lease(name)
        if lease:
            return Decider(name, "other", text=f"decided by scheduler {name}: {lease}")
        event = await self._event(name, pod)
        if event:
            return Decider(name, "other", text=f"decided by scheduler {name}: {event}")
        missing = [
            self._reads.unread[plural] for plural in ("leases", "events") if plural in self._reads.unread
        ]
        if missing:
            text = f"whether scheduler {name} runs is not known: {'; '.join(missing)}"
            return Decider(name, "unknown", text=text)
        text = (
            f"nobody answers to schedulerName {name}: no lease, no event and no placed pod of that scheduler"
        )
        return Decider(name, "nobody", text=text)

    async def _lease(self, name: str) -> str:
        """That a lease of the scheduler is renewed; "" if none is seen."""
        for lease in await self._reads.list(LEASES, Lease, _LEASES_IN):
            if not _belongs(lease.name, name):
                continue
            renewed, seconds = lease.spec.renew_time, lease.spec.lease_duration_seconds or 15
            if not lease.spec.holder_identity or not renewed:
                continue
            if self._now is None:
                return f"its lease {lease.key} is held by {lease.spec.holder_identity}"
            try:
                age = self._now - seconds_of(renewed)
            except ValueError:
                continue
            if age <= seconds * _SLACK:
                return f"its lease {lease.key} was renewed {span(age)} ago"
        return ""

    async def _event(self, name: str, pod: Pod) -> str:
        events = await self._reads.list(EVENTS, Event, pod.namespace, regarding__name=pod.metadata.name)
        return next((f"it wrote the event {one.reason}" for one in events if one.component == name), "")


def _belongs(lease: str, scheduler: str) -> bool:
    """True if a lease is that of a scheduler, by the usual names: `volcano`, `volcano-scheduler`."""
    stem = scheduler.removesuffix(_SUFFIX)
    return lease in (scheduler, stem, stem + _SUFFIX) or lease.startswith(f"{scheduler}-")


def _pods(count: int) -> str:
    return plural(count, "pod that names it", "pods that name it")
