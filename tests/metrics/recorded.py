"""The families kube-scheduler 1.36 was seen to expose: what they are, not what is said of them."""

import json
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
