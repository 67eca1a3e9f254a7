"""How much capacity? How many sets of a mix of pods fit, and the cheapest nodes on which they do."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from heapq import heappop, heappush
from math import ceil, gcd, inf
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan.api.meta import Object
from stowplan.api.pod import Pod
from stowplan.explain.report import Bar, Bars, Figure, Figures, Part, Report, Table, Text
from stowplan.localcluster.kubelets.config import NodeShape, ShapeError, named_nodes, shapes_of
from stowplan.scheduler.settings import Settings
from stowplan.scheduler.table.changes import NO_ROWS, Rows
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.counting import Stop, refused, stop_of
from stowplan.simulate.creation.manifests import ManifestReader, Manifests, read_manifests
from stowplan.simulate.creation.pods import PodSource, create_others
from stowplan.simulate.creation.workloads import DAEMON_SET, Workload
from stowplan.simulate.outcome import Refusal
from stowplan.simulate.snapshot.places import Place, read_document
from stowplan.simulate.snapshot.shapes import objects_of, wrong_shape

SHOWN: Final = 20
_FINEST: Final = 1000
"""Proportions are taken as fractions of numbers up to this."""
ATTEMPTS: Final = 60
"""So many proposals are tried in the order of their prices; then more room is asked for."""
_MORE: Final = Fraction(11, 10)
_TOTAL_ATTEMPTS: Final = 400
_MOST_PROPOSALS: Final = 100_000


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One template of a mix: a manifest, here or in another file, with a count or a proportion."""

    manifest: dict[str, Any] | None = None
    file: str | None = None
    count: int | None = None
    proportion: float | None = None


class _Mix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mix: list[_Part]


@dataclass(slots=True)
class Mix:
    """A set: workloads and how many pods of each there are in it."""

    parts: list[tuple[Workload, int]]
    manifests: Manifests

    @property
    def pods(self) -> int:
        return sum(count for _, count in self.parts)

    @property
    def all_manifests(self) -> Manifests:
        """The other objects, and the workloads of all parts."""
        return Manifests([workload for workload, _ in self.parts], self.manifests.others)


def read_mix(path: Path, namespace: str = "default") -> Mix:
    """The mix of a file. Raises SnapshotError with file, line and field."""
    found, place = read_document(path, _Mix)
    if not found.mix:
        raise place.wrong("mix", "expected at least one template")
    manifests = Manifests()
    amounts: list[tuple[Workload, int | None, Fraction | None]] = []
    for number, part in enumerate(found.mix):
        field_ = f"mix[{number}]"
        if (part.manifest is None) == (part.file is None):
            raise place.wrong(field_, "expected either manifest or file")
        if part.count is not None and part.proportion is not None:
            raise place.wrong(f"{field_}.proportion", "expected either count or proportion")
        amount = part.count if part.count is not None else part.proportion
        if amount is not None and amount <= 0:
            raise place.wrong(
                f"{field_}.{'count' if part.count is not None else 'proportion'}", "expected more than 0"
            )
        share = None if part.proportion is None else Fraction(part.proportion).limit_denominator(_FINEST)
        for workload in _workloads(part, place, field_, path, namespace, manifests):
            if workload.kind == DAEMON_SET:
                raise place.wrong(field_, "a DaemonSet is on every node: expected something with replicas")
            amounts.append((workload, part.count, share))
    return Mix(list(_counts(amounts, place)), manifests)


def _workloads(
    part: _Part, place: Place, field_: str, path: Path, namespace: str, found: Manifests
) -> list[Workload]:
    if part.file is not None:
        own = read_manifests([path.parent / part.file], namespace)
    else:
        assert part.manifest is not None
        if "kind" not in part.manifest:
            raise place.wrong(f"{field_}.manifest.kind", "required field is missing")
        reader = ManifestReader(namespace)
        reader.take_in(part.manifest, Place(place.file, place.text, inside=f"{field_}.manifest"))
        own = reader.found
    if not own.workloads:
        raise place.wrong(field_, "expected a pod or something that makes pods")
    found.others += own.others
    return own.workloads


def _counts(
    amounts: Sequence[tuple[Workload, int | None, Fraction | None]], place: Place
) -> Iterator[tuple[Workload, int]]:
    shares = [share for _, _, share in amounts if share is not None]
    if shares and len(shares) < len(amounts):
        raise place.wrong("mix", "expected counts for all templates or proportions for all")
    if not shares:
        for workload, count, _ in amounts:
            yield workload, workload.replicas if count is None else count
        return
    whole = reduce(lambda one, other: one * other // gcd(one, other), (share.denominator for share in shares))
    numbers = [int(share * whole) for share in shares]
    common = reduce(gcd, numbers)
    for (workload, _, _), number in zip(amounts, numbers, strict=True):
        yield workload, number // common


# How many sets


@dataclass(slots=True)
class Capacity:
    """How many whole sets fit, where their pods are, and what ends it."""

    mix: Mix
    sets: int
    by_node: dict[str, int]
    stop: Stop | None
    ended_by: str
    """The workload whose pod found no node."""
    nodes: int

    def document(self) -> dict[str, Any]:
        return {
            "sets": self.sets,
            "pods": self.sets * self.mix.pods,
            "set": {workload.title: count for workload, count in self.mix.parts},
            "placements": self.by_node,
            "endedBy": self.ended_by or None,
            "stoppedBy": None if self.stop is None else self.stop.document(),
            "nodes": self.nodes,
        }


def sets_that_fit(cluster: Cluster, mix: Mix, limit: int | None = None) -> Capacity:
    """Place set after set until one is not complete. The cluster is left as it was."""
    found: Counter[str] = Counter()
    stop: Stop | None = None
    ended_by = ""
    sets = 0
    with cluster.fork():
        create_others(cluster, mix.manifests)
        source = _Pods(cluster, mix)
        eligible = [rows for _, rows in source.samples()]
        while limit is None or sets < limit:
            made = source.next_set()
            refusal = source.refusal
            if refusal is not None:
                stop, ended_by = refused(refusal), refusal.workload
                break
            outcome = cluster.schedule([pod for _, pods in made for pod in pods], preempt=False)
            if outcome.pending:
                workload, pod, rows = next(
                    (one, pod, rows)
                    for (one, pods), rows in zip(made, eligible, strict=True)
                    for pod in pods
                    if pod.key in outcome.pending
                )
                stop = stop_of(cluster, pod, rows, outcome.pending[pod.key])
                ended_by = workload.title
                break
            sets += 1
            found.update(outcome.placed.values())
    return Capacity(mix, sets, dict(found), stop, ended_by, cluster.table.node_count)


class _Pods:
    """The pods of one set after the other. Each set has groups of its own."""

    def __init__(self, cluster: Cluster, mix: Mix) -> None:
        self._cluster = cluster
        self._mix = mix
        self._sets = 0
        self._sources = [(PodSource(cluster, workload), count) for workload, count in mix.parts]

    def samples(self) -> list[tuple[Pod | None, Rows]]:
        """A pod of every part (None: the API server refuses it), and the nodes that could take it."""
        found: list[tuple[Pod | None, Rows]] = []
        for workload, _ in self._mix.parts:
            with self._cluster.fork():
                pod = next(iter(PodSource(self._cluster, workload).create(1)), None)
                found.append(
                    (pod, NO_ROWS if pod is None else self._cluster.evaluate(pod).feasible_rows.copy())
                )
        return found

    def next_set(self) -> list[tuple[Workload, list[Pod]]]:
        """The pods of the parts in turn, so that they come mixed; fewer if the API server refuses some."""
        self._sets += 1
        return [(source.workload, self._grouped(source.create(count))) for source, count in self._sources]

    def _grouped(self, pods: list[Pod]) -> list[Pod]:
        """Pods of groups as members of this set's groups: those of the first set keep their names."""
        groups = self._cluster.table.groups
        if self._sets == 1 or not groups.enabled:
            return pods
        return [self._regrouped(self._cluster.seen(pod)) for pod in pods]

    def _regrouped(self, pod: Pod) -> Pod:
        key = self._cluster.table.groups.key_of(pod)
        known = None if key is None else self._cluster.table.groups.object(key)
        if known is None or pod.spec.scheduling_group is None:
            return pod
        name = f"{known.name}-{self._sets}"
        if (type(known), f"{known.namespace}/{name}") not in self._cluster.objects:
            metadata = replace(known.metadata, name=name, uid=f"{known.metadata.uid}-{self._sets}")
            self._cluster.add(replace(known, metadata=metadata))
        group = replace(pod.spec.scheduling_group, pod_group_name=name)
        return replace(pod, spec=replace(pod.spec, scheduling_group=group))

    @property
    def refusal(self) -> Refusal | None:
        """Why the last set is not complete, if the API server refused a pod of it."""
        for source, _ in self._sources:
            if source.refusal:
                return Refusal(source.workload.title, 1, source.refusal)
        return None


# The cheapest nodes


class NodeType(NodeShape, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A shape that can be bought: its price, and how many there are at most."""

    price: float = 0.0
    max: int | None = None


def read_catalogue(path: Path) -> list[NodeType]:
    """Node types with prices, a list or under `nodes`. Raises SnapshotError with file, line and field."""
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
    for number, one in enumerate(types):
        if one.price <= 0:
            raise place.wrong(f"nodes[{number}].price", f"expected a price above 0, got {one.price:g}")
    return [one if one.name else replace(one, name=f"type-{number}") for number, one in enumerate(types)]


@dataclass(slots=True)
class Cheapest:
    """The cheapest nodes that were found. `proven`: all cheaper ones were ruled out, by sums or by trying."""

    types: list[NodeType]
    counts: tuple[int, ...]
    price: float
    lower_bound: float
    proven: bool
    tried: int
    sets: int
    mix: Mix
    placements: dict[str, str] = field(default_factory=dict)
    stop: Stop | None = None

    @property
    def fits(self) -> bool:
        return bool(self.counts)

    def document(self) -> dict[str, Any]:
        named = zip(self.types, self.counts, strict=True) if self.counts else ()
        return {
            "fits": self.fits,
            "sets": self.sets,
            "pods": self.sets * self.mix.pods,
            "nodes": {one.name: count for one, count in named if count},
            "price": self.price if self.fits else None,
            "lowerBound": round(self.lower_bound, 6),
            "proven": self.proven,
            "proposalsTried": self.tried,
            "placements": dict(Counter(self.placements.values())),
            "stoppedBy": None if self.stop is None else self.stop.document(),
        }


def cheapest(
    types: Sequence[NodeType], mix: Mix, sets: int, *, settings: Settings | None = None, seed: int = 0
) -> Cheapest:
    """The cheapest nodes on which so many sets fit as the scheduler places them.

    Proposals come in the order of their prices: all combinations whose sums of resources are enough. The
    engine places the pods on each until it succeeds. When many in a row fail more room is asked for, and the
    result is improved by leaving nodes out; then it is not proven to be the cheapest.
    """
    search = _Search(list(types), mix, sets, settings, seed)
    bound = search.lower_bound()
    impossible = search.impossible()
    if impossible is not None:
        return search.result((), bound, True, {}, impossible)
    for room in _rooms():
        for counts in search.proposals(room):
            placed, stop = search.verify(counts)
            if placed is not None:
                if room != 1:
                    counts, placed = search.improved(counts, placed)
                return search.result(counts, bound, room == 1, placed, None)
            search.fails(counts, stop)
        if search.exhausted or search.tried >= _TOTAL_ATTEMPTS:
            break
    return search.result((), bound, search.exhausted, {}, search.stop)


def _rooms() -> Iterator[Fraction]:
    """How much of the demand proposals have to offer, more and more."""
    room = Fraction(1)
    while room < 32:
        yield room
        room *= _MORE


class _Search:
    def __init__(
        self, types: list[NodeType], mix: Mix, sets: int, settings: Settings | None, seed: int
    ) -> None:
        self.types, self.mix, self.sets, self.seed = types, mix, sets, seed
        self.settings = Settings.of() if settings is None else settings
        self.tried = self._failures = 0
        self.stop: Stop | None = None
        self.exhausted = False
        self._failed: list[tuple[int, ...]] = []
        self.demand = self._demand()
        self.offers = [self._offer(one) for one in types]

    def _demand(self) -> Counter[str]:
        cluster = Cluster(settings=self.settings)
        create_others(cluster, self.mix.manifests)
        demand: Counter[str] = Counter()
        samples = _Pods(cluster, self.mix).samples()
        for (_, count), (pod, _) in zip(self.mix.parts, samples, strict=True):
            if pod is None:
                continue
            requests = cluster.table.info(pod).template.requests.amounts()
            for name, amount in requests.items():
                demand[name] += amount * count * self.sets
            demand["pods"] += count * self.sets
        return demand

    def _offer(self, one: NodeType) -> dict[str, int]:
        cluster = Cluster(self._nodes([one], (1,)), settings=self.settings)
        table = cluster.table
        row = table.row_of(cluster.nodes[0].name) or 0
        offered = {name: int(table.allocatable_of(name)[row]) for name in self.demand if name != "pods"}
        return {**offered, "pods": int(table.allowed_pods[row])}

    def _nodes(self, types: Sequence[NodeType], counts: Sequence[int]) -> list[Object]:
        shapes: list[NodeShape] = [
            replace(one, count=count, name=one.name if "{}" in one.name else f"{one.name}-{{}}")
            for one, count in zip(types, counts, strict=True)
            if count
        ]
        return objects_of(named_nodes(shapes))

    def impossible(self) -> Stop | None:
        """Why a pod fits on none of the types, if there is one that does not."""
        cluster = Cluster(self._nodes(self.types, [1] * len(self.types)), settings=self.settings)
        create_others(cluster, self.mix.manifests)
        for workload, _ in self.mix.parts:
            with cluster.fork():
                source = PodSource(cluster, workload)
                pods = source.create(1)
                if source.refusal:
                    return refused(Refusal(workload.title, 1, source.refusal))
                message = cluster.schedule(pods, preempt=False).pending.get(pods[0].key)
            if message:
                return stop_of(cluster, pods[0], NO_ROWS, message)
        return None

    def lower_bound(self) -> float:
        """No set of nodes is cheaper: each resource alone costs at least so much."""
        bound = 0.0
        for name, wanted in self.demand.items():
            rates = [
                one.price / offer[name]
                for one, offer in zip(self.types, self.offers, strict=True)
                if offer[name]
            ]
            bound = max(bound, wanted * min(rates) if rates else inf)
        return bound

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
            if seen > _MOST_PROPOSALS:
                return
            missing = self._missing(counts, wanted)
            if not missing and not self._known_to_fail(counts):
                yield counts
                if self._failures >= ATTEMPTS or self.tried >= _TOTAL_ATTEMPTS:
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
            rates = [
                one.price / offer[name]
                for one, offer in zip(self.types[first:], self.offers[first:], strict=True)
                if offer[name]
            ]
            bound = max(bound, amount * min(rates) if rates else inf)
        return bound

    def _missing(self, counts: tuple[int, ...], wanted: dict[str, int]) -> dict[str, int]:
        found = {}
        for name, amount in wanted.items():
            left = amount - sum(count * offer[name] for count, offer in zip(counts, self.offers, strict=True))
            if left > 0:
                found[name] = left
        return found

    def _known_to_fail(self, counts: tuple[int, ...]) -> bool:
        return any(
            all(one <= other for one, other in zip(counts, failed, strict=True)) for failed in self._failed
        )

    def verify(self, counts: tuple[int, ...]) -> tuple[dict[str, str] | None, Stop | None]:
        """Place everything on these nodes, for real."""
        self.tried += 1
        cluster = Cluster(self._nodes(self.types, counts), settings=self.settings, seed=self.seed)
        create_others(cluster, self.mix.manifests)
        source = _Pods(cluster, self.mix)
        placed: dict[str, str] = {}
        for _ in range(self.sets):
            made = [pod for _, pods in source.next_set() for pod in pods]
            if source.refusal is not None:
                return None, refused(source.refusal)
            outcome = cluster.schedule(made, preempt=False)
            if outcome.pending:
                pod = next(pod for pod in made if pod.key in outcome.pending)
                return None, stop_of(cluster, pod, NO_ROWS, outcome.pending[pod.key])
            placed.update(outcome.placed)
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
            while counts[place] and self.tried < _TOTAL_ATTEMPTS:
                less = (*counts[:place], counts[place] - 1, *counts[place + 1 :])
                found, _ = self.verify(less)
                if found is None:
                    break
                counts, placed = less, found
        return counts, placed

    def result(
        self, counts: tuple[int, ...], bound: float, proven: bool, placed: dict[str, str], stop: Stop | None
    ) -> Cheapest:
        price = round(sum(count * one.price for count, one in zip(counts, self.types, strict=False)), 6)
        return Cheapest(
            self.types, counts, price, bound, proven, self.tried, self.sets, self.mix, placed, stop
        )


# For people


def report_of(found: Capacity) -> Report:
    """How many sets fit."""
    composition = ", ".join(f"{count} {workload.title}" for workload, count in found.mix.parts)
    ended = "" if found.stop is None else f"; {found.stop.name} ends it, at {found.ended_by}"
    parts: list[Part] = [
        Figures(
            [
                Figure("whole sets fit", found.sets, composition),
                Figure("pods", found.sets * found.mix.pods),
                Figure("nodes take them", len(found.by_node), f"of {found.nodes:,}"),
            ]
        )
    ]
    if found.stop is not None:
        who = "API server" if found.stop.refused else "scheduler"
        bars = [Bar(reason, float(nodes)) for reason, nodes in found.stop.reasons.items()]
        if bars:
            parts.append(Bars(bars, "", title="what ends it: nodes that could take one at first"))
        parts.append(Text(found.stop.message, title=f"the {who}'s message"))
    ranked = sorted(found.by_node.items(), key=lambda item: (-item[1], item[0]))
    if ranked:
        more = max(len(ranked) - SHOWN, 0)
        parts.append(Table(["node", "pods"], ranked[:SHOWN], (1,), more, title="where they go"))
    summary = f"{found.sets:,} sets of {composition} fit{ended}."
    return Report("capacity", summary, parts, found.document())


def report_of_cheapest(found: Cheapest) -> Report:
    """The cheapest nodes."""
    document = found.document()
    if not found.fits:
        why = "" if found.stop is None else f": {found.stop.message}"
        return Report(
            "capacity", f"No set of these nodes was found on which everything fits{why}", [], document
        )
    rows = [
        (one.name, count, one.price, round(count * one.price, 6))
        for one, count in zip(found.types, found.counts, strict=True)
        if count
    ]
    chosen = ", ".join(f"{count} {name}" for name, count, *_ in rows)
    proof = "no cheaper set of nodes is enough" if found.proven else "a cheaper set may exist"
    parts: list[Part] = [
        Figures(
            [
                Figure("price", found.price, proof),
                Figure("lower bound", round(found.lower_bound, 4), "by the sums of resources alone"),
                Figure("proposals were tried by the engine", found.tried),
            ]
        ),
        Table(["node type", "nodes", "price", "together"], rows, (1, 2, 3), title="nodes"),
    ]
    summary = f"{chosen}: {found.price:g} for {found.sets:,} sets ({found.sets * found.mix.pods:,} pods)."
    return Report("capacity", summary, parts, document)
