"""The families of kube-scheduler 1.36 and 1.37: what they are, not what is said of them."""

import gzip
import json
import re
from pathlib import Path
from typing import NamedTuple


class Recorded(NamedTuple):
    """One family. `unlabelled`: it has no labels, so it is there before anything happened."""

    name: str
    type: str
    stability: str
    labels: tuple[str, ...]
    buckets: tuple[str, ...]

    @property
    def unlabelled(self) -> bool:
        return not self.labels


def recorded() -> list[Recorded]:
    found = json.loads((Path(__file__).parent / "recorded.json").read_text())
    return [
        Recorded(
            entry["name"],
            entry["type"],
            entry["stability"],
            tuple(entry["labels"]),
            tuple(entry.get("buckets", ())),
        )
        for entry in found
    ]


def registry_of_1_37() -> list[Recorded]:
    """The families that kube-scheduler 1.37 registers for scheduling, whether or not anything was counted."""
    file = Path(__file__).parents[2] / "golden-1.37" / "metrics.json.gz"
    found = json.loads(gzip.decompress(file.read_bytes()))["registry"]
    return [
        Recorded(
            name,
            entry["type"],
            entry["stability"],
            tuple(entry["labels"]),
            _bounds(entry.get("buckets") or ""),
        )
        for name, entry in found.items()
    ]


def _bounds(written: str) -> tuple[str, ...]:
    """The bounds of buckets written as a call with start, factor and count."""
    numbers = re.findall(r"[\d.]+", written.partition("(")[2])
    if not numbers:
        return ()
    start, factor, count = float(numbers[0]), float(numbers[1]), int(numbers[2])
    return tuple(str(start * factor**power) for power in range(count))
