"""How explanations look in a terminal: colours, widths, sentences about events, progress."""

import io
import time
from typing import Any

import msgspec
import pytest

from stowplan.cli.progress import Progress, elapsed
from stowplan.explain.document.pending import Cause
from stowplan.explain.document.pod import FunnelLine, PodDocument, RequeueEvent
from stowplan.explain.document.queue import Board, Cost, CostsDocument, QueueEntry
from stowplan.explain.layout import Palette, cleaned, hanging, joined, middle, span, visible
from stowplan.explain.sentences.pod import told_pod
from stowplan.explain.terminal.board import Rates
from stowplan.explain.terminal.board import render as render_board
from stowplan.explain.terminal.pod import render
from stowplan.explain.wakes import sentence


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environ", "coloured"),
    [
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {}, False),
    ],
)
def test_colours_only_where_they_are_wanted(
    stream: io.StringIO, environ: dict[str, str], coloured: bool
) -> None:
    assert Palette.of(stream, environ).enabled is coloured


def test_names_are_cut_in_the_middle_and_texts_go_on_below_their_beginning() -> None:
    assert middle("gpu-node-pool-a-0000017", 11) == "gpu-n…00017"
    assert middle("short", 11) == "short"
    assert hanging("-1  Plugin  ", "one two three", 20) == ["-1  Plugin  one two three"[:25]]
    lines = hanging("-1  Plugin  ", "word " * 40)
    assert max(map(len, lines)) <= 100
    assert lines[1].startswith(" " * 12 + "word")
    assert joined(["a" * 60, "b" * 60], "Wakes it: ") == ["Wakes it: " + "a" * 60, " " * 10 + "b" * 60]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0s"), (12, "12s"), (288, "4m48s"), (11100, "3h05m"), (187200, "2d4h")]
)
def test_spans(seconds: float, text: str) -> None:
    assert span(seconds) == text


def wake(plugin: str, resource: str, *actions: str) -> RequeueEvent:
    return RequeueEvent(resource, actions, plugin)


FIT = [
    wake("NodeResourcesFit", "Pod", "Delete", "UpdatePodScaleDown"),
    wake("NodeResourcesFit", "Node", "Add", "UpdateNodeAllocatable", "UpdateNodeTaint"),
]
GPU = [FunnelLine("NodeResourcesFit", "Insufficient nvidia.com/gpu", 3)]


@pytest.mark.parametrize(
    ("wakes", "expected"),
    [
        (
            FIT,
            [
                "a pod with nvidia.com/gpu leaves",
                "a node is added or changes allocatable or taints",
                "the pod itself changes",
            ],
        ),
        (
            [*FIT, wake("NodeAffinity", "Node", "Add", "UpdateNodeLabel")],
            [
                "a pod with nvidia.com/gpu leaves",
                "a node is added or changes allocatable, labels or taints",
                "the pod itself changes",
            ],
        ),
        (
            [*FIT, wake("InterPodAffinity", "Pod", "Add", "Delete", "UpdatePodLabel")],
            [
                "a pod leaves, is placed or changes labels",
                "a node is added or changes allocatable or taints",
                "the pod itself changes",
            ],
        ),
        ([wake("SchedulingGates", "Pod", "UpdatePodSchedulingGatesEliminated")], ["the pod itself changes"]),
        (
            [wake("VolumeBinding", "storage.k8s.io/CSINode", "Add", "Update")],
            ["a CSINode is added or changes"],
        ),
        (
            [
                wake("NodeResourcesFit", "AssignedPod", "Delete", "UpdatePodScaleDown"),
                wake("NodeResourcesFit", "TargetPod", "UpdatePodScaleDown"),
            ],
            ["a pod with nvidia.com/gpu leaves", "the pod itself changes"],
        ),
        ([wake("Extender", "*", "All")], ["anything in the cluster changes"]),
    ],
)
def test_events_are_one_sentence(wakes: list[RequeueEvent], expected: list[str]) -> None:
    assert sentence(wakes, GPU) == expected


@pytest.mark.parametrize(
    ("reason", "awaited"),
    [("Insufficient cpu, Too many pods", False), ("Insufficient cpu, Insufficient nvidia.com/gpu", True)],
)
def test_device_classes_are_awaited_where_an_extended_resource_is_short(reason: str, awaited: bool) -> None:
    wakes = [*FIT, wake("NodeResourcesFit", "resource.k8s.io/DeviceClass", "Add", "Update")]
    parts = sentence(wakes, [FunnelLine("NodeResourcesFit", reason, 3)])
    assert ("a DeviceClass is added or changes" in parts) == awaited


def document(**more: Any) -> PodDocument:
    """A document about a waiting pod, made at 1000 seconds."""
    plain = {
        "document": "pod",
        "pod": "ml/train-7",
        "state": "pending",
        "source": "the running scheduler",
        "message": "0/2 nodes are available",
        "node": None,
        "nodes": 2,
        "feasible": 0,
        "funnel": [
            {"plugin": "TaintToleration", "reason": "had taint", "nodes": 2, "examples": ["n1", "n2"]}
        ],
        "nearMisses": [],
        "changes": [],
        "preemption": None,
        "wakes": [],
        "attempts": [],
        "queue": None,
        **more,
    }
    return told_pod(msgspec.convert(plain, PodDocument), 1000.0)


@pytest.mark.parametrize(
    ("more", "headline", "line"),
    [
        (
            {
                "attempts": [{"number": 3, "time": "1970-01-01T00:16:28Z"}],
                "queue": {"place": "unschedulable", "until": "1970-01-01T00:21:28Z", "heldBy": {}},
            },
            "ml/train-7 is pending: no node fits (0 of 2)",
            "attempt 3, 12s ago · tried again on an event below, at the latest in 4m48s",
        ),
        (
            {"queue": {"place": "backoff", "until": "1970-01-01T00:16:44Z", "heldBy": {}}},
            "ml/train-7 is pending: no node fits (0 of 2)",
            "in backoff until in 4s · source: the running scheduler",
        ),
        (
            {"queue": {"place": "waiting", "node": "n1", "until": None, "heldBy": {"Gang": "not yet"}}},
            "ml/train-7 is pending: n1 is reserved, Gang holds it",
            "waits at Permit · source: the running scheduler",
        ),
        (
            {"nominatedNode": "n1", "evictions": {"node": "n1", "victims": ["ml/a", "ml/b"]}},
            "ml/train-7 is pending: nominated to n1, waits for ml/a and ml/b to leave (evicted for it)",
            "nominated to n1, waits for ml/a and ml/b to leave (evicted for it)",
        ),
        (
            {"state": "placed", "node": "n1", "evicted": {"by": ["ml/x"], "message": "preempting"}},
            "ml/train-7 is on n1",
            "evicted for ml/x: preempting",
        ),
    ],
)
def test_where_the_pod_is_comes_first(more: dict[str, Any], headline: str, line: str) -> None:
    lines = render(document(**more)).splitlines()
    assert lines[0] == headline
    assert line in lines[1:4]


def test_hostile_texts_do_nothing_to_a_terminal() -> None:
    text = render(document(message="\x1b[2J", funnel=[], pod="a/\x1b]0;x\x07", source="\n\r"))
    assert not {"\x1b", "\x07", "\r"} & set(text)
    assert cleaned({"a": ["\x9b1m"]}) == {"a": ["\\u009b1m"]}


def test_colours_change_nothing_but_colours() -> None:
    found = document(
        funnel=[
            {"plugin": "NodeResourcesFit", "reason": "Insufficient " + "x" * 80, "nodes": 2, "examples": []}
        ]
    )
    plain = render(found)
    coloured = render(found, palette=Palette(True))
    assert coloured != plain
    assert [visible(line) for line in coloured.splitlines()] == [len(line) for line in plain.splitlines()]


def test_the_board_fits_a_screen() -> None:
    causes = tuple(
        Cause((), 9000 - number, f"ns/{number}-{'x' * 60}", "r " * 90, "h " * 90) for number in range(40)
    )
    oldest = QueueEntry(pod=f"ns/{'y' * 70}", since="1970-01-01T00:00:00Z", cause="c " * 90, brief="c " * 90)
    costs = tuple(
        Cost("ns", f"ReplicaSet/{number}-{'z' * 60}", 1234567, 12345.6, 0.01, 9.99, 1234)
        for number in range(20)
    )
    board = Board(
        title="prod",
        source="a test",
        nodes=5000,
        assigned=50000,
        waiting=10000,
        lanes={"active": 3, "unschedulable": 9997},
        causes=causes,
        oldest=(oldest,) * 30,
        rate=12.5,
        costs=CostsDocument(costs, seconds=20 * 12345.6),
    )
    for height, width in ((24, 80), (50, 200)):
        lines = render_board(board, 12.5, [1, 5, 2], now=3600.0, height=height, width=width)
        assert len(lines) < height
        assert max(map(visible, lines)) <= min(width, 100)
    assert "10,000 pods wait · 12.5 pods/s ▂█▃" in "\n".join(lines)
    assert "1h00m" in "\n".join(lines)
    place = lines.index("cycles spent by template")
    told = ["5%", "12345.6", "s", "1,234,567", "10.0", "ms", "10.0", "s", "1,234", "slow"]
    assert lines[place + 2].split()[1:] == told


def test_the_board_has_pods_that_do_not_wait_in_the_queue() -> None:
    not_created = Cause((), 2, "shop/web", "quota team: pods", "raise it", workload="deployment/web")
    not_started = Cause(("shop/db",), 1, "shop/db", "ImagePullBackOff", "an image")
    board = Board(title="x", source="a test", not_created=(not_created,), not_started=(not_started,))
    lines = render_board(board, None, now=0.0)
    assert lines.index("On a node and not running") < lines.index("Not created")
    assert "  2  shop/web  quota team: pods" in lines


def test_without_a_rate_of_the_scheduler_it_is_that_of_pods_that_get_nodes() -> None:
    rates = Rates()
    assert rates.add(Board(title="x", source="lists", assigned=10), 100.0) is None
    assert rates.add(Board(title="x", source="lists", assigned=30), 102.0) == 10.0


def test_progress_is_shown_after_two_seconds_with_rate_and_time_left() -> None:
    now = [0.0]
    stream = Terminal()
    with Progress("replaying", 100, "files", stream=stream, clock=lambda: now[0]) as progress:
        now[0] = 1.9
        progress.advance(10)
        assert stream.getvalue() == ""
        now[0] = 5.0
        progress.advance(15, "a.jsonl")
        shown = stream.getvalue()
        assert "replaying [██████··················] 25/100 files · 5.0/s · 15s left · a.jsonl" in shown
        now[0] = 5.1
        progress.advance()
        assert stream.getvalue() == shown
    assert stream.getvalue().endswith("\r\x1b[K")


def test_progress_says_nothing_where_nobody_watches() -> None:
    now = [0.0]
    stream = io.StringIO()
    with Progress("replaying", 100, stream=stream, clock=lambda: now[0]) as progress:
        now[0] = 60.0
        progress.advance(50)
    assert stream.getvalue() == ""


def test_what_cannot_tell_how_far_it_is_shows_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("stowplan.cli.progress.QUIET_FOR", 0.0)
    monkeypatch.setattr("stowplan.cli.progress.EVERY", 0.01)
    with elapsed("measuring"):
        while "measuring" not in stream.getvalue():
            time.sleep(0.01)
    assert "measuring 0s" in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")
