"""A class of pods: those that no enabled plugin can tell apart, and what is kept for them."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple

from stowplan.framework.feasibility import Feasibility
from stowplan.framework.plugin import Plugin, PreFilterResult
from stowplan.framework.preference import Preference
from stowplan.framework.status import Status

PreFilterAnswer = Status | PreFilterResult | None


class ClassKey:
    """Stands for a signature: made once per distinct signature, hashed by identity, cheap to look up."""

    __slots__ = ("__weakref__",)


class Settled(NamedTuple):
    """Answers that hold for every pod of a class: who skips, what they found, and who must still be asked."""

    skipped: frozenset[str]
    states: dict[str, Any]
    asking: tuple[Plugin, ...]


class PodClass:
    """Kept results for pods with one signature. `memos` is what plugins keep for the class."""

    __slots__ = (
        "capacity",
        "feasibility",
        "memos",
        "preference",
        "settled_pre_filters",
        "settled_pre_scores",
    )

    def __init__(self, capacity: int, feasibility: Feasibility, preference: Preference) -> None:
        self.capacity = capacity
        self.feasibility = feasibility
        self.preference = preference
        self.memos: dict[str, Any] = {}
        self.settled_pre_filters: Settled | None = None
        self.settled_pre_scores: Settled | None = None

    @property
    def bytes(self) -> int:
        """Memory held, near enough: what grows with the number of rows."""
        codes = sum(column.codes is not None for column in self.feasibility.columns)
        scores = sum(
            (column.raw is not None) + (column.final is not None) for column in self.preference.columns
        )
        return self.capacity * (16 + 8 * codes + 8 * scores) + 4096


class PodClasses:
    """Classes by signature, the longest unused forgotten first once they take too much memory."""

    def __init__(self, plugins: dict[str, Plugin], budget: int) -> None:
        self._plugins = plugins
        self._budget = budget
        self._classes: OrderedDict[Hashable, PodClass] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._classes)

    def get(self, key: Hashable) -> PodClass | None:
        found = self._classes.get(key)
        if found is not None:
            self._classes.move_to_end(key)
        return found

    def put(self, key: Hashable, pod_class: PodClass) -> None:
        self._classes[key] = pod_class
        self._sizes[key] = 0

    def settle(self, key: Hashable, pod_class: PodClass) -> None:
        """Account for a class after its first use, and make room if need be."""
        if self._sizes.get(key):
            return
        self._sizes[key] = size = pod_class.bytes
        self._held += size
        while self._held > self._budget and len(self._classes) > 1:
            self.drop(next(iter(self._classes)))

    def drop(self, key: Hashable) -> None:
        pod_class = self._classes.pop(key, None)
        if pod_class is None:
            return
        self._held -= self._sizes.pop(key)
        self.release(pod_class)

    def release(self, pod_class: PodClass) -> None:
        """Let plugins give back what they kept for the class."""
        for name, memo in pod_class.memos.items():
            self._plugins[name].release(memo)

    def clear(self) -> None:
        for key in list(self._classes):
            self.drop(key)
