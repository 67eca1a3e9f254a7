"""A store with a clock the test moves, and objects in one line."""

import random
from typing import Any

from stowplan.api.requests import Json
from stowplan.localcluster.store import Store, StoreChange

START = 1_767_225_600.0
"""2026-01-01T00:00:00Z"""


class HandClock:
    """Shows the time it is set to."""

    def __init__(self, time: float = START) -> None:
        self.time = time

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.now()


def new_store(clock: HandClock | None = None, rng: Any = None, **options: Any) -> Store:
    return Store(clock or HandClock(), rng or random.Random(1), **options)


def pod(name: str, namespace: str = "default", *, node: str = "", **metadata: Any) -> Json:
    spec: Json = {"containers": [{"name": "c"}], "terminationGracePeriodSeconds": 30}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, "spec": spec}


def binding(name: str, node: str, **metadata: Any) -> Json:
    return {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}


class Log:
    """A sink that remembers what it was told, in short."""

    def __init__(self) -> None:
        self.changes: list[StoreChange] = []

    def __call__(self, change: StoreChange) -> None:
        self.changes.append(change)

    @property
    def short(self) -> list[str]:
        return [
            f"{change.type} {change.object['metadata'].get('name', '')}".strip() for change in self.changes
        ]
