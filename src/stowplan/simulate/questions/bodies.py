"""Bodies of questions, strict: an unknown field is an error. Nothing in them names a file of this machine."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final, TypeVar

import msgspec

from stowplan.explain.web.questions import YAML
from stowplan.gocompat.jsontext import MAX_DEPTH, TextError
from stowplan.gocompat.yamltext import load_yaml
from stowplan.simulate.changes import Change
from stowplan.simulate.creation.manifests import Manifests, manifests_of_text
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.places import field_and_text, not_yaml

MANIFESTS: Final = "manifests"
_MOST_REPLICAS: Final = 10_000_000
_MOST_CHANGES: Final = 100
_MOST_SEED: Final = 1 << 53
_MOST_WEIGHT: Final = (1 << 31) - 1

Text = str | dict[str, Any] | list[Any]
"""Objects: as a text in YAML or JSON, as an object, or as a list of them."""
B = TypeVar("B", bound="Body")


class BodyError(SnapshotError):
    """A mistake in a body; `field` is the one to be changed."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """Fields of all questions. `nodes` and `report` ask for the nodes before and after, and an HTML file."""

    namespace: Annotated[str, msgspec.Meta(pattern="^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")] = "default"
    seed: Annotated[int, msgspec.Meta(ge=0, le=_MOST_SEED)] = 0
    nodes: bool = False
    report: bool = False


class FitBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """`stowplan fit`."""

    manifests: Text
    replicas: Annotated[int, msgspec.Meta(ge=0, le=_MOST_REPLICAS)] | None = None
    max: bool = False
    preempt: bool = False
    pending_first: bool = False


class WhatIfBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """`stowplan whatif`: changes as in its file, then manifests that are applied."""

    changes: Annotated[list[Change], msgspec.Meta(max_length=_MOST_CHANGES)] = []
    manifests: Text | None = None


class ProfileChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Weights by plugin, and the strategy by which NodeResourcesFit scores."""

    weights: dict[str, Annotated[int, msgspec.Meta(ge=1, le=_MOST_WEIGHT)]] = {}
    strategy: str = ""


class CompareBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """`stowplan whatif --new-config`: another configuration, or changes to profiles of the present one."""

    config: str | dict[str, Any] | None = None
    profiles: dict[str, ProfileChange] = {}


class ExplainBody(Body, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """`stowplan explain -f`."""

    manifests: Text


BODIES: Final[dict[str, type[Body]]] = {
    "fit": FitBody,
    "whatif": WhatIfBody,
    "compare": CompareBody,
    "explain": ExplainBody,
}


def read_body(data: bytes, media: str, cls: type[B]) -> B:
    """A body. Raises BodyError."""
    try:
        body = load_yaml(data.decode()) if media == YAML else msgspec.json.decode(data)
    except UnicodeDecodeError as error:
        raise BodyError("", f"body: byte {error.start}: expected UTF-8") from None
    except TextError as error:
        raise BodyError("", str(not_yaml("body", error))) from None
    except msgspec.DecodeError as error:
        raise BodyError("", f"body: not JSON: {error}") from None
    except RecursionError:
        raise BodyError("", f"body: nested deeper than {MAX_DEPTH}") from None
    _check_depth(body)
    try:
        found = msgspec.convert(body, cls)
    except msgspec.ValidationError as error:
        field, text = field_and_text(str(error))
        raise BodyError(field, text) from None
    if isinstance(found, WhatIfBody):
        _check_changes(found)
    if isinstance(found, CompareBody) and (found.config is None) == (not found.profiles):
        raise BodyError("config", "expected either config or profiles")
    return found


def _check_depth(body: Any) -> None:
    """Raises BodyError for a body that is nested too deeply, whatever it is written in."""
    level = [body]
    for _ in range(MAX_DEPTH):
        level = [
            value
            for one in level
            if isinstance(one, dict | list)
            for value in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise BodyError("", f"body: nested deeper than {MAX_DEPTH}")


def _check_changes(body: WhatIfBody) -> None:
    """Raises BodyError unless each change is one, and none names a file."""
    if not body.changes and body.manifests is None:
        raise BodyError("changes", "expected a change, such as {drain: node-7}, or manifests")
    for number, change in enumerate(body.changes):
        where = f"changes[{number}]"
        if len(change.fields) != 1:
            fields = (one.encode_name for one in msgspec.structs.fields(Change))
            offered = ", ".join(name for name in fields if name not in ("apply", "config"))
            raise BodyError(where, f"expected exactly one of {offered}")
        [(field, value)] = change.fields.items()
        if field == "apply":
            raise BodyError(f"{where}.apply", f"names a file: expected the objects in {MANIFESTS}")
        if field == "config":
            raise BodyError(f"{where}.config", "names a file: expected the question compare")
        if field == "add_nodes" and isinstance(value, str):
            raise BodyError(f"{where}.addNodes", "names a file: expected shapes, or counts by node")


def text_of(objects: Text) -> str:
    """Objects of a body as one text in YAML or JSON."""
    if isinstance(objects, str):
        return objects
    if isinstance(objects, list):
        objects = {"apiVersion": "v1", "kind": "List", "items": objects}
    return msgspec.json.format(msgspec.json.encode(objects), indent=2).decode()


_LINE: Final = re.compile(rf"{MANIFESTS}:(?P<line>\d+)?:? *")


@contextmanager
def mistakes_in_manifests(objects: Text) -> Iterator[None]:
    """Mistakes in manifests, also those that are found later, as mistakes of the field.

    Raises BodyError. Only a text has lines.
    """
    try:
        yield
    except BodyError:
        raise
    except SnapshotError as error:
        found = _LINE.match(str(error))
        line = found["line"] if found is not None and isinstance(objects, str) else None
        text = str(error) if found is None else str(error)[found.end() :]
        raise BodyError(MANIFESTS, f"line {line}: {text}" if line else text) from None


def manifests_of(objects: Text, namespace: str, *, pods: bool) -> Manifests:
    """Manifests of a body; with `pods` they have to create some. Raises BodyError."""
    with mistakes_in_manifests(objects):
        found = manifests_of_text(MANIFESTS, text_of(objects), namespace)
    if pods and not found.workloads:
        raise BodyError(MANIFESTS, "expected a pod or a workload")
    return found
