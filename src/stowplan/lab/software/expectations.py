"""Expectations of projects: everything is applied and becomes ready, except for what a list names."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec

from stowplan.explain.layout import table
from stowplan.gocompat.jsontext import TextError
from stowplan.gocompat.yamltext import load_yaml_documents
from stowplan.lab.software.install import Installed

_FIELDS: Final = "objects, refused and notReady"
_SHOWN: Final = 8
_CRASH: Final = re.compile(r": [A-Z]\w*(Error|Exception): ")
"""A problem with the name of an exception. Others pass: a pod is refused until its ServiceAccount exists."""


class ExpectationError(ValueError):
    """A list that cannot be read; the message is one line."""


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Expectations of a project.

    `refused` and `not_ready` are parts of lines about objects that cannot be applied or do not become ready.
    """

    objects: int | None = None
    refused: tuple[str, ...] = ()
    not_ready: tuple[str, ...] = ()


def ours() -> dict[str, Expected]:
    """Our list for public projects."""
    text = files("stowplan.lab.software").joinpath("expected.yaml").read_text(encoding="utf-8")
    return _converted(load_yaml_documents(text)[0], "expected.yaml")


def read_expected(path: Path) -> dict[str, Expected]:
    """A list of expectations by project. Raises `ExpectationError`."""
    try:
        documents = load_yaml_documents(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExpectationError(f"{path}: {error.strerror}") from None
    except (TextError, UnicodeDecodeError) as error:
        raise ExpectationError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    return _converted(documents[0] if documents else {}, str(path))


def _converted(data: Any, where: str) -> dict[str, Expected]:
    try:
        return msgspec.convert(data or {}, dict[str, Expected])
    except msgspec.ValidationError as error:
        raise ExpectationError(f"{where}: expected {_FIELDS} by project: {error}") from None


def differences(installed: Installed, expected: Mapping[str, Expected]) -> list[str]:
    """Lines about everything that is not as expected; a project without expectations should just work."""
    wanted = expected.get(installed.project, Expected())
    found: list[str] = []
    if wanted.objects is not None and installed.objects != wanted.objects:
        found.append(f"objects: expected {wanted.objects}, found {installed.objects}")
    refused = [f"{name}: {reason}" for name, reason in installed.refused.items()]
    for what, lines, parts in (
        ("refused", refused, wanted.refused),
        ("not ready", installed.not_ready, wanted.not_ready),
    ):
        found += [f"{what}: {line}" for line in lines if not any(part in line for part in parts)]
        found += [
            f"expected to be {what}, but is not: {part}"
            for part in parts
            if not any(part in line for line in lines)
        ]
    crashes = filter(_CRASH.search, dict.fromkeys(installed.problems))
    return found + [f"problem: {line}" for line in crashes]


def report_of(found: Sequence[Installed], expected: Mapping[str, Expected]) -> list[str]:
    """A table of the projects, then the differences from what is expected."""
    rows: list[tuple[str, ...]] = []
    details: list[str] = []
    for one in found:
        lines = differences(one, expected)
        ready = "yes" if not one.not_ready else f"no: {len(one.not_ready)}"
        counts = (one.objects, one.applied, len(one.refused))
        rows.append((one.project, *map(str, counts), ready, str(len(lines))))
        if lines:
            more = len(lines) - _SHOWN
            details += ["", one.project, *(f"  {line}" for line in lines[:_SHOWN])]
            details += [f"  and {more} more"] if more > 0 else []
    return (
        table(("project", "objects", "applied", "refused", "ready", "differences"), rows, (1, 2, 3, 5))
        + details
    )
