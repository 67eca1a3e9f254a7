"""A store that is kept comes back as it was, with its history."""

import asyncio
import random
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from localcluster.durable.lives import Life, everything, seen_since
from localcluster.store.stores import START, pod
from stowplan.api.catalogue import CONFIG_MAPS, EVENTS, NODES, PODS, Resource
from stowplan.api.requests import DeleteOptions
from stowplan.api.status import ApiError
from stowplan.localcluster.durable.database import GAP
from stowplan.localcluster.store.writer import component

NAMES = ("a", "b", "c")


def test_objects_versions_and_uids_come_back(tmp_path: Path) -> None:
    life = Life(tmp_path)
    created = life.store.create(PODS, pod("p"))
    life.store.create(NODES, {"metadata": {"name": "n"}})
    life.store.delete(NODES, "", "n")
    before, version = everything(life.store), life.store.version
    life.end()

    again = Life(tmp_path)
    assert everything(again.store) == before
    assert again.store.version == version
    assert again.store.get(PODS, "default", "p") == created
    assert again.store.create(PODS, pod("q"))["metadata"]["resourceVersion"] == str(version + 1)
    again.end()


def test_the_same_seed_does_not_give_the_same_uids_again(tmp_path: Path) -> None:
    uids = set()
    for number in range(3):
        life = Life(tmp_path, seed=7)
        uids.add(life.store.create(PODS, pod(f"p{number}"))["metadata"]["uid"])
        life.end()
    assert len(uids) == 3


def test_after_a_good_end_a_watch_resumes_from_the_last_version(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.store.create(PODS, pod("p"))
    last = life.store.version
    life.end()
    again = Life(tmp_path)
    again.store.create(PODS, pod("q"))
    shown = seen_since(again.store, PODS, last)
    assert isinstance(shown, list)
    assert [change[2]["metadata"]["name"] for change in shown] == ["q"]
    again.end()


def test_after_a_kill_versions_that_were_kept_resume_and_versions_that_were_lost_are_too_old(
    tmp_path: Path,
) -> None:
    life = Life(tmp_path)
    life.store.create(PODS, pod("p"))
    last = life.store.version
    life.kill()
    again = Life(tmp_path)
    assert again.store.version == last + GAP
    assert seen_since(again.store, PODS, last) == []
    assert seen_since(again.store, PODS, last + 1) == 410
    assert seen_since(again.store, PODS, last + GAP - 1) == 410
    assert seen_since(again.store, PODS, last + GAP) == []
    assert seen_since(again.store, PODS, last + GAP + 1) == 504
    again.end()


def test_what_was_lost_in_one_life_is_too_old_in_all_later_ones(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.store.create(PODS, pod("p"))
    last = life.store.version
    life.kill()
    for _ in range(2):
        Life(tmp_path).end()
    again = Life(tmp_path)
    assert seen_since(again.store, PODS, last) == []
    assert seen_since(again.store, PODS, last + 5) == 410
    again.end()


def test_versions_that_were_folded_are_too_old_for_every_resource(tmp_path: Path) -> None:
    life = Life(tmp_path, log=4, fold=2)
    for number in range(20):
        life.store.create(PODS, pod(f"p{number}"))
        asyncio.run(life.store.settled())
    life.end()
    again = Life(tmp_path)
    for resource in (PODS, NODES):
        assert seen_since(again.store, resource, 10) == 410
    shown = seen_since(again.store, PODS, 17)
    assert isinstance(shown, list)
    assert [change[1] for change in shown] == [18, 19, 20]
    again.end()


def test_events_are_forgotten_in_their_time_also_over_a_restart(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.store.create(EVENTS, {"metadata": {"name": "old", "namespace": "default"}})
    life.end()
    again = Life(tmp_path)
    again.store._metadata._clock.time = START + 3599  # type: ignore[attr-defined]
    again.store.create(EVENTS, {"metadata": {"name": "late", "namespace": "default"}})
    assert again.store.count(EVENTS) == 2
    again.store._metadata._clock.time = START + 3601  # type: ignore[attr-defined]
    again.store.create(EVENTS, {"metadata": {"name": "new", "namespace": "default"}})
    assert [event["metadata"]["name"] for event in again.store.list(EVENTS).items] == ["late", "new"]
    again.end()


def test_custom_resources_are_known_again(tmp_path: Path) -> None:
    widgets = Resource("example.com", "v1", "widgets", "Widget", custom=True)
    life = Life(tmp_path)
    life.store.catalogue.register(widgets)
    made = life.store.create(widgets, {"metadata": {"name": "w", "namespace": "default"}, "spec": {"x": 1}})
    life.end()
    again = Life(tmp_path)
    assert again.store.get(widgets, "default", "w") == made
    again.end()


def test_rehearsals_leave_no_trace(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.store.create(PODS, pod("p"), by=component("test")._replace(dry_run=True))
    life.end()
    again = Life(tmp_path)
    assert again.store.count(PODS) == 0
    again.end()


def _step(life: Life, rng: random.Random) -> None:
    """Something happens to a pod or a config map; being refused is as good as anything."""
    resource, name = rng.choice((PODS, CONFIG_MAPS)), rng.choice(NAMES)
    try:
        match rng.randrange(4):
            case 0 | 1:
                life.store.create(
                    resource, pod(name) if resource is PODS else {"metadata": {"name": name}}, "default"
                )
            case 2:
                labels = {"metadata": {"labels": {"x": str(rng.randrange(1000))}}}
                life.store.patch(resource, "default", name, labels)
            case 3:
                life.store.delete(resource, "default", name, DeleteOptions(rng.choice((0, 30))))
    except ApiError as error:
        if error.code not in (404, 409):
            raise


@settings(max_examples=examples(25))
@given(
    st.integers(0, 2**32),
    st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=1, max_size=4),
    st.integers(1, 12),
    st.integers(1, 5),
)
def test_whatever_happens_every_life_goes_on_from_the_state_and_the_history_of_the_last(
    seed: int, lives: list[tuple[int, bool]], log: int, fold: int
) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        last = None
        for steps, is_killed in lives:
            life = Life(Path(folder), log=log, fold=fold)
            if last is not None:
                _same(last, life, log)
            for _ in range(steps):
                _step(life, rng)
            last = life
            if is_killed:
                life.kill()
            else:
                life.end()


def _same(last: Life, life: Life, log: int) -> None:
    """The same state, and what is resumed from the log is as it was; the last `log` entries are there."""
    assert everything(life.store) == everything(last.store)
    sure = last.store.version - log + len(life.store._collections.compacted.gaps)
    for resource in (PODS, CONFIG_MAPS):
        for version in range(max(0, last.store.version - 15), last.store.version + 1):
            now = seen_since(life.store, resource, version)
            if now != 410 or version >= sure:
                assert now == seen_since(last.store, resource, version), version
        assert seen_since(life.store, resource, last.store.version) == []
