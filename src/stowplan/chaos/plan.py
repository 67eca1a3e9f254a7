"""A plan: all that will happen in a run, as plain data."""

from typing import Any, Final

import msgspec

Body = dict[str, Any]

OURS: Final = ("default-scheduler", "second")
"""The names of the profiles a run's scheduler can have."""

OTHERS: Final = "other"
"""The scheduler that pods ask for that are none of ours."""

NAMESPACE: Final = "d"


class Action(msgspec.Struct, frozen=True):
    """Something that somebody outside does at a moment: what, to which object, and with what."""

    at: float
    what: str
    name: str = ""
    body: Body = {}


class Weather(msgspec.Struct, frozen=True):
    """How much goes wrong between two moments.

    What the API server does is said as in `stowplan.testing.faults.Faults`. `plugins` and `extenders` are how
    likely these are to fail, reject or dawdle when they are asked. Volumes take `making` seconds to be made,
    unless that fails, which is as likely as `unmade` says; what the volume controllers ask of the API server
    takes up to `controllers` seconds.
    """

    begins: float
    ends: float
    refused: float = 0.0
    lost: float = 0.0
    cut: float = 0.0
    forgotten: float = 0.0
    lifetime: float | None = None
    delay: float = 0.0
    plugins: float = 0.0
    extenders: float = 0.0
    making: float = 0.5
    unmade: float = 0.0
    controllers: float = 0.0


class StoragePlan(msgspec.Struct, frozen=True):
    """A run with volumes: how many seconds the scheduler waits for them."""

    bind_timeout: int


class ExtenderPlan(msgspec.Struct, frozen=True):
    """An extender: what it takes part in, and the salt of the rule by which it rejects nodes."""

    name: str
    salt: int
    ignorable: bool = False
    filters: bool = True
    binds: bool = False
    preempts: bool = False


class Plan(msgspec.Struct, frozen=True):
    """One run. `seed` is where all chance during the run comes from.

    `ends` is when everything that goes wrong stops. `history` is how many changes the store remembers for
    those who resume a watch, `buffer` how far a watch may lag behind. `moody` are the profiles that have the
    plugin that fails. Without `storage` nobody has claims, and nobody looks after them.
    """

    seed: int
    ends: float
    history: int
    buffer: int
    profiles: tuple[str, ...]
    moody: tuple[str, ...]
    extenders: tuple[ExtenderPlan, ...]
    weather: tuple[Weather, ...]
    actions: tuple[Action, ...]
    storage: StoragePlan | None = None

    def text(self) -> str:
        """The plan for people: the circumstances, then one line per action."""
        rest = msgspec.structs.replace(self, actions=())
        lines = [msgspec.json.encode(rest).decode()]
        for action in self.actions:
            lines.append(f"{action.at:8.3f}  {action.what} {action.name} {_short(action.body)}".rstrip())
        return "\n".join(lines)


def _short(body: Body) -> str:
    return msgspec.json.encode(body).decode() if body else ""
