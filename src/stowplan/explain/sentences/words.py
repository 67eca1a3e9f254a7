"""Words that several sentences share: names of pods, messages in brief, the outcome of a change."""

import re
from collections.abc import Sequence
from typing import Final

from stowplan.explain.layout import plural

SHOWN: Final = 2
"""How many reasons a cause, and how many changes a remedy has."""
NAMED: Final = 4
"""How many pods a sentence names."""
NO_CHANGE: Final = "no single change was found"

_GROUP_UNSCHEDULABLE: Final = "pod group is unschedulable, "
_NODE_COUNTS: Final = re.compile(r"0/\d+ nodes are available: ")


def outcome(node: str, nodes: int, victims: Sequence[str] = ()) -> str:
    """Where a pod would go after a change: `n1, 3 nodes fit`."""
    if victims:
        return f"{node}; {names(victims, SHOWN)} would go"
    return node if nodes == 1 else f"{node}, {plural(nodes, 'node')} fit"


def brief(message: str) -> str:
    """A message of the scheduler without what all such messages begin with."""
    while message.startswith(_GROUP_UNSCHEDULABLE):
        message = message.removeprefix(_GROUP_UNSCHEDULABLE)
    counted = _NODE_COUNTS.match(message)
    return message if counted is None else message[counted.end() :]


def names(keys: Sequence[str], most: int) -> str:
    """Pods by name, so many at most."""
    shown = list(keys[:most])
    more = len(keys) - len(shown)
    if more:
        return f"{', '.join(shown)} and {more} more"
    return " and ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)
