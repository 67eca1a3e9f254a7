"""Controllers act as those of kube-controller-manager 1.36.4 were recorded.

All stories are played at once in virtual time. `stories/differing.txt` lists those that still differ, each
with the reason: a story that is not listed must go as recorded, one that is must not. `make stories` plays
them in real time against a separate `stowplan up`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
import yaml

from localcluster.controllers.stories.comparison import differences
from localcluster.controllers.stories.player import Player
from localcluster.controllers.stories.recording import Story, recorded_stories
from localcluster.controllers.stories.transports import HttpTransport
from localcluster.controllers.stories.virtual import play_stories
from localcluster.up.clusters import up
from stowplan.runtime.clock import RealClock

DIFFERING = Path(__file__).parent / "stories" / "differing.txt"
FLAGS = ("--no-adopt", "--node-monitor-period", "2s", "--node-monitor-grace-period", "8s")
CHANCE = '"reason": "NoPods"'
"""An event that comes if a budget is looked at before the pods come that are created right after it."""

AT_A_TIME = 20
"""Stories in real time; more of them would wait for each other."""

NAMES = [story.name for story in recorded_stories()]


def reasons() -> Mapping[str, str]:
    """The stories that are known to differ, and why."""
    lines = [line for line in DIFFERING.read_text().splitlines() if line and not line.startswith("#")]
    return {name.strip(): reason.strip() for name, _, reason in (line.partition(":") for line in lines)}


@cache
def played() -> Mapping[str, Sequence[str]]:
    return play_stories()


@pytest.mark.parametrize("name", NAMES)
def test_a_story_goes_as_recorded(name: str) -> None:
    found = played()[name]
    if name in reasons():
        assert found, f"{name} goes as recorded now: take it off {DIFFERING.name}"
    else:
        assert not found, "\n".join(found)


def test_stories_that_differ_are_listed_with_a_reason() -> None:
    assert set(reasons()) <= set(NAMES)
    assert all(reasons().values())


@pytest.mark.stories
def test_all_stories_in_real_time(tmp_path: Path) -> None:
    """One that differs is played once more, on a separate cluster: a busy machine is late."""
    stories = [story for story in recorded_stories() if story.name not in reasons()]
    for attempt in ("first", "second"):
        folder = tmp_path / attempt
        folder.mkdir()
        outcomes = _in_real_time(folder, stories)
        stories = [story for story in stories if outcomes[story.name]]
        if not stories:
            break
    assert not stories, "\n".join(f"{one.name}: {line}" for one in stories for line in outcomes[one.name])


def _in_real_time(folder: Path, stories: Sequence[Story]) -> Mapping[str, Sequence[str]]:
    async def play(url: str, token: str) -> Sequence[Sequence[str]]:
        async with HttpTransport(url, token) as transport, Player(transport, RealClock()).running() as player:
            limit = asyncio.Semaphore(AT_A_TIME)

            async def one(story: Story) -> Sequence[str]:
                async with limit:
                    found = differences(story, await player.play(story))
                return [line for line in found if CHANCE not in line]

            return await asyncio.gather(*map(one, stories))

    with up(folder, *FLAGS) as cluster:
        access = yaml.safe_load(cluster.kubeconfig.read_text())
        server, user = access["clusters"][0]["cluster"], access["users"][0]["user"]
        found = asyncio.run(play(server["server"], user["token"]))
    return {story.name: lines for story, lines in zip(stories, found, strict=True)}
