"""Groups of waiting pods that differ in labels alone, and the lookup of those that an event may help.

Pods of one workload often carry a distinct label each, such as their index, and then each has its own
template.
Hints that ignore the labels of a waiting pod are called once for all of them. Where pods also differ in
the thing they wait for, such as the labels they want to be near, hints express it by keys: those of
a pod and those of an event (`EventKeys`). Only pods that share a key with the event are looked at.
"""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any

from stowplan.scheduler.framework.events import ByPlugin, EventKeys
from stowplan.scheduler.queue.waiting_group import Group, GroupKey
from stowplan.scheduler.table.podinfo import PodInfo, PodShape

Rejection = tuple[str, frozenset[str], frozenset[str], str]
"""A profile and the plugins that turned down, that wait for something, and that gate."""

FamilyKey = tuple[PodShape | None, Rejection]

_Index = dict[Hashable, dict[FamilyKey, "Family"]]
_ANY = object()
"""The key of pods that any event may help."""


class Family:
    """Groups of one shape that the same plugins turned down. Never empty while it is found."""

    __slots__ = ("gating_plugin", "groups", "key", "keys", "profile", "rejection", "rejectors")

    def __init__(self, key: FamilyKey) -> None:
        self.key = key
        self.rejection = key[1]
        self.profile, unschedulable, pending, self.gating_plugin = self.rejection
        self.rejectors = unschedulable | pending
        self.groups: dict[GroupKey, Group] = {}
        self.keys: list[tuple[tuple[str, str, EventKeys], tuple[Hashable, ...]]] = []
        """By which keys it is found, for each that hints of its plugins have."""


def family_key(group: Group) -> FamilyKey:
    profile, template, unschedulable, pending, gating_plugin = group.key
    shape = None if template is None else template.shape
    return shape, (profile, unschedulable, pending, gating_plugin)


class Families:
    """All families, found by the plugins that rejected them and by the keys of events.

    `keys` returns the keys that the hints of a plugin of a profile have. `failed` is called the first time a
    plugin cannot name any; from then on any event may help its pods.
    """

    def __init__(
        self,
        keys: Callable[[str, str], Collection[EventKeys]],
        failed: Callable[[str, Exception], None] = lambda plugin, cause: None,
    ) -> None:
        self._keys = keys
        self._tell = failed
        self._failing: set[tuple[str, str, EventKeys]] = set()
        self._families: dict[FamilyKey, Family] = {}
        self._by_plugin: dict[tuple[str, str], dict[FamilyKey, Family]] = {}
        self._by_keys: dict[tuple[str, str, EventKeys], _Index] = {}
        self._sizes: Counter[Rejection] = Counter()

    def add(self, group: Group) -> None:
        """A group waits from now on."""
        key = family_key(group)
        family = self._families.get(key)
        if family is None:
            family = self._families[key] = Family(key)
            for plugin in family.rejectors:
                self._by_plugin.setdefault((family.profile, plugin), {})[key] = family
            if group.template is not None:
                self._index(family, group.representative.pod)
        family.groups[group.key] = group
        self._sizes[family.rejection] += 1

    def remove(self, group: Group) -> None:
        """A group no longer waits."""
        key = family_key(group)
        family = self._families[key]
        del family.groups[group.key]
        self._sizes[family.rejection] -= 1
        if not self._sizes[family.rejection]:
            del self._sizes[family.rejection]
        if family.groups:
            return
        del self._families[key]
        for plugin in family.rejectors:
            _take_out(self._by_plugin, (family.profile, plugin), key)
        for place, found_by in family.keys:
            index = self._by_keys[place]
            for one in found_by:
                _take_out(index, one, key)
            if not index:
                del self._by_keys[place]

    def of_group(self, group: Group) -> Family:
        return self._families[family_key(group)]

    def of(self, profile: str, plugins: Iterable[str]) -> dict[FamilyKey, Family]:
        """Those of a profile that any of these plugins turned down."""
        found: dict[FamilyKey, Family] = {}
        for plugin in plugins:
            found |= self._by_plugin.get((profile, plugin), {})
        return found

    def concerned(self, profile: str, matching: ByPlugin, old: Any, new: Any) -> dict[FamilyKey, Family]:
        """The same but for those that an event cannot help, as the keys of all hints that hear of it say."""
        found: dict[FamilyKey, Family] = {}
        for plugin, entries in matching.items():
            rejected = self._by_plugin.get((profile, plugin))
            if not rejected:
                continue
            for keys in dict.fromkeys(entry.keys for entry in entries):
                offered = None if keys is None else self._offered((profile, plugin, keys), old, new)
                if keys is None or offered is None:
                    found |= rejected
                    break
                index = self._by_keys.get((profile, plugin, keys), {})
                for one in (_ANY, *offered):
                    found |= index.get(one, {})
        return found

    def sizes(self, profile: str) -> list[tuple[Rejection, int]]:
        """Number of waiting groups of a profile, by the plugins that rejected them."""
        return [(rejection, size) for rejection, size in self._sizes.items() if rejection[0] == profile]

    def _index(self, family: Family, pod: PodInfo) -> None:
        for plugin in family.rejectors:
            for keys in self._keys(family.profile, plugin):
                place = (family.profile, plugin, keys)
                found_by = self._keys_of(place, pod)
                if not found_by:
                    continue
                family.keys.append((place, found_by))
                index = self._by_keys.setdefault(place, {})
                for one in found_by:
                    index.setdefault(one, {})[family.key] = family

    def _keys_of(self, place: tuple[str, str, EventKeys], pod: PodInfo) -> tuple[Hashable, ...]:
        try:
            found: Collection[Hashable] | None = place[2].of_pod(pod)
        except Exception as cause:  # noqa: BLE001 - no plugin may keep a pod waiting by failing
            self._failed(place, cause)
            found = None
        return (_ANY,) if found is None else tuple(dict.fromkeys(found))

    def _offered(self, place: tuple[str, str, EventKeys], old: Any, new: Any) -> Collection[Hashable] | None:
        try:
            return place[2].of_event(old, new)
        except Exception as cause:  # noqa: BLE001 - no plugin may keep a pod waiting by failing
            self._failed(place, cause)
            return None

    def _failed(self, place: tuple[str, str, EventKeys], cause: Exception) -> None:
        if place not in self._failing:
            self._failing.add(place)
            self._tell(place[1], cause)


def _take_out(index: dict[Any, dict[FamilyKey, Family]], one: Hashable, key: FamilyKey) -> None:
    families = index[one]
    del families[key]
    if not families:
        del index[one]
