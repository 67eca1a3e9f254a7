"""The recorded stories, as they are read from their file."""

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from stowplan.api.requests import Json

RECORDING = Path(__file__).parents[3] / "observed" / "controllers" / "stories.jsonl.gz"

Item = dict[str, Any]


class Observation(msgspec.Struct, kw_only=True):
    """Result of a step, in normal form."""

    title: str
    answers: list[Json]
    objects: dict[str, list[Item]]
    events: list[Item]
    trace: list[str]
    extremes: dict[str, int]
    timeout: list[Json] = []


class Step(msgspec.Struct, kw_only=True):
    """Actions, and what to wait for before the outcome is taken down."""

    title: str
    do: list[Json] = []
    until: list[Json] = []
    hold: float = 0.0
    quiet: float = 1.5
    timeout: float | None = None
    ignore: list[str] = []
    loose_events: list[Item] = []
    limits: dict[str, int] = {}
    ordered: bool = False


class Observed(msgspec.Struct, kw_only=True):
    steps: list[Observation]


class Story(msgspec.Struct, kw_only=True):
    """A namespace of the same name, and what is done in it."""

    name: str
    observe: list[str]
    steps: list[Step]
    observed: Observed
    nodes: list[Json] = []
    cluster_events: bool = False
    scaling_varies: bool = False


def recorded_stories(prefix: str = "") -> Iterator[Story]:
    """Every story whose name begins so."""
    for line in gzip.decompress(RECORDING.read_bytes()).splitlines():
        story = msgspec.json.decode(line, type=Story)
        if story.name.startswith(prefix):
            yield story
