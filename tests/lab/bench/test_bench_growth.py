"""Months in minutes: nothing a scheduler keeps grows beyond what the living objects need."""

import json

import pytest
from click.testing import CliRunner

from stowplan.cli.main import stowplan
from stowplan.lab.bench.scale.growth import GrowthFigures, GrowthRun, Week, measure, too_large
from stowplan.scheduler.queue.scheduling_queue import SchedulingQueue

SMALL = GrowthRun(pods=2000, weeks=5, nodes=15, population=80)


@pytest.fixture(scope="module")
def months() -> tuple[GrowthFigures, list[Week]]:
    """The result, and the weeks that were shown meanwhile."""
    weeks: list[Week] = []
    return measure(SMALL, weeks.append), weeks


def test_no_container_outgrows_the_living_objects(months: tuple[GrowthFigures, list[Week]]) -> None:
    figures, weeks = months
    assert figures.grown == {}
    assert [week.number for week in weeks] == [1, 2, 3, 4, 5]
    assert figures.pods == 2000
    assert figures.nodes > 30


def test_tables_do_not_grow_from_week_to_week(months: tuple[GrowthFigures, list[Week]]) -> None:
    figures, _ = months
    second, last = figures.weeks[1].sizes, figures.weeks[-1].sizes
    assert {name: (second[name], size) for name, size in last.items() if size > 1.5 * second[name] + 50} == {}


def test_what_is_kept_for_pods_that_are_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    delete = SchedulingQueue.delete

    def hoard(self: SchedulingQueue, pod: object) -> None:
        self.__dict__.setdefault("gone", []).append(object())
        delete(self, pod)  # type: ignore[arg-type]

    monkeypatch.setattr(SchedulingQueue, "delete", hoard)
    assert "context.queue.gone" in measure(SMALL, lambda week: None).grown


def test_growth_is_measured_against_what_is_needed() -> None:
    assert too_large({"a": 10, "b": 1000}, {"a": 500, "b": 1900, "c": 30}, slack=100) == {"a": (10, 500)}


def test_the_command_shows_every_week_and_ends_with_json() -> None:
    small = ["--pods", "300", "--weeks", "2", "--nodes", "10", "--population", "30"]
    done = CliRunner().invoke(stowplan, ["bench", "growth", *small, "--json"])
    assert done.exit_code == 0, done.output
    first, second, summary, document = done.output.splitlines()
    assert first.startswith("week   1: ")
    assert second.startswith("week   2: ")
    assert "300 pods and " in summary
    assert json.loads(document)["grown"] == {}
