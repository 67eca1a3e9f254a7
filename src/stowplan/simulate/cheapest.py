"""The cheapest nodes for a mix of pods: how many of which types to buy, on their own or next to a cluster.

Proposals come in the order of their prices, the engine places all pods on each, and the first on which that
succeeds is the answer. A lower bound (`bound`) tells how much cheaper another answer could be.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil, inf
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.explain.report import Figure, Figures, Part, Report, Table
from stowplan.localcluster.kubelets.config import NodeShape, ShapeError, named_nodes, shapes_of
from stowplan.scheduler.settings import Settings
from stowplan.scheduler.table.changes import NO_ROWS
from stowplan.simulate.bound import Bound, Room, is_available, least_price
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.counting import Stop, refused, stop_of
from stowplan.simulate.creation.pods import PodSource, create_others
from stowplan.simulate.daemons import daemons_of, put_daemons
from stowplan.simulate.mix import Mix, SetSource
from stowplan.simulate.outcome import Refusal
from stowplan.simulate.snapshot.places import read_document
from stowplan.simulate.snapshot.shapes import objects_of, wrong_shape

ATTEMPTS: Final = 60
"""So many proposals are tried in the order of their prices; then more room is asked for."""
_MORE: Final = Fraction(11, 10)
_TOTAL_ATTEMPTS: Final = 400
_MOST_PROPOSALS: Final = 100_000
_MOST_PODS: Final = 1_000_000
"""The engine places so many pods in all proposals together; then the search ends."""
_STATIC: Final = ("NodeAffinity", "NodeName", "NodeResourcesFit", "NodeUnschedulable", "TaintToleration")
"""Plugins whose rejections do not depend on other pods of the mix."""
_SAME: Final = 1e-6


class NodeType(NodeShape, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A shape that can be bought: its price, and the maximum number of such nodes."""

    price: float = 0.0
    max: int | None = None


def read_catalogue(path: Path) -> list[NodeType]:
    """Node types with prices, a list or under `nodes`. Raises SnapshotError with file, line and field.

    If none has a price, each costs 1: the cheapest nodes are the fewest.
    """
    data, place = read_document(path, object)
    items = data.get("nodes") if isinstance(data, dict) else data
    if not isinstance(items, list) or not items or (isinstance(data, dict) and set(data) != {"nodes"}):
        raise place.wrong("nodes", "expected a list of at least one node type")
    plain = [
        {k: v for k, v in one.items() if k not in ("price", "max")} if isinstance(one, dict) else one
        for one in items
    ]
    try:
        shapes_of({"nodes": plain})
        types = msgspec.convert(items, list[NodeType])
    except ShapeError as error:
        raise wrong_shape(error, place) from None
    except msgspec.ValidationError as error:
        raise place.says(str(error).replace("`$[", "`$.nodes[")) from None
    if not any(one.price for one in types):
        types = [replace(one, price=1.0) for one in types]
    for number, one in enumerate(types):
        if one.price <= 0:
            raise place.wrong(f"nodes[{number}].price", f"expected a price above 0, got {one.price:g}")
    return [one if one.name else replace(one, name=f"type-{number}") for number, one in enumerate(types)]


@dataclass(slots=True)
class Cheapest:
    """The cheapest nodes that were found, next to those of `existing` nodes of a cluster.

    `proven`: all cheaper ones were ruled out, by the lower bound or by trying. `ended` says why the search
    ended before it found any.
    """

    types: list[NodeType]
    counts: tuple[int, ...]
    price: float
    lower_bound: float
    solved: bool
    """True if the bound is that of the integer program, not only of the sums of resources."""
    proven: bool
    tried: int
    sets: int
    mix: Mix
    existing: int = 0
    placements: dict[str, str] = field(default_factory=dict)
    stop: Stop | None = None
    ended: str = ""

    @property
    def fits(self) -> bool:
        return bool(self.counts)

    @property
    def gap(self) -> float | None:
        """By which share of the price it could be cheaper at most."""
        if not self.fits:
            return None
        return 0.0 if self.proven or not self.price else max(1 - self.lower_bound / self.price, 0.0)

    def document(self) -> dict[str, Any]:
        named = zip(self.types, self.counts, strict=True) if self.counts else ()
        bound = self.lower_bound if self.lower_bound < inf else None
        return {
            "fits": self.fits,
            "sets": self.sets,
            "pods": self.sets * self.mix.pods,
            "existingNodes": self.existing,
            "nodes": {one.name: count for one, count in named if count},
            "price": self.price if self.fits else None,
            "lowerBound": None if bound is None else round(bound, 6),
            "lowerBoundBy": "HiGHS" if self.solved else "sums",
            "gap": None if self.gap is None else round(self.gap, 6),
            "proven": self.proven,
            "proposalsTried": self.tried,
            "endedBy": self.ended or None,
            "placements": dict(Counter(self.placements.values())),
            "stoppedBy": None if self.stop is None else self.stop.document(),
        }


def cheapest(
    types: Sequence[NodeType],
    mix: Mix,
    sets: int,
    *,
    settings: Settings | None = None,
    seed: int = 0,
    cluster: Cluster | None = None,
) -> Cheapest:
    """The cheapest nodes on which so many sets fit as the scheduler places them.

    With a `cluster` they are added to it, with the pods of its DaemonSets, and its free room is used; it is
    left as it was. Proposals come in the order of their prices: all combinations whose sums of resources are
    enough. The engine places the pods on each until it succeeds. When many in a row fail more room is asked
    for, and the result is improved by leaving nodes out; then it is proven only by the bound.
    """
    search = _Search(list(types), mix, sets, settings, seed, cluster)
    return search.run()


def _rooms() -> Iterator[Fraction]:
    """How much of the demand proposals have to offer, more and more."""
    room = Fraction(1)
    while room < 32:
        yield room
        room *= _MORE


class _Search:
    def __init__(
        self,
        types: list[NodeType],
        mix: Mix,
        sets: int,
        settings: Settings | None,
        seed: int,
        cluster: Cluster | None,
    ) -> None:
        self.types, self.mix, self.sets, self.seed = types, mix, sets, seed
        self.settings = Settings.of() if settings is None else settings
        if cluster is not None:
            self.settings = cluster.settings
        self._base = cluster
        self._daemons = [] if cluster is None else daemons_of(cluster)
        self.tried = self._failures = self._placed = 0
        self.stop: Stop | None = None
        self.exhausted = False
        self._failed: list[tuple[int, ...]] = []
        self._new: list[str] = []
        """Names of the nodes that were added last."""
        self._requests = self._requests_of_parts()
        self.demand: Counter[str] = Counter()
        for requests, (_, count) in zip(self._requests, mix.parts, strict=True):
            for name, amount in requests.items():
                self.demand[name] += amount * count * sets
        self._rooms = [self._room(place) for place in range(len(types))]
        self._existing = self._existing_rooms()
        self._free: Counter[str] = Counter()
        for room in self._existing:
            for name, amount in room.offer.items():
                self._free[name] += amount * int(room.most)

    def run(self) -> Cheapest:
        bound = self._bound()
        if self._base is not None:
            placed, stop = self.verify((0,) * len(self.types))
            if placed is not None:
                return self._result((0,) * len(self.types), Bound(0.0), True, placed)
            self.fails((0,) * len(self.types), stop)
        impossible = self._impossible()
        if impossible is not None or bound.price == inf:
            self.stop = impossible or self.stop
            return self._result((), bound, True, {})
        if bound.counts and self._is_allowed(bound.counts):
            placed, stop = self.verify(bound.counts)
            if placed is not None and self._price(bound.counts) <= bound.price * (1 + _SAME):
                return self._result(bound.counts, bound, True, placed)
            if placed is None:
                self.fails(bound.counts, stop)
        return self._searched(bound)

    def _searched(self, bound: Bound) -> Cheapest:
        for room in _rooms():
            for counts in self.proposals(room):
                placed, stop = self.verify(counts)
                if placed is not None:
                    if room != 1:
                        counts, placed = self.improved(counts, placed)
                    proven = room == 1 or self._price(counts) <= bound.price * (1 + _SAME)
                    return self._result(counts, bound, proven, placed)
                self.fails(counts, stop)
            if self.exhausted or self._ended:
                break
        return self._result((), bound, self.exhausted, {}, self._ended)

    @property
    def _ended(self) -> str:
        """Why the search ends without an answer, "" if it need not yet."""
        if self.tried >= _TOTAL_ATTEMPTS:
            return f"{self.tried} proposals were tried"
        if self._placed >= _MOST_PODS or self._too_many:
            return f"a search places {_MOST_PODS:,} pods at most"
        return ""

    @property
    def _too_many(self) -> bool:
        return self.sets * self.mix.pods > _MOST_PODS

    def _is_allowed(self, counts: tuple[int, ...]) -> bool:
        return any(counts) and all(
            one.max is None or count <= one.max for one, count in zip(self.types, counts, strict=True)
        )

    def _price(self, counts: Sequence[int]) -> float:
        return round(sum(count * one.price for count, one in zip(counts, self.types, strict=True)), 6)

    # What pods request, and what nodes offer

    def _requests_of_parts(self) -> list[dict[str, int]]:
        with self._with_nodes((0,) * len(self.types)) as cluster:
            create_others(cluster, self.mix.manifests)
            found: list[dict[str, int]] = []
            for pod, _ in SetSource(cluster, self.mix).samples():
                requests = {} if pod is None else cluster.table.info(pod).template.requests.amounts()
                found.append({**requests, "pods": 1})
            return found

    def _room(self, place: int) -> Room:
        """One node of a type, as it is with the pods of DaemonSets."""
        one = self.types[place]
        counts = tuple(int(number == place) for number in range(len(self.types)))
        with self._with_nodes(counts) as cluster:
            row = cluster.table.row_of(self._new[0]) or 0
            create_others(cluster, self.mix.manifests)
            offer = {name: _free(cluster, name)[row] for name in self.demand}
            takes = [bool(mask[row]) for mask in self._static_masks(cluster)]
        return Room(offer, takes, one.price, inf if one.max is None else one.max)

    def _existing_rooms(self) -> list[Room]:
        """The free room of nodes that are there, those that are alike together."""
        cluster = self._base
        if cluster is None:
            return []
        with cluster.fork():
            create_others(cluster, self.mix.manifests)
            masks = self._static_masks(cluster)
        table = cluster.table
        free = {name: _free(cluster, name) for name in self.demand}
        alike: Counter[tuple[tuple[int, ...], tuple[bool, ...]]] = Counter()
        for row in np.flatnonzero(table.valid).tolist():
            amounts = tuple(max(column[row], 0) for column in free.values())
            alike[amounts, tuple(bool(mask[row]) for mask in masks)] += 1
        return [
            Room(dict(zip(free, amounts, strict=True)), takes, most=count, exists=True)
            for (amounts, takes), count in alike.items()
            if any(takes)
        ]

    def _static_masks(self, cluster: Cluster) -> list[Any]:
        """By part and row, False if a node cannot take a pod whatever else is placed."""
        found = []
        for pod, _ in SetSource(cluster, self.mix).samples():
            mask = np.ones(cluster.table.capacity, dtype=np.bool_)
            if pod is not None and cluster.table.node_count:
                evaluation = cluster.evaluate(pod)
                if evaluation.rejected_outright is None:
                    for status, rows in evaluation.rejections().items():
                        if status.plugin in _STATIC:
                            mask[rows] = False
            found.append(mask)
        return found

    @contextmanager
    def _with_nodes(self, counts: Sequence[int]) -> Iterator[Cluster]:
        """A cluster with these new nodes."""
        if self._base is None:
            yield Cluster(self._objects(None, counts), settings=self.settings, seed=self.seed)
            return
        with self._base.fork():
            self._base.add(*self._objects(self._base, counts))
            put_daemons(self._base, self._daemons, self._new)
            yield self._base

    def _objects(self, cluster: Cluster | None, counts: Sequence[int]) -> list[Object]:
        """New nodes and what they publish, under names that are free."""
        shapes: list[NodeShape] = [
            replace(one, count=count, name=one.name if "{}" in one.name else f"{one.name}-{{}}")
            for one, count in zip(self.types, counts, strict=True)
            if count
        ]
        nodes = []
        for node in named_nodes(shapes):
            name, number = node.name, 0
            while cluster is not None and cluster.table.row_of(name) is not None:
                number += 1
                name = f"{node.name}-new-{number}"
            nodes.append(node._replace(name=name))
        self._new = [node.name for node in nodes]
        return objects_of(nodes)

    def _impossible(self) -> Stop | None:
        """Why a pod fits on none of the types, if there is one that does not; existing nodes may take it."""
        if self._base is not None:
            return None
        with self._with_nodes([1] * len(self.types)) as cluster:
            create_others(cluster, self.mix.manifests)
            for workload, _ in self.mix.parts:
                with cluster.fork():
                    source = PodSource(cluster, workload)
                    pods = source.create(1)
                    if source.refusal:
                        return refused(Refusal(workload.title, 1, source.refusal))
                    if not _is_alone(cluster, pods[0]):
                        continue
                    message = cluster.schedule(pods, preempt=False).pending.get(pods[0].key)
                    if message:
                        return stop_of(cluster, pods[0], NO_ROWS, message)
        return None

    def _bound(self) -> Bound:
        """The least price: of the integer program if HiGHS is installed, else by each resource alone."""
        counts = [count * self.sets for _, count in self.mix.parts]
        found = least_price([*self._rooms, *self._existing], self._requests, counts)
        return Bound(self._by_sums()) if found is None else found

    def _by_sums(self) -> float:
        bound = 0.0
        for name, wanted in self.demand.items():
            rates = [room.price / room.offer[name] for room in self._rooms if room.offer[name] > 0]
            missing = max(wanted - self._free[name], 0)
            bound = max(bound, missing * min(rates) if rates else inf if missing else 0.0)
        return bound

    # Proposals

    def proposals(self, room: Fraction) -> Iterator[tuple[int, ...]]:
        """Combinations of nodes in the order of their prices, whose sums are enough (`room` times over).

        What is less than a combination that failed is not proposed again.
        """
        self.exhausted = False
        self._failures = 0
        wanted = {name: ceil(amount * room) for name, amount in self.demand.items()}
        zero = (0,) * len(self.types)
        heap: list[tuple[float, float, tuple[int, ...], int]] = [(0.0, 0.0, zero, 0)]
        seen = 0
        while heap:
            _, price, counts, last = heappop(heap)
            seen += 1
            if seen > _MOST_PROPOSALS or self._too_many:
                return
            missing = self._missing(counts, wanted)
            if not missing and not self._known_to_fail(counts):
                yield counts
                if self._failures >= ATTEMPTS or self._ended:
                    return
            for place in range(last, len(self.types)):
                most = self.types[place].max
                if most is not None and counts[place] >= most:
                    continue
                more = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
                if not missing and not self._known_to_fail(counts):
                    continue
                cost, rest = price + self.types[place].price, self._rest(more, wanted, place)
                if rest < inf:
                    heappush(heap, (cost + rest, cost, more, place))
        self.exhausted = True

    def _rest(self, counts: tuple[int, ...], wanted: dict[str, int], first: int) -> float:
        """The least price of what is still missing, with the types from `first` on."""
        bound = 0.0
        for name, amount in self._missing(counts, wanted).items():
            rates = [room.price / room.offer[name] for room in self._rooms[first:] if room.offer[name] > 0]
            bound = max(bound, amount * min(rates) if rates else inf)
        return bound

    def _missing(self, counts: tuple[int, ...], wanted: dict[str, int]) -> dict[str, int]:
        found = {}
        for name, amount in wanted.items():
            offered = sum(count * room.offer[name] for count, room in zip(counts, self._rooms, strict=True))
            left = amount - offered - self._free[name]
            if left > 0:
                found[name] = left
        return found

    def _known_to_fail(self, counts: tuple[int, ...]) -> bool:
        return any(
            all(one <= other for one, other in zip(counts, failed, strict=True)) for failed in self._failed
        )

    def verify(self, counts: tuple[int, ...]) -> tuple[dict[str, str] | None, Stop | None]:
        """Place everything on these nodes, for real."""
        if self._too_many:
            return None, None
        self.tried += 1
        with self._with_nodes(counts) as cluster:
            create_others(cluster, self.mix.manifests)
            source = SetSource(cluster, self.mix)
            placed: dict[str, str] = {}
            for _ in range(self.sets):
                made = [pod for _, pods in source.next_set() for pod in pods]
                if source.refusal is not None:
                    return None, refused(source.refusal)
                outcome = cluster.schedule(made, preempt=False)
                self._placed += len(made)
                if any(pod.key in outcome.pending for pod in made):
                    pod = next(pod for pod in made if pod.key in outcome.pending)
                    return None, stop_of(cluster, pod, NO_ROWS, outcome.pending[pod.key])
                placed.update((pod.key, outcome.placed[pod.key]) for pod in made)
            return placed, None

    def fails(self, counts: tuple[int, ...], stop: Stop | None) -> None:
        self._failed.append(counts)
        self._failures += 1
        self.stop = stop

    def improved(
        self, counts: tuple[int, ...], placed: dict[str, str]
    ) -> tuple[tuple[int, ...], dict[str, str]]:
        """Leave out nodes one by one, the most expensive first, as long as everything still fits."""
        order = sorted(range(len(counts)), key=lambda place: -self.types[place].price)
        for place in order:
            while counts[place] and not self._ended:
                less = (*counts[:place], counts[place] - 1, *counts[place + 1 :])
                found, _ = self.verify(less)
                if found is None:
                    break
                counts, placed = less, found
        return counts, placed

    def _result(
        self, counts: tuple[int, ...], bound: Bound, proven: bool, placed: dict[str, str], ended: str = ""
    ) -> Cheapest:
        return Cheapest(
            self.types,
            counts,
            self._price(counts) if counts else 0.0,
            bound.price,
            is_available(),
            proven,
            self.tried,
            self.sets,
            self.mix,
            0 if self._base is None else self._base.table.node_count,
            placed,
            None if counts else self.stop,
            ended,
        )


def _is_alone(cluster: Cluster, pod: Pod) -> bool:
    """True if a pod is no member of a group: one member says nothing about a gang."""
    return cluster.table.groups.key_of(cluster.seen(pod)) is None


def _free(cluster: Cluster, name: str) -> list[int]:
    """Free amount of a resource, by row."""
    table = cluster.table
    if name == "pods":
        found: list[int] = (table.allowed_pods - table.pod_count).tolist()
    else:
        found = (table.allocatable_of(name) - table.requested_of(name)).tolist()
    return found


# For people


def report_of_cheapest(found: Cheapest) -> Report:
    """The cheapest nodes."""
    document = found.document()
    pods = f"{found.sets:,} sets ({found.sets * found.mix.pods:,} pods)"
    if not found.fits:
        return Report("capacity", _no_answer(found, pods), [], document)
    more = "more " if found.existing else ""
    rows = [
        (one.name, count, one.price, round(count * one.price, 6))
        for one, count in zip(found.types, found.counts, strict=True)
        if count
    ]
    parts: list[Part] = [
        Figures(
            [
                Figure("price", found.price, _proof(found)),
                Figure("lower bound", round(found.lower_bound, 4), _basis(found)),
                Figure("proposals were tried by the engine", found.tried),
            ]
        ),
    ]
    if not rows:
        return Report("capacity", f"No more nodes are needed for {pods}.", parts, document)
    chosen = ", ".join(f"{count} {more}{name}" for name, count, *_ in rows)
    table = Table(["node type", "nodes", "price", "together"], rows, (1, 2, 3), title=f"{more}nodes")
    return Report("capacity", f"{chosen}: {found.price:g} for {pods}.", [*parts, table], document)


def _no_answer(found: Cheapest, pods: str) -> str:
    """Why there are no nodes to name."""
    if found.ended:
        least = f"; they cost at least {found.lower_bound:g}" if found.lower_bound < inf else ""
        return f"No nodes were found for {pods}: {found.ended}{least}."
    why = "" if found.stop is None else f": {found.stop.message}"
    return f"No set of these nodes was found on which everything fits{why}"


def _proof(found: Cheapest) -> str:
    if found.proven:
        return "no cheaper set of nodes is enough"
    return f"a cheaper set may exist: the gap to the bound is {100 * (found.gap or 0):.1f} %"


def _basis(found: Cheapest) -> str:
    return "proven by HiGHS" if found.solved else "by the sums of resources alone; pip install stowplan[plan]"
