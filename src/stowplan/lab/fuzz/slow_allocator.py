"""A plain, slow allocator on stored objects: it tries choices in order, with none of the plugin's code.

It knows exact requests and alternatives, counts and all, admin access, selectors of the form `...model ==
"a"`, taints, matchAttribute and distinctAttribute, counters, and capacity with its policies. After every
choice all rules are checked again from the beginning.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

Json = dict[str, Any]
GIB: Final = 1 << 30


class CannotAddError(Exception):
    """A request for all devices needs one that a constraint forbids: the whole attempt fails."""


class SlowOffer(NamedTuple):
    """A device of a node with its pool, and what the pool's counters are."""

    pool: str
    device: Json
    counters: Json

    @property
    def id(self) -> tuple[str, str]:
        return (self.pool, self.device["name"])

    @property
    def is_shared(self) -> bool:
        return bool(self.device.get("allowMultipleAllocations"))

    @property
    def capacity(self) -> Json:
        return self.device.get("capacity") or {}


class SlowChoice(NamedTuple):
    """A device for a request; the name of an alternative is that of its request, a slash and its own."""

    request: str
    asked: Json
    offer: SlowOffer


def offers(slices: Sequence[Json], node: str) -> list[SlowOffer]:
    """The devices that a node can use, in the order in which they are tried."""
    found: list[SlowOffer] = []
    for pool in sorted({one["spec"]["pool"]["name"] for one in slices}):
        members = [one["spec"] for one in slices if one["spec"]["pool"]["name"] == pool]
        newest = max(one["pool"]["generation"] for one in members)
        members = [one for one in members if one["pool"]["generation"] == newest]
        if len(members) != members[0]["pool"]["resourceSliceCount"]:
            continue
        counters: Json = {}
        for one in members:
            for counter_set in one.get("sharedCounters") or ():
                counters[counter_set["name"]] = counter_set["counters"]
        for one in members:
            if one.get("nodeName") == node or one.get("allNodes"):
                found += [SlowOffer(pool, device, counters) for device in one.get("devices") or ()]
    return found


class SlowAllocator:
    """The first choice of devices for a claim on a node, given the devices of other claims.

    `all_without_full`: a request for all devices leaves out those with too little capacity left.
    `distinct_from_last`: distinctAttribute compares a device with the last one of each request, and with
    nothing for a request whose device was released. Both are so in 1.36.
    """

    def __init__(
        self,
        slices: Sequence[Json],
        results: Sequence[Json],
        *,
        all_without_full: bool,
        distinct_from_last: bool,
    ) -> None:
        self._slices = slices
        self._all_without_full = all_without_full
        self._distinct_from_last = distinct_from_last
        held = [one for one in results if not one.get("adminAccess")]
        self._whole = {(one["pool"], one["device"]) for one in held if "shareID" not in one}
        self._consumed: Counter[tuple[str, str, str]] = Counter()
        for one in held:
            for name, amount in (one.get("consumedCapacity") or {}).items():
                self._consumed[one["pool"], one["device"], name] += size(amount)
        self._taken = {(one["pool"], one["device"]) for one in held}
        self._constraints: list[_Constraint] = []

    def allocate(self, claim: Json, node: str) -> list[tuple[str, str, str]] | None:
        """Request, pool and device of every choice; None if there is none. Raises CannotAddError."""
        asked = claim["devices"]
        self._constraints = [
            _Constraint(one, last_only=self._distinct_from_last) for one in asked.get("constraints") or ()
        ]
        found = self._search([], asked["requests"], offers(self._slices, node))
        return None if found is None else [(one.request, *one.offer.id) for one in found]

    def _search(
        self, before: list[SlowChoice], requests: list[Json], free: list[SlowOffer]
    ) -> list[SlowChoice] | None:
        """Choices for all requests that go together with those before."""
        if not requests:
            return before
        first, *rest = requests
        for name, asked in _alternatives(first):
            found = (
                self._take_all(before, name, asked, rest, free)
                if asked["allocationMode"] == "All"
                else self._take_some(before, name, asked, rest, free, asked["count"], 0)
            )
            if found is not None:
                return found
        return None

    def _take_some(
        self,
        before: list[SlowChoice],
        name: str,
        asked: Json,
        rest: list[Json],
        free: list[SlowOffer],
        count: int,
        start: int,
    ) -> list[SlowChoice] | None:
        if not count:
            return self._search(before, rest, free)
        for place in range(start, len(free)):
            offer = free[place]
            if not _selects(asked, offer) or not _has_room(asked, offer, self._consumed):
                continue
            choices = [*before, SlowChoice(name, asked, offer)]
            if not self._is_possible(choices) or not self._add(choices[-1]):
                continue
            found = self._take_some(choices, name, asked, rest, free, count - 1, place + 1)
            if found is not None:
                return found
            self._remove(choices[-1])
        return None

    def _take_all(
        self, before: list[SlowChoice], name: str, asked: Json, rest: list[Json], free: list[SlowOffer]
    ) -> list[SlowChoice] | None:
        consumed = self._consumed if self._all_without_full else Counter[tuple[str, str, str]]()
        wanted = [offer for offer in free if _selects(asked, offer) and _has_room(asked, offer, consumed)]
        choices, added = before, 0
        for offer in wanted:
            choices = [*choices, SlowChoice(name, asked, offer)]
            if not self._is_possible(choices, but_for_capacity=True):
                break
            if not self._add(choices[-1]):
                raise CannotAddError("/".join(offer.id))
            added += 1
            if not self._capacity_holds(choices):
                break
        else:
            found = self._search(choices, rest, free) if wanted else None
            if found is not None:
                return found
        for choice in reversed(choices[len(before) : len(before) + added]):
            self._remove(choice)
        return None

    def _add(self, choice: SlowChoice) -> bool:
        """Take a choice into all constraints, or into none if one forbids it."""
        for place, constraint in enumerate(self._constraints):
            if not constraint.add(choice):
                for added in reversed(self._constraints[:place]):
                    added.remove(choice)
                return False
        return True

    def _remove(self, choice: SlowChoice) -> None:
        for constraint in reversed(self._constraints):
            constraint.remove(choice)

    # Rules other than constraints

    def _is_possible(self, choices: Sequence[SlowChoice], *, but_for_capacity: bool = False) -> bool:
        whole = [one.offer.id for one in choices if not one.offer.is_shared]
        return (
            len(set(whole)) == len(whole)
            and all(self._is_usable(one) for one in choices)
            and self._counters_hold(choices)
            and (but_for_capacity or self._capacity_holds(choices))
        )

    def _is_usable(self, choice: SlowChoice) -> bool:
        asked, offer = choice.asked, choice.offer
        if offer.id in self._whole and not asked.get("adminAccess"):
            return False
        tolerated = {one["key"] for one in asked.get("tolerations") or ()}
        return all(taint["key"] in tolerated for taint in offer.device.get("taints") or ())

    def _capacity_holds(self, choices: Sequence[SlowChoice]) -> bool:
        """True if the chosen devices fit in addition to others' use, also of a device that is no longer
        shared."""
        total = Counter(self._consumed)
        for one in choices:
            for name, capacity in one.offer.capacity.items():
                total[*one.offer.id, name] += _amount(one.asked, name, capacity)
        return all(
            total[*one.offer.id, name] <= size(capacity["value"])
            for one in choices
            for name, capacity in one.offer.capacity.items()
        )

    def _counters_hold(self, choices: Sequence[SlowChoice]) -> bool:
        """True if the counters suffice in addition to the devices of the pool that others have."""
        for pool in {one.offer.pool for one in choices if one.offer.device.get("consumesCounters")}:
            drawing = [one.offer.device for one in choices if one.offer.pool == pool]
            counters = next(one.offer.counters for one in choices if one.offer.pool == pool)
            for one in self._slices:
                if one["spec"]["pool"]["name"] == pool:
                    devices = one["spec"].get("devices") or ()
                    drawing += [device for device in devices if (pool, device["name"]) in self._taken]
            drawn: Counter[tuple[str, str]] = Counter()
            for device in drawing:
                for consumption in device.get("consumesCounters") or ():
                    for name, counter in consumption["counters"].items():
                        drawn[consumption["counterSet"], name] += size(counter["value"])
            for (set_name, name), amount in drawn.items():
                if amount > size(counters[set_name][name]["value"]):
                    return False
        return True


class _Constraint:
    """One constraint of a claim, with the values of the devices that were chosen."""

    def __init__(self, constraint: Json, *, last_only: bool) -> None:
        self._requests = constraint.get("requests") or ()
        self._matches = "matchAttribute" in constraint
        named: str = constraint.get("matchAttribute") or constraint["distinctAttribute"]
        self._attribute = named.partition("/")[2]
        self._last_only = last_only and not self._matches
        self._values: list[str] = []
        self._last: dict[str, str] = {}

    def _concerns(self, choice: SlowChoice) -> bool:
        names = (choice.request, choice.request.partition("/")[0])
        return not self._requests or any(name in self._requests for name in names)

    def add(self, choice: SlowChoice) -> bool:
        if not self._concerns(choice):
            return True
        attribute: Mapping[str, Any] | None = choice.offer.device["attributes"].get(self._attribute)
        if attribute is None:
            return False
        value, others = str(attribute), self._last.values() if self._last_only else self._values
        if self._matches and any(other != value for other in others):
            return False
        if not self._matches and value in others:
            return False
        self._values.append(value)
        self._last[choice.request.partition("/")[0]] = value
        return True

    def remove(self, choice: SlowChoice) -> None:
        if self._concerns(choice):
            self._values.pop()
            self._last.pop(choice.request.partition("/")[0], None)


def _alternatives(request: Json) -> Iterator[tuple[str, Json]]:
    if "exactly" in request:
        yield request["name"], request["exactly"]
    for one in request.get("firstAvailable") or ():
        yield f"{request['name']}/{one['name']}", one


def _selects(asked: Json, offer: SlowOffer) -> bool:
    model = offer.device["attributes"]["model"]["string"]
    return all(one["cel"]["expression"].endswith(f'"{model}"') for one in asked.get("selectors") or ())


# Capacity


def _has_room(asked: Json, offer: SlowOffer, consumed: Mapping[tuple[str, str, str], int]) -> bool:
    """True if others' use of a device leaves the amount that a request consumes, and its policies allow
    that."""
    wanted = (asked.get("capacity") or {}).get("requests") or {}
    return wanted.keys() <= offer.capacity.keys() and all(
        _is_allowed(amount := _amount(asked, name, capacity), capacity.get("requestPolicy") or {})
        and consumed.get((*offer.id, name), 0) + amount <= size(capacity["value"])
        for name, capacity in offer.capacity.items()
    )


def _amount(asked: Json, name: str, capacity: Json) -> int:
    """Amount a request consumes of a capacity: its own, rounded up, or else the default or all."""
    policy = capacity.get("requestPolicy") or {}
    wanted = ((asked.get("capacity") or {}).get("requests") or {}).get(name)
    if wanted is None:
        return size(policy.get("default", capacity["value"]))
    amount = size(wanted)
    if "validRange" in policy:
        least, step = size(policy["validRange"]["min"]), size(policy["validRange"].get("step", 1))
        return max(least, least + -(-(amount - least) // step) * step)
    larger = [size(one) for one in policy.get("validValues") or () if size(one) >= amount]
    return min(larger, default=amount)


def _is_allowed(amount: int, policy: Json) -> bool:
    if "default" in policy and amount == size(policy["default"]):
        return True
    if "validRange" in policy:
        allowed = policy["validRange"]
        if "max" in allowed and amount > size(allowed["max"]):
            return False
        return (amount - size(allowed["min"])) % size(allowed.get("step", 1)) == 0
    values = [size(one) for one in policy.get("validValues") or ()]
    return not values or amount in values


def size(amount: Any) -> int:
    text = str(amount)
    return int(text.removesuffix("Gi")) * GIB if text.endswith("Gi") else int(text)
