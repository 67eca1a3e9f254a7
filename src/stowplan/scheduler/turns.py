"""The order of everything that changes what decisions depend on, for who records a scheduler or replays it.

A decision depends on the cache, the queue, the plugins' own state, random numbers and the time. They change
in *turns*: a watch event is handled, a pod's scheduling cycle runs, queues are flushed, or work in the
background (binding cycles, preemption, requests of plugins) has its effect. Nothing else happens during a
turn, and the time stands still in it. So the turns in their order, with their times and what came from
outside, are all that a replay needs (recording/).
"""

from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Final, Protocol, TypeVar

from stowplan.client import Client, Handler
from stowplan.runtime.clock import Clock

T = TypeVar("T")

FLUSH_BACKOFF: Final = 0
FLUSH_UNSCHEDULABLE: Final = 1

# Turns of background work.
FAIL: Final = "fail"
"""A pod gives its node back and is requeued; the value is why."""
BOUND: Final = "bound"
"""Plugins hear that a pod is bound, or pods are activated after that."""
PREEMPTING: Final = "preempting"
"""The deletion of a preemptor's victims begins; the value is whether the last of them is not bound yet."""
VICTIM: Final = "victim"
"""A victim is to go for a preemptor (two uids); the value is whether it was not bound yet.

Where turns are given it is None if the turn never came: another victim could not be deleted before.
"""
FOR: Final = " for "
"""Between the uid of a victim and that of its preemptor."""
DELETED: Final = "deleted"
"""The API server was asked to delete a victim; the value is whether that went well."""
LAST_VICTIM: Final = "last victim"
"""All victims but the last of a preemptor are gone."""
PREEMPTED: Final = "preempted"
"""Preemption for a pod is over; the value is whether it succeeded."""
WRITING: Final = "writing"
"""A scheduling cycle begins to write what PostFilter plugins want written.

The same may be written in the background for the pod: which request was sent first, answers go by.
"""
ASIDE: Final = "aside"
"""A pod was popped, and put aside because its search takes long. Its cycle comes later."""
GOING_ON: Final = "going on"
"""A plugin continues its background work for a pod."""

on_behalf_of: ContextVar[str] = ContextVar("on_behalf_of", default="")
"""The uid of the pod or group whose scheduling or binding cycle sends a request, while turns are taken.

It distinguishes requests about the same object: those for another pod are answered in another order.
"""


class ReplayLog(Protocol):
    """Records turns, or replays them in a recorded order.

    An instrument only observes. A replay has to provide input: the time, the API server's answers, and the
    turns of background work. So this is separate from the hooks, and the cycles know nothing about it.
    """

    @property
    def clock(self) -> Clock:
        """The time of the current turn."""
        ...

    def wrapped(self, client: Client) -> Client:
        """The client that plugins are given."""
        ...

    def handler(self, resource: str, handler: Handler[Any]) -> Handler[Any]:
        """The event handler of a resource."""
        ...

    def run(self) -> Coroutine[Any, Any, None]:
        """Concurrent work for as long as the scheduler watches."""
        ...

    async def take(self, what: str, uid: str, value: T) -> T:
        """Have a turn for work in the background; returns the value to go on with."""
        ...

    @property
    def are_given(self) -> bool:
        """True if turns come in a recorded order: no task has to wait for another one to be first."""
        ...

    @property
    def rest_wanted(self) -> bool:
        """True if the scheduler shall pause for a moment, with nothing under way, and call `rest`."""
        ...

    def rest(self) -> None:
        """Nothing is under way."""
