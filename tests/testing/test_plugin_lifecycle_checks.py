"""`check_plugin` calls every extension point, and writes a page about what it found."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from stowplan.framework import (
    Cycle,
    NodeRow,
    Plugin,
    PodInfo,
    PostFilterResult,
    Status,
    Wait,
    unschedulable,
)
from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.plugins.registry import in_tree_registry
from stowplan.testing import PluginCheckError, check_plugin, pod

BIG = [pod("p").requests(cpu="64")]


class Right(Plugin):
    """Has all the points, and does nothing wrong."""

    def post_filter(self, cycle: Cycle, pod: PodInfo) -> Status:
        return unschedulable("nothing helps")

    def permit(self, cycle: Cycle, pod: PodInfo, node: str) -> Wait:
        return Wait(3)

    async def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
        await asyncio.sleep(3600)
        return None

    def post_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> None:
        return None


def returning(method: str, answer: Any, **more: Any) -> type[Plugin]:
    def asked(self: Plugin, *args: Any) -> Any:
        return answer() if callable(answer) else answer

    return type("Wrong", (Plugin,), {method: asked, **more})


def raising() -> None:
    raise KeyError("price")


async def text() -> str:
    return "bound"


def test_a_plugin_with_all_points_passes_without_waiting() -> None:
    report = check_plugin(Right, examples=4)
    assert report.passed
    assert report.remarks == ()


@pytest.mark.parametrize(
    ("plugin", "pods", "check", "problem"),
    [
        (returning("permit", 3), None, "valid-answers", "permit: expected a Status, Wait or None, got int 3"),
        (returning("permit", Wait(-1)), None, "valid-answers", "permit: expected Wait with seconds of at"),
        (returning("permit", raising), None, "no-exceptions", "permit raised KeyError: 'price'"),
        (returning("pre_bind", text), None, "valid-answers", "pre_bind: expected a Status or None, got str"),
        (returning("bind", "done"), None, "valid-answers", "bind: expected a Status or None, got str"),
        (returning("post_bind", 1), None, "valid-answers", "post_bind: expected None, got int 1"),
        (
            returning("pre_bind_pre_flight", unschedulable("no"), pre_bind=lambda *_: None),
            None,
            "valid-answers",
            "pre_bind_pre_flight: expected success, SKIP or an error",
        ),
        (returning("post_filter", 3), BIG, "valid-answers", "post_filter: expected a Status or a PostFilter"),
        (
            returning("post_filter", PostFilterResult(Status(Code.SUCCESS), nominated_node="gone")),
            BIG,
            "valid-answers",
            "post_filter: expected a node of the cluster, got 'gone'",
        ),
        (
            returning("post_filter", PostFilterResult(Status(Code.SUCCESS), victims=(pod("nobody").obj(),))),
            BIG,
            "valid-answers",
            "post_filter: victim default/nobody is no pod on a node",
        ),
    ],
)
def test_wrong_answers_of_these_points_are_found(
    plugin: type[Plugin], pods: Any, check: str, problem: str
) -> None:
    with pytest.raises(PluginCheckError) as found:
        check_plugin(plugin, pods=pods, examples=6)
    assert found.value.check == check
    assert problem in found.value.problem


class Counting(Plugin):
    calls = 0

    def sort_key(self, queued: Any) -> int:
        Counting.calls += 1
        return Counting.calls


class Incomparable(Plugin):
    def sort_key(self, queued: Any) -> Any:
        return queued.pod.name if queued.pod.name == "p1" else 3


class Promising(Plugin):
    contract = in_tree_registry()._classes["PrioritySort"].contract

    def sort_key(self, queued: Any) -> tuple[int, float]:
        return (queued.priority, queued.timestamp)


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        (Counting, "sort_key of pod p1 is not the same when asked again"),
        (Incomparable, "sort keys of p1 and p2 cannot be compared: '<' not supported"),
        (Promising, "the order is not by priority (`sorts_by_priority`)"),
    ],
)
def test_the_order_of_a_queue_is_checked(plugin: type[Plugin], problem: str) -> None:
    pods = [pod("a").priority(1), pod("b").priority(9)]
    with pytest.raises(PluginCheckError) as found:
        check_plugin(plugin, pods=pods, examples=6)
    assert (found.value.check, found.value.problem[: len(problem)]) == ("sort-order", problem)


def test_the_order_of_kube_scheduler_passes() -> None:
    assert check_plugin("stowplan.scheduler.plugins.prioritysort:PrioritySort", examples=5).passed


def test_what_needs_an_api_server_is_a_remark() -> None:
    class Binding(Plugin):
        async def pre_bind(self, cycle: Cycle, pod: PodInfo, node: str) -> Status | None:
            return None if self.handle.scheduler.client else unschedulable("no server")

    with pytest.warns(UserWarning, match="could not be checked"):
        report = check_plugin(Binding, pods=[pod("p").requests(cpu="1m")], examples=3)
    assert report.remarks == (
        "permit and binding could not be checked: cluster() has no API server: use live_cluster() or a "
        "Scheduler",
    )


class Dear(Plugin):
    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        return 101


def test_the_report_is_a_page_for_a_pull_request(tmp_path: Path) -> None:
    with pytest.raises(PluginCheckError):
        check_plugin(Dear, examples=3, report=tmp_path / "check.md")
    page = (tmp_path / "check.md").read_text()
    assert page.startswith("# check_plugin: Dear failed\n\n- extension points: `score`\n- file: `test_p")
    assert "| `score-range` | scores are 0 to 100, after normalize if there is one | failed: node n0 " in page
    assert (
        "| `reserve-balance` | unreserve gives back what reserve took, and nothing else | does not app"
        in page
    )
    assert "```text\nDear fails the check 'score-range'" in page
    with pytest.warns(UserWarning, match="skipped: it is <dear>"):
        report = check_plugin(
            Dear, examples=3, skip={"score-range": "it is <dear>"}, report=tmp_path / "check.html"
        )
    assert report.passed
    page = (tmp_path / "check.html").read_text()
    assert "<h1>check_plugin: Dear passed</h1>" in page
    assert "skipped: it is &lt;dear&gt;" in page
