"""Number of pods of each ReplicaSet of a Deployment, by tables; and invariants of every rollout."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.meta import seconds_of
from stowplan.api.requests import Json
from stowplan.localcluster.controllers.workloads.replicaset import pods_to_delete
from stowplan.localcluster.controllers.workloads.rollout import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    RolloutPart,
    RolloutStrategy,
    annotations_for,
    find_new,
    grow_new,
    is_scaling,
    new_set,
    outdated,
    scale,
    shrink_old,
)


def part(
    name: str, replicas: int, available: int | None = None, age: int = 0, most: int | None = None
) -> RolloutPart:
    metadata: Json = {"name": name, "creationTimestamp": f"2026-01-01T00:00:{age:02}Z"}
    if most is not None:
        metadata["annotations"] = {MAX_REPLICAS: str(most), DESIRED_REPLICAS: str(most)}
    return RolloutPart({"metadata": metadata}, replicas, replicas if available is None else available)


def deployment(replicas: int = 4, **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    full = {"replicas": replicas, "template": template, "selector": {"matchLabels": {"app": "a"}}, **spec}
    return {"metadata": {"name": "web", "namespace": "d", "uid": "u"}, "spec": full}


@pytest.mark.parametrize(
    ("replicas", "rolling", "surge", "unavailable"),
    [
        (4, {}, 1, 1),
        (10, {}, 3, 2),
        (1, {}, 1, 0),
        (10, {"maxSurge": 0, "maxUnavailable": 0}, 0, 1),
        (10, {"maxSurge": "50%", "maxUnavailable": 20}, 5, 10),
    ],
)
def test_surge_rounds_up_and_what_may_be_missing_rounds_down(
    replicas: int, rolling: Json, surge: int, unavailable: int
) -> None:
    strategy = RolloutStrategy.of(deployment(replicas, strategy={"rollingUpdate": rolling}))
    assert (strategy.surge, strategy.unavailable) == (surge, unavailable)


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [(0, 4, 1), (1, 4, 1), (1, 3, 2), (4, 1, 4), (6, 0, 4), (0, 0, 4)],
)
def test_the_newest_set_grows_into_the_room_there_is(new: int, old: int, wanted: int) -> None:
    assert grow_new(RolloutStrategy(4, 1, 1), part("n", new), [part("o", old)]) == wanted


@pytest.mark.parametrize(("pods", "wanted"), [(3, 2), (2, 3), (1, 3), (0, 3)])
def test_the_newest_set_waits_for_pods_that_have_not_gone_yet(pods: int, wanted: int) -> None:
    shrunk = part("o", 1)
    shrunk.pods = pods
    assert grow_new(RolloutStrategy(3, 2, 0), part("n", 2), [shrunk]) == wanted


@pytest.mark.parametrize(
    ("new", "old", "wanted"),
    [
        ((0, 0), [(4, 4)], [3]),
        ((1, 0), [(4, 4)], [3]),
        ((1, 1), [(4, 4)], [2]),
        ((1, 0), [(3, 3)], [3]),
        ((0, 0), [(4, 2)], [3]),
        ((2, 2), [(2, 0), (2, 2)], [0, 1]),
        ((4, 4), [(1, 1)], [0]),
    ],
)
def test_old_sets_shrink_as_far_as_enough_stay_available(
    new: tuple[int, int], old: list[tuple[int, int]], wanted: list[int]
) -> None:
    parts = [part(f"o{number}", *one, age=number) for number, one in enumerate(old)]
    assert list(shrink_old(RolloutStrategy(4, 1, 1), part("n", *new), parts).values()) == wanted


@given(
    replicas=st.integers(1, 20),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
    sizes=st.lists(st.integers(0, 20), min_size=1, max_size=3),
)
def test_a_rollout_never_has_too_many_or_too_few_and_comes_to_its_end(
    replicas: int, surge: int, unavailable: int, sizes: list[int]
) -> None:
    strategy = RolloutStrategy(replicas, surge, min(unavailable or (not surge), replicas))
    old = [part(f"o{number}", size, age=number) for number, size in enumerate(sizes)]
    new = part("n", 0)
    start = sum(sizes)
    for _ in range(200):
        new.replicas = grow_new(strategy, new, old)
        for name, size in shrink_old(strategy, new, old).items():
            one = next(one for one in old if one.obj["metadata"]["name"] == name)
            one.replicas, one.available = size, min(one.available, size)
        everybody = sum(one.replicas for one in (new, *old))
        assert everybody <= max(start, strategy.most)
        if start >= strategy.least_available:
            assert sum(one.available for one in (new, *old)) >= strategy.least_available
        new.available = new.replicas
    assert new.replicas == replicas
    assert not any(one.replicas for one in old)


@pytest.mark.parametrize(
    ("size", "new", "old", "wanted"),
    [
        (8, (0, 4), [], {"n": 8}),
        (20, (5, 13), [(8, 13)], {"n": 10, "o0": 15}),
        (0, (5, 13), [(8, 13)], {"n": 0, "o0": 0}),
        (5, (5, 13), [(8, 13)], {"n": 3, "o0": 4}),
    ],
)
def test_a_new_size_is_shared_in_proportion(
    size: int, new: tuple[int, int], old: list[tuple[int, int]], wanted: dict[str, int]
) -> None:
    olds = [part(f"o{number}", one[0], most=one[1], age=number) for number, one in enumerate(old)]
    newest = part("n", new[0], available=0, most=new[1], age=50)
    assert scale(RolloutStrategy(size, -(-size // 4), size // 4), newest, olds) == wanted
    assert is_scaling(RolloutStrategy(size, 1, 1), [newest]) == (new[0] > 0)


def test_the_set_of_a_template_is_found_whatever_its_hash_and_a_name_is_free_of_words() -> None:
    made = new_set(deployment(), 4, 3, RolloutStrategy(4, 1, 1))
    assert find_new(deployment(), [made]) is made
    assert find_new(deployment(template={"metadata": {}, "spec": {}}), [made]) is None
    assert made["metadata"]["annotations"] == {
        "deployment.kubernetes.io/desired-replicas": "4",
        "deployment.kubernetes.io/max-replicas": "5",
        "deployment.kubernetes.io/revision": "3",
    }
    hashed = made["spec"]["selector"]["matchLabels"]["pod-template-hash"]
    assert made["metadata"]["name"] == f"web-{hashed}"
    assert made["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] == hashed
    assert not set(hashed) & set("aeiou013")


def test_a_set_that_is_taken_up_again_remembers_its_revisions() -> None:
    again = annotations_for(deployment(), {"deployment.kubernetes.io/revision": "1"}, 3)
    assert again["deployment.kubernetes.io/revision"] == "3"
    assert again["deployment.kubernetes.io/revision-history"] == "1"


def test_only_so_many_empty_sets_are_kept() -> None:
    def old(revision: int, replicas: int = 0) -> Json:
        annotations = {"deployment.kubernetes.io/revision": str(revision)}
        return {
            "metadata": {"name": f"r{revision}", "annotations": annotations, "generation": 1},
            "spec": {"replicas": replicas},
            "status": {"replicas": replicas, "observedGeneration": 1},
        }

    kept = [old(3), old(1), old(2, replicas=1), old(4)]
    going = outdated(deployment(revisionHistoryLimit=2), kept)
    assert [one["metadata"]["name"] for one in going] == ["r1"]


def pod(name: str, *, node: str = "n", phase: str = "Running", ready: str = "", cost: str = "0") -> Json:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else []
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": cost},
        },
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions},
    }


def test_ages_of_one_magnitude_do_not_decide() -> None:
    same = [
        pod(name, ready=f"2026-01-01T00:00:{second}Z") for name, second in (("b", 10), ("a", 20), ("c", 30))
    ]
    for one in same:
        one["metadata"]["uid"] = one["metadata"]["name"]
    going = pods_to_delete(same, 3, {}, seconds_of("2026-01-01T01:00:00Z"))
    assert [one["metadata"]["name"] for one in going] == ["a", "b", "c"]


@pytest.mark.parametrize(("spec", "available", "counted"), [(3, 3, 3), (5, 3, 3), (2, 5, 2), (0, 3, 0)])
def test_pods_that_are_on_their_way_out_do_not_count_as_available(
    spec: int, available: int, counted: int
) -> None:
    found = {
        "metadata": {"name": "s"},
        "spec": {"replicas": spec},
        "status": {"availableReplicas": available},
    }
    assert RolloutPart.of(found).available == counted


def test_pods_that_are_missed_least_go_first() -> None:
    early, late = "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"
    ordered = [
        pod("waiting", node="", phase="Pending"),
        pod("starting", phase="Pending"),
        pod("unready"),
        pod("cheap", ready=early, cost="-5"),
        pod("crowded", node="full", ready=early),
        pod("young", ready=late),
        pod("old", ready=early),
        pod("dear", ready=late, cost="5"),
    ]
    now = seconds_of("2026-01-01T00:02:30Z")
    going = pods_to_delete(list(reversed(ordered)), 7, {"full": 3, "n": 1}, now)
    assert [one["metadata"]["name"] for one in going] == [one["metadata"]["name"] for one in ordered[:7]]
