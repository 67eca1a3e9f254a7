"""Events as the core group shows them: the same events as in events.k8s.io, under older names.

They are kept in the newer form only, so whoever writes in one form is read in both.
"""

from collections.abc import Mapping
from typing import Final

from stowplan.api.catalogue import CORE_EVENTS, EVENTS
from stowplan.api.requests import FieldTerm, Json, Selection

_OLD_NAMES: Final[Mapping[str, str]] = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NEW_NAMES: Final[Mapping[str, str]] = {old: new for new, old in _OLD_NAMES.items()}


def as_core(event: Json) -> Json:
    """An event in the older form."""
    shown = {_OLD_NAMES.get(field, field): value for field, value in event.items()}
    shown["apiVersion"] = CORE_EVENTS.api_version
    shown.setdefault("source", {})
    for field in ("firstTimestamp", "lastTimestamp"):
        shown.setdefault(field, None)
    return shown


def from_core(event: Json) -> Json:
    """An event of the older form in the newer one."""
    kept = {_NEW_NAMES.get(field, field): value for field, value in event.items() if value is not None}
    if "apiVersion" in kept:
        kept["apiVersion"] = EVENTS.api_version
    return kept


def selection_from_core(selection: Selection) -> Selection:
    """A selection that names fields of the older form, by the names they are kept under."""
    if not selection.fields:
        return selection
    return Selection(selection.labels, tuple(map(_term, selection.fields)))


def _term(term: FieldTerm) -> FieldTerm:
    head, dot, rest = term.path.partition(".")
    if head == "source" and not dot:
        return term._replace(path="reportingController")
    return term._replace(path=_NEW_NAMES.get(head, head) + dot + rest)
