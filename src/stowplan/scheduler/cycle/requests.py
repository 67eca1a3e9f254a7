"""What the scheduling cycles cannot do themselves: they yield it and are resumed with the answer.

`scheduler/driver.py` performs these; what extenders are asked is in `extenders/requests.py`.
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
    """What PostFilter plugins want written, in order. Answered with the first status against it, or None."""

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
