"""`stowplan capacity`: sets that fit really fit, one more does not, and no cheaper nodes would do."""

import json
from collections.abc import Mapping, Sequence
from itertools import permutations, product
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result

from effort import examples
from simulate.real_clusters import World, done_for_real
from stowplan.api.meta import Object
from stowplan.api.node import Node
from stowplan.cli.main import stowplan
from stowplan.localcluster.kubelets.config import named_nodes
from stowplan.simulate import Cluster
from stowplan.simulate.bound import Room, least_price
from stowplan.simulate.capacity import cheapest, read_catalogue, read_mix, sets_that_fit
from stowplan.simulate.snapshot.shapes import objects_of
from stowplan.testing import node, pod

MIX = """
mix:
- count: 2
  manifest:
    apiVersion: v1
    kind: Pod
    metadata: {name: web}
    spec: {containers: [{name: c, image: web, resources: {requests: {cpu: 700m, memory: 1Gi}}}]}
- count: 1
  manifest:
    apiVersion: v1
    kind: Pod
    metadata: {name: db}
    spec: {containers: [{name: c, image: db, resources: {requests: {cpu: "1", memory: 5Gi}}}]}
"""
CATALOGUE = """
nodes:
- {name: small, cpu: 2, memory: 8Gi, price: 1.0}
- {name: large, cpu: 8, memory: 32Gi, price: 3.7}
- {name: fat, cpu: 2, memory: 24Gi, price: 1.6, max: 2}
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def placed_for_real(objects: list[Object], text: str, sets: int, folder: Path) -> dict[str, int]:
    """Pods by node when the pods of `sets` sets come one after the other."""
    mix = read_mix(written(folder, "mix.yaml", text))

    async def story(world: World) -> None:
        for number in range(sets):
            for workload, count in mix.parts:
                for one in range(count):
                    document = {**workload.document, "kind": "Pod"}
                    metadata = {"name": f"{workload.name}-{number}-{one}", "namespace": "default"}
                    world.create({**document, "metadata": metadata})
                    await world.settle(0.5)

    return done_for_real(objects, story, 5).by_node()


def test_sets_that_fit_are_placed_and_one_more_is_not(tmp_path: Path) -> None:
    nodes: list[Object] = [node(f"n{n}").capacity(cpu="4", memory="16Gi", pods="20").obj() for n in range(4)]
    found = sets_that_fit(Cluster(nodes, seed=5), read_mix(written(tmp_path, "mix.yaml", MIX)))
    assert found.by_node == placed_for_real(nodes, MIX, found.sets, tmp_path)
    more = placed_for_real(nodes, MIX, found.sets + 1, tmp_path)
    assert sum(more.values()) < (found.sets + 1) * 3
    assert found.stop is not None
    assert (found.stop.resource, found.ended_by) == ("cpu", "pod/web")


def test_proportions_become_the_smallest_set(tmp_path: Path) -> None:
    text = MIX.replace("count: 2", "proportion: 0.75").replace("count: 1", "proportion: 0.25")
    mix = read_mix(written(tmp_path, "mix.yaml", text))
    assert [(workload.title, count) for workload, count in mix.parts] == [("pod/web", 3), ("pod/db", 1)]


@pytest.mark.parametrize("sets", [1, 3, 6])
def test_no_cheaper_combination_of_nodes_takes_everything(sets: int, tmp_path: Path) -> None:
    types = read_catalogue(written(tmp_path, "catalogue.yaml", CATALOGUE))
    mix = read_mix(written(tmp_path, "mix.yaml", MIX))
    found = cheapest(types, mix, sets, seed=5)
    assert found.proven
    for counts in product(range(8), range(4), range(3)):
        price = sum(count * one.price for count, one in zip(counts, types, strict=True))
        if price < found.price - 1e-9 and any(counts):
            assert not _takes(types, counts, mix, sets), counts
    nodes = _nodes(types, found.counts)
    really = placed_for_real([one for one in nodes if isinstance(one, Node)], MIX, sets, tmp_path)
    assert really == found.document()["placements"]


def _nodes(types: Any, counts: Any) -> list[Object]:
    from msgspec.structs import replace

    shapes = [
        replace(one, count=count, name=f"{one.name}-{{}}")
        for one, count in zip(types, counts, strict=True)
        if count
    ]
    return objects_of(named_nodes(shapes))


def _takes(types: Any, counts: Any, mix: Any, sets: int) -> bool:
    return sets_that_fit(Cluster(_nodes(types, counts), seed=5), mix, sets).sets >= sets


def running(name: str, on: str, cpu: str, owner: str = "") -> Object:
    made = pod(name).requests(cpu=cpu).on(on)
    return (made.owned_by("DaemonSet", owner) if owner else made).obj()


EXISTING: list[Object] = [
    *(node(f"n{n}").capacity(cpu="4", memory="16Gi", pods="20").obj() for n in range(2)),
    running("a", "n0", "3"),
    running("agent-0", "n0", "500m", "agent"),
    running("agent-1", "n1", "500m", "agent"),
]


@pytest.mark.parametrize("sets", [1, 4, 7])
def test_nodes_that_a_cluster_needs_in_addition_are_the_cheapest(sets: int, tmp_path: Path) -> None:
    """Its free room is used, and its DaemonSet takes half a cpu of every new node."""
    types = read_catalogue(written(tmp_path, "catalogue.yaml", CATALOGUE))
    mix = read_mix(written(tmp_path, "mix.yaml", MIX))
    cluster = Cluster(EXISTING, seed=5)
    before = cluster.placements
    found = cheapest(types, mix, sets, cluster=cluster)
    assert cluster.placements == before
    assert len(cluster.nodes) == 2
    assert found.proven
    assert found.lower_bound <= found.price + 1e-6
    assert any(found.counts) == (sets > 1)

    def takes(counts: tuple[int, ...]) -> bool:
        bought = [one for one in _nodes(types, counts) if isinstance(one, Node)]
        agents = [running(f"agent-{one.name}", one.name, "500m", "agent") for one in bought]
        return sets_that_fit(Cluster([*EXISTING, *bought, *agents], seed=5), mix, sets).sets >= sets

    assert takes(found.counts)
    for counts in product(range(6), range(4), range(3)):
        price = sum(count * one.price for count, one in zip(counts, types, strict=True))
        assert price >= found.price - 1e-9 or not takes(counts), counts


def test_daemon_sets_take_their_part_of_new_nodes(tmp_path: Path) -> None:
    """A node of 4 cpu takes one pod of 2 cpu instead of two, where an agent of 500m runs on every node."""
    pairs = MIX.replace("cpu: 700m", 'cpu: "2"').replace('cpu: "1"', 'cpu: "2"')
    mix = read_mix(written(tmp_path, "mix.yaml", pairs))
    types = read_catalogue(written(tmp_path, "catalogue.yaml", "nodes: [{name: new, cpu: 4, memory: 64Gi}]"))
    full = node("n0").capacity(cpu="500m", memory="16Gi", pods="20").obj()
    agent = running("agent-0", "n0", "500m", "agent")
    assert cheapest(types, mix, 2, cluster=Cluster([full])).counts == (3,)
    assert cheapest(types, mix, 2, cluster=Cluster([full, agent])).counts == (6,)


def test_the_bound_is_that_of_an_integer_program_and_the_gap_is_told(tmp_path: Path) -> None:
    """Pods of 3 cpu on nodes of 4: by sums 9 nodes are enough for 12 pods, in truth 12 are needed."""
    big = (
        MIX.replace("cpu: 700m", 'cpu: "3"')
        .replace("memory: 5Gi", "memory: 1Gi")
        .replace('cpu: "1"', 'cpu: "3"')
    )
    types = read_catalogue(written(tmp_path, "catalogue.yaml", "nodes: [{name: a, cpu: 4, memory: 64Gi}]"))
    found = cheapest(types, read_mix(written(tmp_path, "mix.yaml", big)), 4)
    assert (found.counts, found.price, found.proven) == ((12,), 12, True)
    assert found.lower_bound == pytest.approx(12)
    assert (found.solved, found.gap, found.tried) == (True, 0.0, 1)
    told = run("--mix", tmp_path / "mix.yaml", "--shapes", tmp_path / "catalogue.yaml", "--sets", 4)
    assert "proven by HiGHS" in told.stdout


@pytest.mark.parametrize("seed", range(examples(20)))
def test_no_answer_is_cheaper_than_the_bound(seed: int) -> None:
    """Random types, requests and rooms, against all numbers of nodes that one after another is enough."""
    rng = Random(seed)
    names = ("cpu", "memory")
    requests = [{name: rng.randint(1, 5) for name in names} for _ in range(rng.randint(1, 2))]
    counts = [rng.randint(1, 4) for _ in requests]
    rooms = [
        Room({name: rng.randint(3, 9) for name in names}, [True] * len(requests), float(rng.randint(1, 5)))
        for _ in range(2)
    ]
    rooms.append(Room({name: rng.randint(0, 9) for name in names}, [True] * len(requests), 0, 1, exists=True))
    bound = least_price(rooms, requests, counts)
    assert bound is not None
    best = inf
    wanted = [one for one, count in zip(requests, counts, strict=True) for _ in range(count)]
    for bought in product(range(9), range(9)):
        price = sum(count * room.price for count, room in zip(bought, rooms, strict=False))
        if price < best and _packs([*bought, 1], rooms, wanted):
            best = price
    assert bound.price <= best + 1e-6


def _packs(counts: Sequence[int], rooms: Sequence[Room], wanted: Sequence[Mapping[str, int]]) -> bool:
    """First fit in any order: enough to find an answer that the bound must not exceed."""
    for order in permutations(wanted):
        bins = [dict(room.offer) for room, count in zip(rooms, counts, strict=True) for _ in range(count)]
        for one in order:
            fitting = next((b for b in bins if all(b[name] >= one[name] for name in one)), None)
            if fitting is None:
                break
            for name in one:
                fitting[name] -= one[name]
        else:
            return True
        if len(wanted) > 5:
            return False
    return False


def test_large_numbers_end_early_and_say_what_ended_them(tmp_path: Path) -> None:
    mix, catalogue = written(tmp_path, "mix.yaml", MIX), written(tmp_path, "catalogue.yaml", CATALOGUE)
    told = run("--mix", mix, "--shapes", catalogue, "--sets", 10_000_000)
    assert told.exit_code == 1
    said = " ".join(told.stdout.split())
    assert (
        "No nodes were found for 10,000,000 sets (30,000,000 pods): a search places 1,000,000 pods at most"
        in said
    )
    assert "they cost at least" in said


def test_what_fits_on_no_type_is_told(tmp_path: Path) -> None:
    types = read_catalogue(written(tmp_path, "catalogue.yaml", CATALOGUE))
    mix = read_mix(written(tmp_path, "mix.yaml", MIX.replace('cpu: "1"', 'cpu: "9"')))
    found = cheapest(types, mix, 1)
    assert not found.fits
    assert found.stop is not None
    assert found.stop.resource == "cpu"


def test_types_that_run_out_are_not_enough(tmp_path: Path) -> None:
    text = "nodes:\n- {name: a, cpu: 4, memory: 16Gi, price: 1, max: 2}\n"
    types = read_catalogue(written(tmp_path, "catalogue.yaml", text))
    assert not cheapest(types, read_mix(written(tmp_path, "mix.yaml", MIX)), 5).fits


def run(*arguments: object) -> Result:
    return CliRunner().invoke(stowplan, ["capacity", *map(str, arguments)])


def test_the_command_counts_sets_and_finds_nodes(tmp_path: Path) -> None:
    mix, catalogue = written(tmp_path, "mix.yaml", MIX), written(tmp_path, "catalogue.yaml", CATALOGUE)
    shapes = written(tmp_path, "shapes.yaml", "nodes:\n- {count: 3, cpu: 4}\n")
    counted = json.loads(run("--mix", mix, "--from", shapes, "--json").stdout)
    assert (counted["sets"], counted["pods"]) == (4, 12)
    assert counted["stoppedBy"]["resource"] == "cpu"
    bought = json.loads(run("--mix", mix, "--shapes", catalogue, "--sets", 3, "--json").stdout)
    assert bought["price"] == 3.7
    assert bought["nodes"] == {"large": 1}
    assert run("--mix", mix, "--from", shapes, "--sets", 9).exit_code == 1
    more = run("--mix", mix, "--from", shapes, "--shapes", catalogue, "--sets", 6)
    assert "3 more small: 3 for 6 sets (18 pods)." in more.stdout
    enough = run("--mix", mix, "--from", shapes, "--shapes", catalogue, "--sets", 4)
    assert "No more nodes are needed for 4 sets" in enough.stdout


@pytest.mark.parametrize(
    ("mix", "catalogue", "message"),
    [
        (MIX.replace("count: 2", "counts: 2"), CATALOGUE, "mix.yaml:3: mix[0].counts: unknown field"),
        (MIX.replace("count: 2", "count: 0"), CATALOGUE, "mix.yaml:3: mix[0].count: expected more than 0"),
        (MIX.replace("count: 2", "proportion: 2"), CATALOGUE, "mix.yaml:2: mix: expected counts for all"),
        (
            MIX.replace("cpu: 700m", "cpu: x"),
            CATALOGUE,
            "mix.yaml:8: mix[0].manifest.spec.containers[0].resources",
        ),
        ("mix: []\n", CATALOGUE, "mix.yaml:1: mix: expected at least one template"),
        (
            MIX.replace("- count: 2", "- count: 2\n  file: web.yaml"),
            CATALOGUE,
            "mix.yaml:3: mix[0]: expected either manifest or file",
        ),
        ("mix:\n- count: 2\n", CATALOGUE, "mix.yaml:2: mix[0]: expected either manifest or file"),
        (
            MIX.replace("- count: 2", "- count: 2\n  proportion: 1"),
            CATALOGUE,
            "mix.yaml:4: mix[0].proportion: expected either count or proportion",
        ),
        ("mix:\n- file: gone.yaml\n", CATALOGUE, "gone.yaml: No such file or directory"),
        (
            MIX,
            CATALOGUE.replace("price: 3.7", "price: 0"),
            "catalogue.yaml:4: nodes[1].price: expected a price",
        ),
        (MIX, CATALOGUE.replace("cpu: 8", "cpus: 8"), "catalogue.yaml:4: nodes[1]"),
        (MIX, CATALOGUE.replace("max: 2", "max: two"), "catalogue.yaml:5: nodes[2].max: expected `int`"),
    ],
)
def test_a_mistake_is_one_line(mix: str, catalogue: str, message: str, tmp_path: Path) -> None:
    told = run(
        "--mix",
        written(tmp_path, "mix.yaml", mix),
        "--shapes",
        written(tmp_path, "catalogue.yaml", catalogue),
    )
    assert told.exit_code == 1
    assert message in told.stderr
    assert told.stderr.count("\n") == 1
