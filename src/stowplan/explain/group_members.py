"""What the group of a pod means for its explanation: no member gets a node before the group does."""

from collections.abc import Mapping
from typing import Any

from stowplan.explain.states import FITS, PENDING, PLACED

Document = dict[str, Any]


def explained_as_member(pod: Document, group: Mapping[str, Any]) -> Document:
    """The explanation of a pod without a node, with that of its group in a few words.

    A member that would fit alone still waits if its group does.
    """
    short = {name: group[name] for name in ("group", "kind", "state", "reason", "message")}
    short["changes"] = group["changes"]
    member = {**pod, "group": short}
    if pod["state"] == FITS and is_waiting(group):
        member |= {"state": PENDING, "message": why_it_waits(group)}
    return member


def is_waiting(group: Mapping[str, Any]) -> bool:
    return group["state"] not in (FITS, PLACED)


def why_it_waits(group: Mapping[str, Any]) -> str:
    """`PodGroup a/b is waiting: 3 of 4 needed members would fit`."""
    return f"{group['kind']} {group['group']} is {group['state']}: {group['reason']}"


def what_would_help(group: Mapping[str, Any], most: int) -> str:
    """The changes that would place a group, in a few words."""
    texts = [
        f"{change['text']} in {change['domain']}" if change["domain"] else change["text"]
        for change in group["changes"][:most]
    ]
    return ", or ".join(texts)
