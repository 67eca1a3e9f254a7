"""An API server that goes, in every way it can, and comes back: the scheduler is there at once."""

import asyncio

import pytest

from server.process.outage_stories import BURST, WAITING, Outcome, all_outages

WITHIN = 3.0
"""Seconds after the server's return until the first binding."""

BURSTS = ["burst, refusing", "burst, half-open"]
STORIES = ["refusing", "half-open", "state lost", "killed", "frozen", *BURSTS]


@pytest.fixture(scope="module")
def outages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return asyncio.run(all_outages(tmp_path_factory.mktemp("outages")))


@pytest.mark.parametrize("name", STORIES)
def test_the_first_binding_comes_soon_after_the_server_is_back(
    name: str, outages: dict[str, Outcome]
) -> None:
    """On a machine whose timers are late by a second, seven clusters at once take seconds longer."""
    outcome = outages[name]
    assert outcome.first < WITHIN + 10 * outcome.late, outcome.log


@pytest.mark.parametrize("name", STORIES)
def test_every_pod_is_bound_once(name: str, outages: dict[str, Outcome]) -> None:
    bound = outages[name].bound
    assert len(bound) == WAITING + (BURST if name in BURSTS else WAITING)
    assert set(bound.values()) == {1}


@pytest.mark.parametrize("name", ["refusing", "half-open", "state lost", *BURSTS])
def test_every_binding_is_told_once(name: str, outages: dict[str, Outcome]) -> None:
    assert set(outages[name].events.values()) == {1}


@pytest.mark.parametrize("name", ["refusing", "half-open", "killed", "frozen", *BURSTS])
def test_the_outage_is_logged_once_with_its_duration(name: str, outages: dict[str, Outcome]) -> None:
    """Not once per reflector and retry. From a machine that is very busy a server may seem gone again."""
    lines = outages[name].log.splitlines()
    gone = [line for line in lines if "API server is unreachable" in line]
    back = [line for line in lines if "API server is reachable again" in line]
    assert 1 <= len(gone) <= 4
    assert len(back) == len(gone)
    assert all("unreachableFor=" in line for line in back)
    assert sum("Failed to watch" in line for line in lines) <= 4


@pytest.mark.parametrize("name", STORIES)
def test_memory_stays_as_it_was(name: str, outages: dict[str, Outcome]) -> None:
    assert outages[name].memory < 1.1
