"""The corpus on another API server than the one in this process: bounds, the table, and what is started."""

import asyncio
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from stowplan.cli.lab.fuzz_real import _table
from stowplan.cli.main import stowplan
from stowplan.lab.fuzz import FuzzCase, corpus
from stowplan.lab.fuzz.cases import FuzzStep, pod
from stowplan.lab.fuzz.real.controlplane import RealApiServer
from stowplan.lab.fuzz.real.run import PATIENCE, Measured, RealRun, run_on
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.apiserver import ApiServer as EmbeddedServer
from stowplan.localcluster.apiserver import Listening
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock

MIB = 1 << 20
NOWHERE = Path("/nowhere")


async def _measured(folder: Path, cases: list[FuzzCase]) -> tuple[list[Measured], list[str]]:
    """`stowplan run` on an embedded API server in this process, and the names of the pods that are left."""
    clock = RealClock()
    admission = ClusterAdmission(disabled=["ServiceAccount", "TaintNodesByCondition"])
    store = Store(clock, random.Random(1), admission=admission)
    create_bootstrap_objects(store)
    async with EmbeddedServer(store, Listening(), clock=clock, rng=random.Random(1)) as server:
        assert server.certificate is not None
        api = RealApiServer(server.url, server.certificate, server.token or "", folder)
        try:
            run = RealRun(NOWHERE, NOWHERE, nodes=10, settled=0.2)
            rows = await run_on(api, run, cases, folder, lambda row: None)
        finally:
            await api.close()
        return rows, [one["metadata"]["name"] for one in store.all(FuzzStep("create").resource)]


def test_cases_are_written_measured_and_cleared(tmp_path: Path) -> None:
    refused = FuzzCase("refused", (FuzzStep("create", body={**pod("bad"), "spec": {"containers": []}}),))
    (kinds,) = [case for case in corpus(10) if case.name.startswith("70 kinds")]
    rows, left = asyncio.run(_measured(tmp_path, [kinds, refused]))
    assert [(row.scheduler, row.case, row.admitted) for row in rows] == [
        ("stowplan", kinds.name, 2),
        ("stowplan", "refused", 0),
    ]
    assert list(rows[1].refusals.values()) == [1]
    assert left == []
    for row in rows:
        assert row.recovered
        assert row.exits == []
        assert 0 < row.during < PATIENCE
        assert min(row.memory_before, row.memory_after, row.livez_asked) > 0


@pytest.mark.parametrize(
    ("measured", "problem"),
    [
        ({"during": 1.2}, "an ordinary pod waited 1.20 s, without the case 0.10 s"),
        ({"during": 60.0}, "an ordinary pod waited > 60 s, without the case 0.10 s"),
        ({"exits": [1, 1]}, "exited 2 times (1, 1)"),
        ({"livez_failed": 1}, "/livez failed 1 of 9 times"),
        ({"recovered": False}, "ordinary pods are not bound after the objects are gone"),
        ({"memory_after": 120 * MIB}, "memory grew from 100 to 120 MiB"),
    ],
)
def test_a_broken_bound_is_named(measured: dict[str, object], problem: str) -> None:
    good: dict[str, object] = {
        "without": 0.1,
        "during": 1.0,
        "livez_asked": 9,
        "memory_before": 100 * MIB,
        "memory_after": 110 * MIB,
    }
    assert Measured("stowplan", "c", **good).broken() == []  # type: ignore[arg-type]
    assert Measured("stowplan", "c", **{**good, **measured}).broken() == [problem]  # type: ignore[arg-type]


def test_the_table_has_schedulers_of_one_case_below_each_other() -> None:
    rows = [
        Measured("kube-scheduler", "a", admitted=2, without=0.1, during=9.0, livez_asked=5),
        Measured("kube-scheduler", "b"),
        Measured("stowplan", "a", admitted=2, during=60.0, exits=[1], memory_before=99 * MIB),
        Measured("stowplan", "b", refusals={"no": 3}),
    ]
    lines = [line.split() for line in _table(rows)[2:]]
    assert [line[:5] for line in lines] == [
        ["a", "2", "of", "2", "stowplan"],
        ["2", "of", "2", "kube-scheduler", "0.10"],
        ["b", "0", "of", "3", "stowplan"],
        ["0", "of", "0", "kube-scheduler", "0.00"],
    ]
    assert lines[0][5:] == ["0.00", "s", ">", "60", "s", "0", "of", "0", "99", "0", "1"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--real"], "--apiserver: expected the path of a binary with --real"),
        (["--real", "--apiserver", "/bin/sh"], "--etcd: expected the path of a binary with --real"),
        (
            ["--real", "--apiserver", "/nowhere", "--etcd", "/bin/sh"],
            "--apiserver: /nowhere: no such program",
        ),
        (
            ["--real", "--apiserver", "/bin/sh", "--etcd", "/etc/passwd"],
            "--etcd: /etc/passwd: is not executable",
        ),
        (["--etcd", "/bin/sh"], "--etcd: expected only with --real"),
        (["--real", "--seeds", "3"], "--seeds: expected only without --real"),
        (["--real", "--apiserver", "/bin/sh", "--etcd", "/bin/true"], "etcd ended with 0: it said nothing"),
        (
            ["--real", "--apiserver", "/bin/sh", "--etcd", "/bin/sh", "--case", "nobody"],
            "--case: expected a seed or a part of one of: sums of requests that wrap; ",
        ),
    ],
)
def test_bad_options_are_refused_in_one_line(arguments: list[str], problem: str) -> None:
    done = CliRunner().invoke(stowplan, ["lab", "fuzz", *arguments])
    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {problem}")
    assert done.stderr.count("\n") == 1
