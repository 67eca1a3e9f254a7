"""Health pages: checks that fail, wait, raise or are left out, and who learns why."""

import asyncio

import pytest

from server.serving.pages.pageports import World, answer_of, answers_of
from stowplan.server.serving.pages import Check


async def _waits() -> str | None:
    await asyncio.sleep(0)
    return "the disk is full"


def _raises() -> str | None:
    raise OSError("no such device")


FAILING = (Check("disk", _waits), Check("device", _raises))


def test_a_page_withholds_why_a_check_failed() -> None:
    answer = answer_of(World(more_checks=FAILING), "/readyz")
    assert answer.code == 500
    assert answer.text == (
        "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\n"
        "[-]disk failed: reason withheld\n[-]device failed: reason withheld\nreadyz check failed\n"
    )


@pytest.mark.parametrize(
    ("name", "reason"), [("disk", "the disk is full"), ("device", "OSError: no such device")]
)
def test_the_page_of_a_single_check_and_the_log_say_why(name: str, reason: str) -> None:
    world = World(more_checks=FAILING)
    world.logger.set_verbosity(2)
    single, _ = answers_of(world, ("GET", f"/readyz/{name}"), ("GET", "/readyz"))
    assert single.code == 500
    assert single.text == f"internal server error: {reason}\n"
    assert f"[-]{name} failed: {reason}\n" in world.lines[0]
    assert world.lines[0].startswith("disk,device check failed: readyz\n")


def test_checks_can_be_left_out_by_name() -> None:
    world = World(more_checks=FAILING)
    answer = answer_of(world, "/readyz?verbose&exclude=disk&exclude=device&exclude=z&exclude=a")
    assert answer.code == 200
    assert answer.text.endswith(
        "[+]disk excluded: ok\n[+]device excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "a", "z"\nreadyz check passed\n'
    )


def test_a_process_that_stops_is_alive_but_not_ready() -> None:
    world = World(stopping=True)
    live, ready, why = answers_of(world, ("GET", "/livez"), ("GET", "/readyz"), ("GET", "/readyz/shutdown"))
    assert (live.code, ready.code) == (200, 500)
    assert why.text == "internal server error: process is shutting down\n"


def test_slis_say_how_checks_came_out_and_how_often() -> None:
    world = World(electing=False)
    answers_of(world, ("GET", "/readyz"), ("GET", "/readyz"))
    world.synced = False
    (slis,) = answers_of(world, ("GET", "/readyz"), ("GET", "/metrics/slis"))[1:]
    lines = slis.text.splitlines()
    assert 'kubernetes_healthcheck{name="sched-handler-sync",type="readyz"} 0' in lines
    counted = 'kubernetes_healthchecks_total{name="sched-handler-sync",status="%s",type="readyz"} %d'
    assert counted % ("success", 2) in lines
    assert counted % ("error", 1) in lines


def test_asking_for_a_single_check_is_not_counted_and_left_out_ones_neither() -> None:
    world = World(electing=False)
    paths = ("/readyz/shutdown", "/readyz?exclude=shutdown", "/metrics/slis")
    slis = answers_of(world, *(("GET", path) for path in paths))[-1]
    assert 'name="sched-handler-sync"' in slis.text
    assert 'name="shutdown"' not in slis.text
