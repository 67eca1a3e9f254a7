"""Recordings: a replay makes the same decisions, from any part of a recording that is there."""

import asyncio
import runpy
from errno import ENOSPC
from itertools import pairwise
from pathlib import Path
from random import Random

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.recording.small import node, pod, record_small
from stowplan.api.catalogue import NODES, PODS
from stowplan.api.node import Node
from stowplan.cli.main import stowplan
from stowplan.lab.chaos import ChaosPlan, plan_of
from stowplan.lab.chaos.run import execute_recorded
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.recording import Decision, Recording, decisions, sessions
from stowplan.scheduler.recording.files import EntryKind, first_bytes, read_header
from stowplan.scheduler.recording.objects import objects_at
from stowplan.scheduler.recording.reading import settings_of
from stowplan.scheduler.recording.replay import ReplayClient, ReplayTurns
from stowplan.scheduler.recording.segments import FILES, SegmentWriter
from stowplan.scheduler.recording.watching import ClusterRecorder
from stowplan.scheduler.turns import WRITING
from stowplan.simulate import Cluster
from stowplan.simulate.scenario import read_scenario
from stowplan.simulate.shadow.replay_comparison import judged_bindings

MOST_ALLOCATED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


def sound(seed: int, *, groups: bool = False) -> ChaosPlan:
    """A plan of `stowplan lab chaos` in which only the API server fails at random, no plugin or extender."""
    return msgspec.structs.replace(plan_of(seed, groups=groups), faulty_profiles=(), extenders=())


@pytest.mark.parametrize(
    ("seed", "groups", "about"),
    [
        (8, False, "bindings that fail"),
        (4, False, "claims, preemption, cycles that wait"),
        (20, False, "volumes"),
        (11, False, "victims that are not deleted"),
        (5, True, "answers about one volume that two pods wait for, not in the order of their requests"),
        (111, True, "a victim that the API server refuses to delete before the others have begun"),
        (1017, True, "a claim that has the time of an answer in it"),
        (1026, True, "a request that is given up, and the same again"),
        (1190, True, "a pod that goes on once more when it is told to give up its node"),
        (1256, True, "the same request twice at a time, answered in the other order"),
        (1138, True, "a claim that a pod gives back is deleted for it in its cycle, too"),
        (1273, True, "the same while the API server fails"),
    ],
)
def test_a_replay_of_a_run_with_faults_makes_the_same_decisions(
    seed: int, groups: bool, about: str, tmp_path: Path
) -> None:
    path = tmp_path / "day.rec"
    assert execute_recorded(sound(seed, groups=groups), Recording(path)).ok, about
    made = decisions(path)
    assert len(made) > 40
    assert [one for one in made if not one.is_same] == []


def test_recordings_from_before_there_were_turns_for_writing_have_none(tmp_path: Path) -> None:
    path = tmp_path / "day.rec"
    record_small(path, pods=1)
    header = read_header(path).header
    assert header.has_writing

    async def is_given_at_once() -> bool:
        turn = asyncio.ensure_future(ReplayTurns(header, ReplayClient()).take(WRITING, "uid", None))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        done = turn.done()
        turn.cancel()
        return done

    assert not asyncio.run(is_given_at_once())
    header.has_writing = False
    assert asyncio.run(is_given_at_once())


def test_a_replay_scores_as_many_nodes_as_the_recorded_scheduler(tmp_path: Path) -> None:
    path = tmp_path / "day.rec"
    record_small(path, pods=1)
    [profile] = settings_of(read_header(path).header).config.profiles
    assert profile.percentage_of_nodes_to_score is None


def test_a_recording_that_was_rotated_is_replayed_from_the_oldest_state_that_is_left(tmp_path: Path) -> None:
    path = tmp_path / "day.rec"
    execute_recorded(sound(8), Recording(path, size=12_000, in_background=False))
    assert len(list(tmp_path.iterdir())) == FILES
    [session] = sessions(path)
    assert session.header.has_state
    made = decisions(path)
    assert made
    assert all(one.is_same for one in made)


def test_a_state_larger_than_a_file_is_not_written_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "day.rec"

    async def main(clock: VirtualClock) -> None:
        store = Store(clock, Random(1))
        for number in range(500):
            store.create(NODES, node(f"n{number}"))
        recorder = ClusterRecorder(
            Recording(path, size=400, in_background=False),
            InProcessClient(store),
            clock=clock,
            source="test",
            report=print,
        )
        task = asyncio.create_task(recorder.run())
        await asyncio.sleep(100)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main)
    header = read_header(path).header
    assert header.has_state
    assert header.number == 1


# A small cluster in virtual time


def outcomes(made: list[Decision]) -> list[tuple[str, str]]:
    return [(one.pod.key, one.replayed.node) for one in made]


def test_a_recording_that_is_cut_off_anywhere_is_replayed_up_to_there(tmp_path: Path) -> None:
    whole = tmp_path / "day.rec"
    record_small(whole)
    made = outcomes(decisions(whole))
    data = whole.read_bytes()
    begins = read_header(whole).begins
    cut, lengths = tmp_path / "cut.rec", set()
    for place in range(begins, len(data), 600):
        cut.write_bytes(data[:place])
        part = outcomes(decisions(cut))
        assert part == made[: len(part)]
        lengths.add(len(part))
    assert len(lengths) > 10
    assert 0 in lengths


def test_another_seed_makes_other_decisions_and_the_replay_says_so(tmp_path: Path) -> None:
    path = tmp_path / "day.rec"
    record_small(path)
    segment = read_header(path)
    segment.header.seed = 8
    path.write_bytes(first_bytes(segment.header) + path.read_bytes()[segment.begins :])
    result = replay(path, "--json")
    assert result.exit_code == 1
    assert msgspec.json.decode(result.stdout)["firstDifference"]["pod"].startswith("default/p")


def test_a_disk_that_is_full_ends_the_recording_and_not_the_scheduler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0

    def write(self: SegmentWriter, data: bytes) -> None:
        nonlocal written
        written += 1
        if written > 10:
            raise OSError(ENOSPC, "No space left on device")
        genuine(self, data)

    genuine = SegmentWriter._append
    monkeypatch.setattr(SegmentWriter, "_append", write)
    told: list[str] = []
    store = record_small(tmp_path / "day.rec", told.append)
    assert told == [f"{tmp_path / 'day.rec'}: No space left on device"]
    small = [one for one in store.list(PODS).items if int(one["metadata"]["name"][1:]) % 5 < 4]
    assert all(one["spec"].get("nodeName") for one in small)
    made = decisions(tmp_path / "day.rec")
    assert made
    assert all(one.is_same for one in made)


def replay(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(stowplan, ["replay", str(path), *arguments], catch_exceptions=False)


def test_the_command_repeats_decisions_compares_configurations_and_writes_a_test(tmp_path: Path) -> None:
    path = tmp_path / "day.rec"
    record_small(path)
    told = replay(path)
    assert told.exit_code == 0
    assert "all of them as recorded" in told.stdout
    listed = replay(path, "--speed", "max", "--until", "3s").stdout
    assert [f"default/p{number}" in listed for number in (0, 3, 9)] == [True, True, False]

    config = tmp_path / "most.yaml"
    config.write_text(MOST_ALLOCATED)
    page = tmp_path / "page.html"
    result = replay(path, "--config", str(config), "--json", "--html", str(page))
    found = msgspec.json.decode(result.stdout)
    assert found["decisions"] == len(decisions(path))
    assert found["counts"]["other node"] == len(found["different"]) > 0
    for one in found["different"]:
        assert one["bestScore"] > one["recordedScore"]
    assert "most.yaml decides" in page.read_text()

    test = tmp_path / "test_p7.py"
    made = replay(path, "--as-test", str(test), "--pod", "default/p7")
    assert made.exit_code == 0
    [written] = [one for name, one in runpy.run_path(str(test)).items() if name.startswith("test_")]
    written()
    test.write_text(test.read_text().replace('node == "n', 'node == "other'))
    [wrong] = [one for name, one in runpy.run_path(str(test)).items() if name.startswith("test_")]
    with pytest.raises(AssertionError):
        wrong()


@pytest.mark.parametrize(
    ("contents", "arguments", "said"),
    [
        (b"kind: Pod", [], "expected a recording of stowplan"),
        (b"stowplan recording, format 9\n", [], "recording format 9: expected 1, update stowplan to read it"),
        (b"stowplan recording, format 1\nabc", [], "cut off before the end of its header"),
        (None, ["--until", "noon"], "--until: expected 1h30m"),
        (None, ["--speed", "0"], "--speed: expected a number above 0, or max, got '0'"),
        (None, ["--pod", "default/x", "--as-test", "t.py"], "has no decision about default/x"),
        (None, ["--pod", "default/x"], "--as-test and --pod go together"),
    ],
)
def test_what_cannot_be_replayed_is_refused_in_one_line(
    contents: bytes | None, arguments: list[str], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "day.rec"
    if contents is None:
        record_small(path, pods=1)
    else:
        path.write_bytes(contents)
    result = replay(path, *arguments)
    assert result.exit_code != 0
    assert said in result.output.splitlines()[-1]


# From outside


def test_a_cluster_is_recorded_from_outside_and_its_bindings_are_judged(tmp_path: Path) -> None:
    path = tmp_path / "other.rec"

    async def main(clock: VirtualClock) -> None:
        store = Store(clock, Random(1))
        for number in range(3):
            store.create(NODES, node(f"n{number}"))
        scheduler = Scheduler(InProcessClient(store), Settings.of(), clock=clock, rng=Random(3))
        recorder = ClusterRecorder(
            Recording(path, size=60_000, in_background=False),
            InProcessClient(store),
            clock=clock,
            source="test",
            report=print,
        )
        task = asyncio.create_task(recorder.run())
        await recorder.synced()
        async with scheduler.running():
            for number in range(100):
                store.create(PODS, pod(f"p{number}", "50m"))
                await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert recorder.bindings == 100

    run(main)
    objects, _ = objects_at(path)
    placed = [one for one in objects if getattr(getattr(one, "spec", None), "node_name", "")]
    assert len(placed) == 100
    assert (tmp_path / "other.rec.1").exists()
    judged = [one for session in sessions(path) for one in judged_bindings(session, Settings.of())]
    assert judged
    assert {one.verdict for one in judged} <= {"same", "as good"}
    kinds = {entry.kind for session in sessions(path) for entry in session.entries()}
    assert EntryKind.CYCLE not in kinds
    assert "decides" in replay(path).stdout


# As a source of questions


def test_a_recording_is_a_scenario_in_which_the_same_pods_come_and_is_the_cluster_of_a_question(
    tmp_path: Path,
) -> None:
    path = tmp_path / "day.rec"
    record_small(path)
    scenario = read_scenario(path)
    arrivals = sorted(one.at for workload in scenario.workload for one in workload.trace)
    assert len(arrivals) in (19, 20)
    assert [round(later - sooner) for sooner, later in pairwise(arrivals)] == [1] * (len(arrivals) - 1)
    assert len([one for one in scenario.objects if isinstance(one, Node)]) == 3
    result = CliRunner().invoke(stowplan, ["simulate", str(path), "--json"], catch_exceptions=False)
    pods = msgspec.json.decode(result.stdout)["pods"]
    assert pods["created"] == len(arrivals)
    assert pods["bound"] + pods["pending"] == len(arrivals)
    assert pods["pending"] >= 1

    app = tmp_path / "pod.yaml"
    app.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **pod("new", "4")}))
    asked = CliRunner().invoke(stowplan, ["fit", "-f", str(app), "--from", str(path), "--max", "--json"])
    found = msgspec.json.decode(asked.stdout)
    table = Cluster.load(path)
    free = [name for name in ("n0", "n1", "n2", "n3") if not table.pods_on(name)]
    assert sorted(found["placements"]) == free
