"""GPU sharing: who gets which GPU on which node, checked against rules written out for one node at a time."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.cli.lab.bench import bench
from stowplan.config import load
from stowplan.contrib.gpushare.devices import COUNT, INDEX, MODEL, PARTS, GpuRequest, gpus
from stowplan.gpushare import POLICIES, GpuShare, typical_pods
from stowplan.scheduler import Settings
from stowplan.simulate import Cluster
from stowplan.testing import check_plugin, node, pod

MODELS = ("A10", "T4")
USUAL = typical_pods(
    [
        *[(4000, GpuRequest(1, 500))] * 5,
        *[(8000, GpuRequest(1, 1000, ("A10",)))] * 3,
        *[(8000, GpuRequest(2, 1000))] * 2,
        *[(2000, GpuRequest())] * 4,
        (16000, GpuRequest(1, 200, ("A10", "T4"))),
    ],
    popularity=1.0,
)


def configured(policy: str, selection: str = "best") -> Settings:
    usual = [
        {"cpu": one.cpu, "gpus": one.gpus, "milli": one.milli, "models": one.models, "weight": one.weight}
        for one in USUAL
    ]
    args: dict[str, Any] = {"typicalPods": usual} if policy == "FGD" else {}
    share: dict[str, Any] = {"selection": selection}
    if selection == "fgd":
        share["typicalPods"] = usual
    profile = {
        "plugins": {
            "multiPoint": {"enabled": [{"name": "GpuShare"}]},
            "preScore": {"disabled": [{"name": "*"}]},
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": policy}]},
        },
        "pluginConfig": [
            {"name": "GpuShare", "args": share},
            *([{"name": policy, "args": args}] if args else []),
        ],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    return Settings.of(load(json.dumps(document)), [GpuShare, POLICIES[policy]])


def gpu_node(name: str, gpus: int, cpu: int = 32, model: str = "A10") -> Node:
    capacity = {"cpu": str(cpu), "memory": "64Gi", "pods": "100", COUNT: str(gpus)}
    return node(name).capacity(capacity).labels({MODEL: model}).obj()


def gpu_pod(
    name: str, count: int, milli: int, cpu: str = "1", models: str = "", on: str = "", at: str = ""
) -> Pod:
    annotations = {COUNT: str(count), PARTS: str(milli)}
    if models:
        annotations[MODEL] = models
    if at:
        annotations[INDEX] = at
    built = pod(name).requests(cpu=cpu).annotations(annotations)
    return (built.on(on) if on else built).obj()


@pytest.mark.parametrize(
    ("free", "asked", "reason"),
    [
        ((500, 500), (1, 600), "1 node(s) had too little left of their GPUs"),
        ((500, 1000), (2, 1000), "1 node(s) had too little left of their GPUs"),
        ((1000, 1000), (2, 1000), ""),
        ((500, 500), (1, 500), ""),
        ((), (1, 100), "1 node(s) had no GPU"),
    ],
)
def test_a_node_takes_what_its_gpus_have_room_for(
    free: Sequence[int], asked: tuple[int, int], reason: str
) -> None:
    used = [
        gpu_pod(f"used-{index}", 1, 1000 - left, on="n", at=str(index))
        for index, left in enumerate(free)
        if left < 1000
    ]
    cluster = Cluster([gpu_node("n", len(free)), *used], settings=configured("BestFit"))
    outcome = cluster.schedule(gpu_pod("new", *asked))
    assert (reason in outcome.pending["default/new"]) if reason else outcome.fits


def test_models_are_honoured() -> None:
    nodes = [gpu_node("a", 1, model="A10"), gpu_node("t", 1, model="T4")]
    cluster = Cluster(nodes, settings=configured("GpuPacking"))
    assert cluster.schedule(gpu_pod("p", 1, 100, models="T4|V100")).placed == {"default/p": "t"}
    message = cluster.schedule(gpu_pod("q", 1, 100, models="V100")).pending["default/q"]
    assert "2 node(s) had GPUs of another model" in message


@pytest.mark.parametrize(("selection", "index"), [("best", 1), ("worst", 2)])
def test_part_of_a_gpu_is_taken_where_the_least_or_most_is_left(selection: str, index: int) -> None:
    used = [gpu_pod("a", 1, 900, on="n", at="0"), gpu_pod("b", 1, 600, on="n", at="1")]
    cluster = Cluster([gpu_node("n", 3), *used], settings=configured("BestFit", selection))
    cluster.schedule(gpu_pod("new", 1, 300))
    free = [100, 400, 1000]
    free[index] -= 300
    assert gpus(cluster.table).free[cluster.table.row_of("n")].tolist() == free


@pytest.mark.parametrize(("cpu_of_few_gpus", "best"), [(32, "few-gpus"), (48, "few-cpus")])
def test_best_fit_leaves_the_least_cpu_and_gpu(cpu_of_few_gpus: int, best: str) -> None:
    """The score is the mean of the free shares of 128 CPUs and of 8 GPUs."""
    nodes = [
        gpu_node("roomy", 4, cpu=32),
        gpu_node("few-gpus", 2, cpu=cpu_of_few_gpus),
        gpu_node("few-cpus", 4, cpu=8),
    ]
    cluster = Cluster(nodes, settings=configured("BestFit"))
    assert cluster.schedule(gpu_pod("p", 2, 1000, cpu="8")).placed == {"default/p": best}


def test_clustering_prefers_like_pods_then_empty_nodes_and_packing_used_gpus() -> None:
    nodes = [gpu_node(name, 4) for name in ("empty", "mixed", "pairs", "shared")]
    pods = [
        gpu_pod("p1", 2, 1000, on="pairs", at="0-1"),
        gpu_pod("m1", 2, 1000, on="mixed", at="0-1"),
        gpu_pod("m2", 1, 300, on="mixed", at="2"),
        gpu_pod("s1", 1, 300, on="shared", at="0"),
    ]
    clustering = Cluster([*nodes, *pods], settings=configured("GpuClustering"), ties="first")
    assert clustering.schedule(gpu_pod("two", 2, 1000)).placed == {"default/two": "pairs"}
    assert clustering.schedule(gpu_pod("four", 4, 1000)).placed == {"default/four": "empty"}
    assert clustering.schedule(gpu_pod("part", 1, 300)).placed == {"default/part": "shared"}
    unshared = Cluster([*nodes[:3], *pods[:3]], settings=configured("GpuClustering"), ties="first")
    assert unshared.schedule(gpu_pod("part", 1, 300)).placed == {"default/part": "mixed"}
    packing = Cluster([*nodes, *pods], settings=configured("GpuPacking"), ties="first")
    assert packing.schedule(gpu_pod("part", 1, 700)).placed == {"default/part": "mixed"}
    assert packing.schedule(gpu_pod("whole", 1, 1000)).placed["default/whole"] != "empty"


def fragments(free: Sequence[int], cpu: int, model: str) -> float:
    """The fragmentation of one node, by its definition."""
    weight = sum(one.weight for one in USUAL)
    lost = 0.0
    for one in USUAL:
        accepted = not one.models or model in one.models
        able = [left for left in free if one.milli and left >= one.milli]
        if not one.milli or not accepted or len(able) < one.gpus or cpu < one.cpu:
            lost += one.weight / weight * sum(free)
        else:
            lost += one.weight / weight * sum(left for left in free if left < one.milli)
    return lost


@settings(max_examples=80, deadline=None)
@given(
    free=st.lists(st.sampled_from([0, 100, 300, 500, 800, 1000]), min_size=1, max_size=4),
    cpu=st.sampled_from([4, 8, 12, 20]),
    model=st.sampled_from(MODELS),
    asked=st.sampled_from([(1, 100), (1, 500), (1, 1000), (2, 1000), (0, 0)]),
)
def test_fgd_is_the_least_growth_of_fragments(
    free: list[int], cpu: int, model: str, asked: tuple[int, int]
) -> None:
    used = [
        gpu_pod(f"u{index}", 1, 1000 - left, cpu="100m", on="n", at=str(index))
        for index, left in enumerate(free)
        if left < 1000
    ]
    other = gpu_node("other", 4, cpu=64)
    cluster = Cluster([gpu_node("n", len(free), cpu, model), other, *used], settings=configured("FGD"))
    new = gpu_pod("new", *asked, cpu="2")
    evaluation = cluster.evaluate(new)
    row = cluster.table.row_of("n")
    if row not in evaluation.feasible_rows.tolist() or evaluation.feasible_count < 2:
        return
    left = cpu * 1000 - 100 * len(used)
    before = fragments(free, left, model)
    count, milli = asked
    ways: list[list[int]] = []
    if count == 1 and milli < 1000:
        ways = [[*free[:i], have - milli, *free[i + 1 :]] for i, have in enumerate(free) if have >= milli]
    else:
        taken = [i for i, have in enumerate(free) if milli and have >= milli][:count]
        ways = [[have - (milli if i in taken else 0) for i, have in enumerate(free)]]
    best = max(
        int(100 / (1 + math.exp((fragments(way, left - 2000, model) - before) / 1000))) for way in ways
    )
    assert evaluation.scores(evaluation.feasible_rows)["FGD"][
        evaluation.feasible_rows.tolist().index(row)
    ] == pytest.approx(best, abs=1)


@pytest.mark.parametrize("policy", ["BestFit", "DotProd", "GpuClustering", "GpuPacking"])
def test_policies_keep_the_contract_of_plugins(policy: str) -> None:
    nodes = [
        node("n")
        .capacity({"cpu": "16", "memory": "8Gi", "pods": "9", COUNT: str(gpus)})
        .labels({MODEL: "T4"})
        for gpus in (0, 2, 4)
    ]
    pods = [
        pod("p").requests(cpu="1").annotations({COUNT: "1", PARTS: "500", INDEX: "0"}),
        pod("q").requests(cpu="2").annotations({COUNT: "2", PARTS: "1000", MODEL: "T4"}),
    ]
    check_plugin(POLICIES[policy], nodes=nodes, pods=pods, examples=10)


TRACE = {
    "openb_node_list_gpu_node.csv": (
        "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,262144,2,T4\nn2,64000,262144,4,A10\n"
    ),
    "openb_pod_list_default.csv": (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
        "p1,4000,1024,1,500,\np2,4000,1024,1,1000,A10\np3,2000,1024,0,0,\np4,4000,1024,2,1000,\n"
    ),
}


def written(folder: Path, **changed: str) -> Path:
    for name, text in {**TRACE, **changed}.items():
        (folder / name).write_text(text)
    return folder


def test_the_bench_prints_allocations_by_seed(tmp_path: Path) -> None:
    arguments = ["paper", "--trace", str(written(tmp_path)), "--seeds", "2", "--json"]
    first = CliRunner().invoke(bench, [*arguments, "--policy", "FGD"])
    assert first.exit_code == 0, first.output
    found = json.loads(first.output.splitlines()[-1])
    assert set(found["allocation"]) == {"100", "130"}
    assert set(found["allocation"]["130"]["bySeed"]) == {"42", "43"}
    assert 50 < found["allocation"]["130"]["mean"] <= 100
    again = CliRunner().invoke(bench, [*arguments, "--policy", "FGD"])
    assert json.loads(again.output.splitlines()[-1])["allocation"] == found["allocation"]
    everything = json.loads(CliRunner().invoke(bench, arguments).output.splitlines()[-1])
    assert [one["policy"] for one in everything["policies"]] == list(POLICIES)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("openb_pod_list_default.csv", "name,cpu_milli\np,1\n", "line 1: expected a column memory_mib"),
        (
            "openb_node_list_gpu_node.csv",
            "sn,cpu_milli,memory_mib,gpu,model\nn1,many,1,1,T4\n",
            "line 2: cpu_milli: expected a whole number, got 'many'",
        ),
    ],
)
def test_a_bad_trace_is_one_line_with_file_line_and_column(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    result = CliRunner().invoke(bench, ["paper", "--trace", str(written(tmp_path, **{name: text}))])
    assert result.exit_code == 1
    assert result.output.strip() == f"Error: {tmp_path / name}: {message}"
