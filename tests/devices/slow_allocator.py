"""A plain, slow allocator on stored objects: it tries all choices of devices in order, with none of our code.

It knows exact requests and alternatives, counts and all, admin access, selectors of the form
`...model == "a"`, taints, matchAttribute and distinctAttribute, counters, and capacity without policies.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

Json = dict[str, Any]
GIB = 1 << 30


class Offer(NamedTuple):
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


class Choice(NamedTuple):
    request: str
    asked: Json
    offer: Offer


def offers(slices: list[Json], node: str) -> list[Offer]:
    """The devices that a node can use, in the order in which they are tried."""
    found: list[Offer] = []
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
                found += [Offer(pool, device, counters) for device in one.get("devices") or ()]
    return found


class SlowAllocator:
    """The first choice of devices for a claim on a node, beside what other claims have.

    `all_without_full`: a request for all devices leaves out those with too little capacity left (1.36).
    """

    def __init__(self, slices: list[Json], results: list[Json], *, all_without_full: bool) -> None:
        self._slices = slices
        self._all_without_full = all_without_full
        held = [one for one in results if not one.get("adminAccess")]
        self._whole = {(one["pool"], one["device"]) for one in held if "shareID" not in one}
        self._consumed: Counter[tuple[str, str, str]] = Counter()
        for one in held:
            for name, amount in (one.get("consumedCapacity") or {}).items():
                self._consumed[one["pool"], one["device"], name] += size(amount)
        self._taken = {(one["pool"], one["device"]) for one in held}

    def allocate(self, claim: Json, node: str) -> list[tuple[str, str, str]] | None:
        """Request, pool and device of every choice; None if there is none."""
        asked = claim["devices"]
        free = offers(self._slices, node)
        for choices in self._choices(asked["requests"], free):
            if self._is_valid(choices, asked.get("constraints") or ()):
                return [(one.request, *one.offer.id) for one in choices]
        return None

    def _choices(self, requests: list[Json], free: list[Offer]) -> Iterator[list[Choice]]:
        if not requests:
            yield []
            return
        first, *rest = requests
        for name, asked in _alternatives(first):
            is_all = asked["allocationMode"] == "All"
            consumed = Counter() if is_all and not self._all_without_full else self._consumed
            selected = [
                offer for offer in free if _selects(asked, offer) and _has_room(asked, offer, consumed)
            ]
            if is_all:
                groups: Iterator[tuple[Offer, ...]] = iter([tuple(selected)] if selected else [])
            else:
                groups = combinations(selected, asked["count"])
            for group in groups:
                chosen = [Choice(name, asked, offer) for offer in group]
                if all(self._is_usable(one) for one in chosen):
                    for others in self._choices(rest, free):
                        yield [*chosen, *others]

    def _is_usable(self, choice: Choice) -> bool:
        asked, offer = choice.asked, choice.offer
        if offer.id in self._whole and not asked.get("adminAccess"):
            return False
        tolerated = {one["key"] for one in asked.get("tolerations") or ()}
        return all(taint["key"] in tolerated for taint in offer.device.get("taints") or ())

    def _is_valid(self, choices: list[Choice], constraints: Any) -> bool:
        whole = [one.offer.id for one in choices if not one.offer.is_shared]
        if len(set(whole)) < len(whole):
            return False
        return (
            self._capacity_holds(choices)
            and self._counters_hold(choices)
            and all(_meets(choices, constraint) for constraint in constraints)
        )

    def _capacity_holds(self, choices: list[Choice]) -> bool:
        total = Counter(self._consumed)
        for one in choices:
            offered = one.offer.device.get("capacity") or {}
            if one.offer.is_shared:
                for name in offered:
                    total[*one.offer.id, name] += _amount(one.asked, name, offered)
        return all(
            total[*one.offer.id, name] <= size(capacity["value"])
            for one in choices
            if one.offer.is_shared
            for name, capacity in (one.offer.device.get("capacity") or {}).items()
        )

    def _counters_hold(self, choices: list[Choice]) -> bool:
        """What is drawn beside the devices of the pool that others have."""
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


def _alternatives(request: Json) -> list[tuple[str, Json]]:
    if "exactly" in request:
        return [(request["name"], request["exactly"])]
    return [(f"{request['name']}/{one['name']}", one) for one in request["firstAvailable"]]


def _has_room(asked: Json, offer: Offer, consumed: Counter[tuple[str, str, str]]) -> bool:
    offered = offer.device.get("capacity") or {}
    wanted = (asked.get("capacity") or {}).get("requests") or {}
    return wanted.keys() <= offered.keys() and all(
        consumed[*offer.id, name] + _amount(asked, name, offered) <= size(offered[name]["value"])
        for name in offered
    )


def _selects(asked: Json, offer: Offer) -> bool:
    model = offer.device["attributes"]["model"]["string"]
    return all(one["cel"]["expression"].endswith(f'"{model}"') for one in asked.get("selectors") or ())


def _meets(choices: list[Choice], constraint: Json) -> bool:
    named = constraint.get("requests") or ()
    concerned = [
        one for one in choices if not named or one.request in named or one.request.partition("/")[0] in named
    ]
    attribute = (constraint.get("matchAttribute") or constraint["distinctAttribute"]).partition("/")[2]
    values = [one.offer.device["attributes"].get(attribute) for one in concerned]
    if None in values:
        return False
    different = len({str(value) for value in values})
    return different <= 1 if "matchAttribute" in constraint else different == len(values)


def _amount(asked: Json, name: str, offered: Json) -> int:
    wanted = (asked.get("capacity") or {}).get("requests") or {}
    return size(wanted.get(name, offered[name]["value"]))


def size(amount: Any) -> int:
    text = str(amount)
    return int(text.removesuffix("Gi")) * GIB if text.endswith("Gi") else int(text)
