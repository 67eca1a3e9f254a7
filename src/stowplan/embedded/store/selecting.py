"""Selections turned into a question one can ask an object."""

from collections.abc import Callable
from typing import Any, Final

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import FieldTerm, Json, Selection
from stowplan.embedded.store.objects import labels_of

Predicate = Callable[[Json], bool]

_OWN: Final = ("metadata.name", "metadata.namespace")
_ABSENT: Final = {"spec.hostNetwork": "false", "spec.unschedulable": "false", "status.replicas": "0"}


def predicate(resource: Resource, namespace: str, selection: Selection) -> Predicate | None:
    """Whether an object is in a namespace (empty: any) and selected; None if every object is.

    Raises `ApiError` 400 for a field that cannot be selected by.
    """
    terms = list(selection.fields)
    if namespace and resource.namespaced:
        terms.append(FieldTerm("metadata.namespace", namespace))
    questions = _field_questions(resource, terms)
    if not selection.labels.is_empty:
        labels = selection.labels
        questions.append(lambda obj: labels.matches(labels_of(obj)))
    if len(questions) <= 1:
        return questions[0] if questions else None
    return lambda obj: all(question(obj) for question in questions)


def _field_questions(resource: Resource, terms: list[FieldTerm]) -> list[Predicate]:
    """One question for each field that has to have a value, one for all values another must not have."""
    questions: list[Predicate] = []
    unwanted: dict[str, set[str]] = {}
    for term in terms:
        _check(resource, term.path)
        if term.equal:
            questions.append(_field(term.path, {term.value}, wanted=True))
        else:
            unwanted.setdefault(term.path, set()).add(term.value)
    return questions + [_field(path, values, wanted=False) for path, values in unwanted.items()]


def _check(resource: Resource, path: str) -> None:
    if path in _OWN or path in resource.fields:
        return
    if resource.fields:
        raise status.bad_request(f"field label not supported: {path}")
    raise status.bad_request(
        f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _field(path: str, values: set[str], *, wanted: bool) -> Predicate:
    """Whether a field's value is among some values, or is none of them."""
    section, _, field = path.rpartition(".")
    absent = _ABSENT.get(path, "")

    def question(obj: Json) -> bool:
        part = obj.get(section) if section else obj
        value = part.get(field) if type(part) is dict else None
        if type(value) is not str:
            value = _shown(value, absent)
        return (value in values) is wanted

    return question


def _shown(value: Any, absent: str) -> str:
    if value is None:
        return absent
    return str(value).lower() if isinstance(value, bool) else str(value)
