"""A pod and its node, as the scheduling cycle hands them to the binding cycle."""

from collections.abc import Sequence

import msgspec

from stowplan.scheduler.cycle.profile import Profile
from stowplan.scheduler.framework.cycle_state import Cycle
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.queue.queued_pod import QueuedPod


class Assignment(msgspec.Struct, eq=False):
    """A pod and the node it is assumed on. `began` is when its scheduling cycle did.

    `pre_bind` are the PreBind plugins with work to do for it, unless `ready` says that they could not tell. A
    pod that `waits` does so at Permit. While its Binding is being sent it is `sending`; once it is `given_up`
    nothing more is done for it.
    """

    profile: Profile
    queued: QueuedPod
    cycle: Cycle
    node: str
    began: float
    feasible: int
    evaluated: int
    ready: Status
    pre_bind: Sequence[Plugin]
    waits: bool
    sending: bool = False
    given_up: bool = False
