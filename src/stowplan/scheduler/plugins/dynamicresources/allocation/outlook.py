"""The outlook of a long search: which devices each request could get, and whether there can be enough at all.

A search by trial and error takes exponential time to find out that the last of sixteen requests matches
nothing. All rules here are necessary conditions, each checked in time linear in the devices: what they rule
out has no solution, and what they leave is left to the search. So the devices that it finds are the same.

Nothing is said here of counters and of capacity that several requests take together.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Generator, Hashable, Sequence
from typing import Final

from stowplan.api.devices import DeviceConstraint, ResourceClaim
from stowplan.scheduler.framework.advanced import Budget, Step
from stowplan.scheduler.plugins.dynamicresources.allocation.constraints import concerns, look_up, values_of
from stowplan.scheduler.plugins.dynamicresources.allocation.requests import Wanted
from stowplan.scheduler.plugins.dynamicresources.features import Features
from stowplan.scheduler.table.devices import DeviceRef

Positions = list[int]

_MOST_TRIED: Final = 20_000
"""Beyond this number of pairs of a requested device and a kind of devices nothing is tried."""


class _Demand:
    """A request with its alternatives: how many devices it needs at least, and which could be among them."""

    __slots__ = ("count", "is_possible", "options", "positions")

    def __init__(self, options: Sequence[Wanted], possible: dict[int, Positions]) -> None:
        self.options = options
        usable = [
            one
            for one in options
            if len(possible[id(one)]) >= one.count and (one.count or one.all_devices is None)
        ]
        self.is_possible = bool(usable)
        self.count = min((one.count for one in usable), default=0)
        found: set[int] = set()
        for one in usable:
            found.update(possible[id(one)])
        self.positions = found

    @property
    def is_exclusive(self) -> bool:
        """True if its devices cannot be shared."""
        return not any(one.request.admin for one in self.options)


class Outlook:
    """An upper bound of the devices that a node can give to the requests of claims."""

    def __init__(self, devices: Sequence[DeviceRef], features: Features) -> None:
        self._devices = devices
        self._features = features
        self._lists = features.list_attributes
        self._possible: dict[int, Positions] = {}
        self._demands: list[_Demand] = []
        self._to_match: dict[int, list[str]] = {}
        self._companies: dict[int, dict[Hashable, Positions]] = {}
        self.is_hopeless = False

    def add(self, wanted: Wanted, positions: Positions) -> None:
        """Take in the devices that a request could get, in ascending order."""
        self._possible[id(wanted)] = positions

    def add_claim(
        self, claim: ResourceClaim, requests: Sequence[Sequence[Wanted]], budget: Budget
    ) -> Generator[Step, None, None]:
        """Take in the requests of a claim, whose devices are known by now, and its constraints."""
        demands = [_Demand(options, self._possible) for options in requests]
        self._demands += demands
        for constraint in claim.spec.devices.constraints:
            named = frozenset(constraint.requests)
            concerned = [
                one for one in demands if all(_is_concerned(named, option) for option in one.options)
            ]
            self._check_constraint(constraint, concerned)
            budget.spend(sum(len(demand.positions) for demand in concerned))
            yield None
            if constraint.match_attribute is None:
                continue
            for demand in demands:
                for option in demand.options:
                    if _is_concerned(named, option) and not option.request.derived:
                        self._to_match.setdefault(id(option), []).append(constraint.match_attribute)

    def judge(self) -> None:
        """See whether there are enough devices."""
        if not all(demand.is_possible for demand in self._demands) or not self._are_enough():
            self.is_hopeless = True

    # Inputs of the search

    def candidates(self, wanted: Wanted) -> Positions:
        """The positions of the devices that a request could get."""
        return self._possible[id(wanted)]

    def has_company(self, wanted: Wanted, ref: DeviceRef, position: int, missing: int) -> bool:
        """True if enough devices follow one that have the attributes in common with it that they must."""
        names = self._to_match.get(id(wanted))
        if not names:
            return True
        known = self._companies.get(id(wanted))
        if known is None:
            known = self._companies[id(wanted)] = self._by_values(wanted, names)
        return any(
            len(places) - bisect_right(places, position) >= missing
            for value in self._values(ref, names)
            if (places := known.get(value))
        )

    def _by_values(self, wanted: Wanted, names: Sequence[str]) -> dict[Hashable, Positions]:
        found: dict[Hashable, Positions] = defaultdict(list)
        for position in self._possible[id(wanted)]:
            for value in self._values(self._devices[position], names):
                found[value].append(position)
        return dict(found)

    def _values(self, ref: DeviceRef, names: Sequence[str]) -> list[Hashable]:
        """The values that others must share with a device: the values of all attributes together.

        Where one of them is a list, one of the values of the first attribute.
        """
        found = []
        for name in names:
            attribute = look_up(ref, name)
            found.append(frozenset() if attribute is None else values_of(attribute, lists=self._lists))
        if self._lists:
            return list(found[0])
        return [tuple(found)] if all(found) else []

    # Checks for enough devices

    def _check_constraint(self, constraint: DeviceConstraint, demands: Sequence[_Demand]) -> None:
        """Check for a constraint that no choice of devices can meet."""
        name = constraint.match_attribute or constraint.distinct_attribute or ""
        total = sum(demand.count for demand in demands)
        derived = any(name in option.request.derived for demand in demands for option in demand.options)
        if total < 2 or derived:
            return
        if constraint.match_attribute is not None:
            self.is_hopeless = self.is_hopeless or not self._has_match(name, demands)
        elif self._features.choices.distinct_attribute == "every-device":
            self.is_hopeless = self.is_hopeless or self._distinct(name, demands) < total

    def _has_match(self, name: str, demands: Sequence[_Demand]) -> bool:
        """True if some value of an attribute is that of enough devices for every request."""
        having: dict[object, Counter[int]] = defaultdict(Counter)
        devices: Counter[object] = Counter()
        values = self._values_of(name, demands)
        for position, found in values.items():
            # A device that several can have is enough for one device of every request.
            times = len(demands) if self._is_shared(position) else 1
            for value in found:
                devices[value] += times
        for place, demand in enumerate(demands):
            for position in demand.positions:
                for value in values.get(position, ()):
                    having[value][place] += 1
        exclusive = all(demand.is_exclusive for demand in demands)
        total = sum(demand.count for demand in demands)
        return any(
            (not exclusive or devices[value] >= total)
            and all(counted[place] >= demand.count for place, demand in enumerate(demands))
            for value, counted in having.items()
        )

    def _distinct(self, name: str, demands: Sequence[_Demand]) -> int:
        """Maximum number of devices with different values of an attribute; one of them may have none."""
        values = self._values_of(name, demands)
        different = {value for found in values.values() for value in found}
        return len(different) + any(not found for found in values.values())

    def _values_of(self, name: str, demands: Sequence[_Demand]) -> dict[int, frozenset[tuple[str, object]]]:
        """The values of an attribute by device, of all devices that have it and that requests could get."""
        found = {}
        for position in sorted(set().union(*[demand.positions for demand in demands])):
            attribute = look_up(self._devices[position], name)
            if attribute is not None:
                found[position] = values_of(attribute, lists=self._lists)
        return found

    def _is_shared(self, position: int) -> bool:
        device = self._devices[position].device
        return self._features.consumable_capacity and bool(device.allow_multiple_allocations)

    def _are_enough(self) -> bool:
        """True if devices can be handed out so that every request has enough that no other has.

        Devices that suit the same requests are the same here: what counts is how many there are of a kind.
        """
        demands = [demand for demand in self._demands if demand.is_exclusive]
        suits: dict[int, int] = defaultdict(int)
        for place, demand in enumerate(demands):
            for position in demand.positions:
                suits[position] |= 1 << place
        kinds: Counter[int] = Counter()
        for position, mask in suits.items():
            kinds[mask] += len(demands) if self._is_shared(position) else 1
        counts = [demand.count for demand in demands]
        if sum(counts) > kinds.total():
            return False
        return sum(counts) * len(kinds) > _MOST_TRIED or _can_hand_out(counts, kinds)


def _can_hand_out(counts: Sequence[int], kinds: Counter[int]) -> bool:
    """True if every request gets its number of devices: kinds are masks of the requests that they suit.

    One unit after the other is handed out; where nothing is left, another request gives one back that it can
    replace (augmenting paths).
    """
    left = dict(kinds)
    given: list[Counter[int]] = [Counter() for _ in counts]
    for place, count in enumerate(counts):
        for _ in range(count):
            if not _hand_out(place, left, given):
                return False
    return True


def _hand_out(place: int, left: dict[int, int], given: list[Counter[int]]) -> bool:
    came_from: dict[int, tuple[int, int]] = {place: (-1, 0)}
    waiting = [place]
    for current in waiting:
        for kind, number in left.items():
            if not kind >> current & 1:
                continue
            if number:
                left[kind] -= 1
                while current >= 0:
                    before, taken = came_from[current]
                    given[current][kind] += 1
                    if before >= 0:
                        given[current][taken] -= 1
                    current, kind = before, taken
                return True
            for other, having in enumerate(given):
                if other not in came_from and having[kind]:
                    came_from[other] = (current, kind)
                    waiting.append(other)
    return False


def _is_concerned(named: frozenset[str], wanted: Wanted) -> bool:
    request = wanted.request
    base, sub = (request.parent, request.name) if request.parent else (request.name, "")
    return concerns(named, base, sub)
