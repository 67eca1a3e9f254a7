"""A class of pods: those that no enabled plugin can tell apart, and what is kept for them."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from stowplan.scheduler.framework.instrument import CallCounter
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.framework.nominations import NominatedVerdicts
from stowplan.scheduler.framework.reuse.filter_results import FilterResults
from stowplan.scheduler.framework.reuse.score_results import ScoreResults
from stowplan.scheduler.framework.status import Status
from stowplan.scheduler.table.changes import Rows


class ClassKey:
    """Stands for a signature: made once per distinct signature, hashed by identity, cheap to look up."""

    __slots__ = ("__weakref__", "digest", "parts")

    def __init__(self, parts: tuple[Hashable, ...], digest: int) -> None:
        self.parts = parts
        """The signature. That of a class begins with the key of the data that pods share regardless of
        labels."""
        self.digest = digest
        """The hash of the signature, which outlives the key."""


class ClassKeys:
    """The keys of signatures, as long as they are in use.

    Signatures may be large, and hashing one reads all of it: it is done once.
    """

    def __init__(self) -> None:
        self._by_digest: WeakValueDictionary[int, ClassKey] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._by_digest)

    def of(self, parts: tuple[Hashable, ...]) -> ClassKey:
        """The key of a signature. Raises TypeError if it cannot be hashed."""
        digest = hash(tuple([one.digest if isinstance(one, ClassKey) else one for one in parts]))
        place = digest
        key = self._by_digest.get(place)
        while key is not None and key.parts != parts:
            place += 1
            key = self._by_digest.get(place)
        if key is None:
            key = self._by_digest[place] = ClassKey(parts, digest)
        return key


class Settled(NamedTuple):
    """Answers that hold for every pod of a class: who skips, what they found, and who must still be asked."""

    skipped: frozenset[str]
    states: dict[str, Any]
    asking: tuple[Plugin, ...]
    unions: dict[tuple[str, ...], frozenset[str]]

    def skipped_with(self, others: tuple[str, ...]) -> frozenset[str]:
        """Plugins that skip a pod together with `others`; the same set object for the same plugins."""
        found = self.unions.get(others)
        if found is None:
            found = self.unions[others] = self.skipped.union(others)
        return found


class EquivalenceClass:
    """Kept results for pods with one signature.

    `key` stands for the signature. `memos` is what plugins keep for the class; nothing is kept for `unsigned`
    ones. Once the class is `released` they are no longer kept current.
    """

    __slots__ = (
        "asked",
        "beside",
        "capacity",
        "filters",
        "funnel",
        "key",
        "memos",
        "rejections",
        "released",
        "scores",
        "settled_pre_filters",
        "settled_pre_scores",
        "unsigned",
    )

    def __init__(
        self,
        key: Hashable,
        unsigned: frozenset[str],
        capacity: int,
        filters: FilterResults,
        scores: ScoreResults,
    ) -> None:
        self.key = key
        self.unsigned = unsigned
        self.capacity = capacity
        self.filters = filters
        self.beside = NominatedVerdicts()
        self.scores = scores
        self.memos: dict[str, Any] = {}
        self.released = False
        self.asked: dict[str, tuple[frozenset[str], CallCounter]] = {}
        """By extension point, who skipped the last pod, and where it is counted that others were asked."""
        self.funnel: tuple[int, Any] | None = None
        """Funnel of rejected nodes that decision.py last computed, and the version of the rejections then."""
        self.rejections: tuple[int, dict[Status, Rows]] | None = None
        """Rejected rows by verdict as last put into words, and the version of the rejections then."""
        self.settled_pre_filters: Settled | None = None
        self.settled_pre_scores: Settled | None = None

    @property
    def bytes(self) -> int:
        """Memory that may be held, near enough: what grows with the number of rows."""
        columns = len(self.filters.columns) + 2 * len(self.scores.columns)
        return self.capacity * (20 + 8 * columns // 2) + 4096


_FRESH = 4
"""Few, so that what is worked out for the next one stays in the processor's cache."""
_REMEMBERED = 8192


class EquivalenceClasses:
    """Classes by signature.

    A class met for the first time may never be met again (every pod its own template), so only a few such are
    kept. One that is met a second time, even after it was dropped, is kept until all kept classes take more
    than `budget` bytes; then the longest unused goes first.
    """

    def __init__(self, plugins: dict[str, Plugin], budget: int) -> None:
        self._plugins = plugins
        self._budget = budget
        self._fresh: OrderedDict[Hashable, EquivalenceClass] = OrderedDict()
        self._kept: OrderedDict[Hashable, EquivalenceClass] = OrderedDict()
        self._met: OrderedDict[int, None] = OrderedDict()
        """Dropped classes, by a hash: their signatures may be large."""
        self._sizes: dict[Hashable, int] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._fresh) + len(self._kept)

    def get(self, key: Hashable) -> EquivalenceClass | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found
        found = self._fresh.pop(key, None)
        if found is not None:
            self._keep(key, found)
        return found

    def put(self, pod_class: EquivalenceClass) -> None:
        """Take in a class that `get` did not know."""
        key = pod_class.key
        digest = _digest(key)
        if digest in self._met:
            del self._met[digest]
            self._keep(key, pod_class)
            return
        self._fresh[key] = pod_class
        if len(self._fresh) > _FRESH:
            self._let_go(next(iter(self._fresh)))

    def sizes(self) -> dict[str, int]:
        return {
            "classes met once": len(self._fresh),
            "classes kept": len(self._kept),
            "bytes of classes kept": self._held,
            "classes remembered": len(self._met),
        }

    def drop(self, pod_class: EquivalenceClass) -> None:
        """Forget a class, if it is known at all."""
        self._drop(pod_class.key)

    def _drop(self, key: Hashable) -> None:
        pod_class = self._fresh.pop(key, None) or self._kept.pop(key, None)
        if pod_class is not None:
            self._held -= self._sizes.pop(key, 0)
            self._release(pod_class)

    def clear(self) -> None:
        for key in (*self._fresh, *self._kept):
            self._drop(key)

    def _keep(self, key: Hashable, pod_class: EquivalenceClass) -> None:
        self._kept[key] = pod_class
        self._sizes[key] = size = pod_class.bytes
        self._held += size
        while self._held > self._budget and len(self._kept) > 1:
            self._let_go(next(iter(self._kept)))

    def _let_go(self, key: Hashable) -> None:
        """Drop a class to make room, and know it again if it comes back."""
        self._drop(key)
        self._met[_digest(key)] = None
        if len(self._met) > _REMEMBERED:
            self._met.popitem(last=False)

    def _release(self, pod_class: EquivalenceClass) -> None:
        """Let plugins give back what they kept for the class."""
        pod_class.released = True
        for name, memo in pod_class.memos.items():
            self._plugins[name].release(memo)


def _digest(key: Hashable) -> int:
    """A number that a signature has each time it is met."""
    if isinstance(key, ClassKey):
        return key.digest
    if isinstance(key, tuple) and key and isinstance(key[0], ClassKey):
        return hash((key[0].digest, *key[1:]))
    return hash(key)
