"""Requests of the scheduling cycles to the host: a cycle yields one and is resumed with the answer.

`scheduler/driver.py` performs these; requests to extenders are in `extenders/requests.py`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from stowplan.api.pod import Pod
from stowplan.scheduler.framework.budget import Request, Work
from stowplan.scheduler.framework.interface import PostFilterResult
from stowplan.scheduler.framework.pod_groups.placement import PodGroupInfo, PodGroupPostFilterResult
from stowplan.scheduler.framework.status import Status


@dataclass(frozen=True, slots=True)
class LongSearch(Request):
    """Work that takes long, to be done in slices. False if other pods would have to wait too long for it."""

    work: Work


@dataclass(frozen=True, slots=True)
class Write(Request):
    """Writes of PostFilter plugins, in order. Answered with the first error status, or None."""

    writes: Sequence[Callable[[], Awaitable[Status | None]]]


@dataclass(frozen=True, slots=True)
class EvictForPod(Request):
    """The victims of a pod's preemption have to go; it chose a node."""

    pod: Pod
    found: PostFilterResult


@dataclass(frozen=True, slots=True)
class EvictForGroup(Request):
    """A group's search for victims is to be counted, and they have to go if there are any."""

    group: PodGroupInfo
    found: PodGroupPostFilterResult
