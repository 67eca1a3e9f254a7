"""LeaderWorkerSets in a whole cluster in virtual time: groups, updates, restarts, placement, gangs."""

import pytest

from localcluster.controllers.set_clusters import SetCluster, conditions_of, play
from stowplan.api.catalogue import POD_GROUPS, PODS, SERVICES, STATEFUL_SETS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllers.sets.grouprollout import GroupState, next_rollout
from stowplan.localcluster.kubelets import NodeShape
from stowplan.localcluster.objects import leaderworkersets as lws

SETS = "leaderworkersets.v1.leaderworkerset.x-k8s.io"
PREFIX = "leaderworkerset.sigs.k8s.io/"
ZONES = (NodeShape(count=6, zones=("a", "b", "c")),)


def serving(
    *, size: int = 3, replicas: int = 2, spec: str = "", template: str = "", annotations: str = "{}"
) -> str:
    return f"""
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {{name: serve, annotations: {annotations}}}
spec:
  replicas: {replicas}
  {spec}
  leaderWorkerTemplate:
    size: {size}
    {template}
    workerTemplate:
      spec: {{containers: [{{name: c, image: "i:1", env: [{{name: MINE, value: x}}]}}]}}
"""


def the_set(world: SetCluster) -> Json:
    return world.get(world.kind(SETS), "serve")


def is_available(world: SetCluster, replicas: int) -> bool:
    found = the_set(world)
    available = conditions_of(found).get("Available") == ("True", "AllGroupsReady")
    return available and found["status"].get("readyReplicas") == replicas


def change_image(world: SetCluster, image: str) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": image}]}}
    world.patch(world.kind(SETS), "serve", {"spec": {"leaderWorkerTemplate": {"workerTemplate": template}}})


def images(world: SetCluster) -> set[str]:
    return {one["spec"]["containers"][0]["image"] for one in world.all(PODS)}


def test_each_group_has_a_leader_and_numbered_workers() -> None:
    async def story(world: SetCluster) -> None:
        world.apply(serving())
        await world.until(lambda: is_available(world, 2))
        assert world.pods() == ["serve-0", "serve-0-1", "serve-0-2", "serve-1", "serve-1-1", "serve-1-2"]
        assert world.names(STATEFUL_SETS) == ["serve", "serve-0", "serve-1"]
        pod = world.get(PODS, "serve-1-2")
        labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
        assert {key: labels[PREFIX + key] for key in ("name", "group-index", "worker-index")} == {
            "name": "serve",
            "group-index": "1",
            "worker-index": "2",
        }
        assert (annotations[f"{PREFIX}size"], annotations[f"{PREFIX}leader-name"]) == ("3", "serve-1")
        assert [(one["name"], one["value"]) for one in pod["spec"]["containers"][0]["env"]] == [
            ("LWS_LEADER_ADDRESS", "serve-1.serve.default"),
            ("LWS_GROUP_SIZE", "3"),
            ("LWS_WORKER_INDEX", "2"),
            ("MINE", "x"),
        ]
        leader = world.get(PODS, "serve-1")["metadata"]["labels"]
        assert leader[f"{PREFIX}worker-index"] == "0"
        assert leader[f"{PREFIX}group-key"] == labels[f"{PREFIX}group-key"]
        assert world.get(SERVICES, "serve")["spec"]["publishNotReadyAddresses"] is True
        status = the_set(world)["status"]
        assert (status["replicas"], status["updatedReplicas"]) == (2, 2)
        reasons = [reason for reason, _ in world.events("serve")]
        assert {"CreatingRevision", "GroupsProgressing", "AllGroupsReady"} <= set(reasons)
        world.delete(world.kind(SETS), "serve")
        await world.until(lambda: not world.all(PODS) and not world.all(STATEFUL_SETS))

    play(story)


def test_groups_follow_the_number_of_replicas() -> None:
    async def story(world: SetCluster) -> None:
        world.apply(serving(size=2, replicas=1))
        await world.until(lambda: is_available(world, 1))
        world.patch(world.kind(SETS), "serve", {"spec": {"replicas": 3}})
        await world.until(lambda: is_available(world, 3))
        assert len(world.pods()) == 6
        world.patch(world.kind(SETS), "serve", {"spec": {"replicas": 1}})
        await world.until(lambda: world.pods() == ["serve-0", "serve-0-1"])
        await world.until(lambda: is_available(world, 1))

    play(story)


def test_groups_of_one_pod_have_no_workers() -> None:
    async def story(world: SetCluster) -> None:
        world.apply(serving(size=1))
        await world.until(lambda: is_available(world, 2))
        assert world.names(STATEFUL_SETS) == ["serve"]

    play(story)


def test_a_new_template_replaces_the_groups_from_the_last_on() -> None:
    async def story(world: SetCluster) -> None:
        world.apply(serving(size=2, replicas=3))
        await world.until(lambda: is_available(world, 3))
        change_image(world, "i:2")
        await world.until(lambda: images(world) == {"i:1", "i:2"})
        await world.until(lambda: conditions_of(the_set(world))["UpdateInProgress"][0] == "True")
        ready = the_set(world)["status"]["readyReplicas"]
        assert ready >= 2
        await world.until(lambda: images(world) == {"i:2"} and is_available(world, 3))
        assert conditions_of(the_set(world))["UpdateInProgress"] == ("False", "GroupsUpdating")
        notes = [note for reason, note in world.events("serve") if reason == "GroupsUpdating"]
        assert "Updating replica 1" in notes

    play(story)


def test_groups_below_the_partition_keep_their_template() -> None:
    async def story(world: SetCluster) -> None:
        rolling = "rolloutStrategy: {rollingUpdateConfiguration: {partition: 2}}"
        world.apply(serving(size=2, replicas=3, spec=rolling))
        await world.until(lambda: is_available(world, 3))
        change_image(world, "i:2")
        await world.until(lambda: images(world) == {"i:1", "i:2"} and is_available(world, 3))
        of = {one["metadata"]["name"]: one["spec"]["containers"][0]["image"] for one in world.all(PODS)}
        assert {name for name, image in of.items() if image == "i:2"} == {"serve-2", "serve-2-1"}

    play(story)


READY, OLD, DOWN = GroupState(True, True), GroupState(True, False), GroupState()
ROLLOUTS: dict[str, tuple[Json, Json, list[GroupState], bool, tuple[int, int]]] = {
    "nothing to do": ({}, {"replicas": 4}, [READY] * 4, False, (0, 4)),
    "a new template begins behind the last group": ({}, {"replicas": 4}, [OLD] * 4, True, (4, 4)),
    "with surge there are more groups": ({"maxSurge": 2}, {"replicas": 4}, [OLD] * 4, True, (4, 6)),
    "one at a time": ({}, {"replicas": 4, "partition": 4}, [OLD] * 4, False, (3, 4)),
    "the next when the last is ready": (
        {},
        {"replicas": 4, "partition": 3},
        [OLD] * 3 + [READY],
        False,
        (2, 4),
    ),
    "not before": ({}, {"replicas": 4, "partition": 3}, [OLD] * 3 + [DOWN], False, (3, 4)),
    "a group that is down counts as unavailable": (
        {"maxUnavailable": 2},
        {"replicas": 4, "partition": 4},
        [DOWN, OLD, OLD, OLD],
        False,
        (3, 4),
    ),
    "all groups that are down are updated at once": (
        {},
        {"replicas": 4, "partition": 4},
        [DOWN] * 4,
        False,
        (3, 4),
    ),
    "half of them": ({"maxUnavailable": "50%"}, {"replicas": 4, "partition": 4}, [OLD] * 4, False, (2, 4)),
    "surge goes at the end": ({"maxSurge": 1}, {"replicas": 5, "partition": 0}, [READY] * 5, False, (0, 4)),
}


@pytest.mark.parametrize("case", ROLLOUTS)
def test_partition_and_replicas_of_an_update(case: str) -> None:
    rolling, held, states, changed, expected = ROLLOUTS[case]
    spec = {"replicas": 4, "rolloutStrategy": {"rollingUpdateConfiguration": rolling}}
    obj = lws.with_defaults({"metadata": {"name": "s"}, "spec": spec})
    strategy = {"rollingUpdate": {"partition": held.get("partition", 0)}}
    leaders = {
        "metadata": {"annotations": {lws.REPLICAS: "4"}},
        "spec": {"replicas": held["replicas"], "updateStrategy": strategy},
    }
    assert next_rollout(obj, leaders, states, changed=changed) == expected


def test_a_pod_that_goes_takes_its_group_along() -> None:
    async def story(world: SetCluster) -> None:
        world.apply(serving())
        await world.until(lambda: is_available(world, 2))
        before = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.all(PODS)}
        world.delete(PODS, "serve-1-2")
        await world.until(lambda: not is_available(world, 2))
        await world.until(lambda: is_available(world, 2))
        after = {one["metadata"]["name"]: one["metadata"]["uid"] for one in world.all(PODS)}
        assert {name for name in before if before[name] != after[name]} == {
            "serve-1",
            "serve-1-1",
            "serve-1-2",
        }
        reasons = [reason for reason, _ in world.events("serve")]
        assert reasons.count("RecreateGroup") == 1

    play(story)


def test_without_that_restart_policy_only_the_pod_is_replaced() -> None:
    async def story(world: SetCluster) -> None:
        world.apply(serving(template="restartPolicy: None"))
        await world.until(lambda: is_available(world, 2))
        before = {one["metadata"]["uid"] for one in world.all(PODS)}
        world.delete(PODS, "serve-1-2")
        await world.until(lambda: not is_available(world, 2))
        await world.until(lambda: is_available(world, 2))
        assert len(before & {one["metadata"]["uid"] for one in world.all(PODS)}) == 5

    play(story)


def test_workers_wait_for_a_ready_leader() -> None:
    async def story(world: SetCluster) -> None:
        leader = (
            "leaderTemplate: {metadata: {annotations: {pretend.stowplan.io/ready-seconds: '20'}}, "
            "spec: {containers: [{name: l, image: lead}]}}"
        )
        world.apply(serving(spec="startupPolicy: LeaderReady", template=leader))
        await world.until(lambda: world.pods("Running") == ["serve-0", "serve-1"])
        await world.settle(10)
        assert world.pods() == ["serve-0", "serve-1"]
        await world.until(lambda: is_available(world, 2))
        assert world.get(PODS, "serve-0")["spec"]["containers"][0]["image"] == "lead"

    play(story)


def test_exclusive_placement_gives_each_group_a_domain() -> None:
    async def story(world: SetCluster) -> None:
        topology = f"{{{PREFIX}exclusive-topology: topology.kubernetes.io/zone}}"
        world.apply(serving(annotations=topology, replicas=4))
        await world.until(lambda: len(world.pods("Running")) == 9)
        zones: dict[str, set[int]] = {}
        for pod in world.all(PODS):
            if "nodeName" in pod["spec"]:
                group = pod["metadata"]["labels"][f"{PREFIX}group-index"]
                zones.setdefault(group, set()).add(int(pod["spec"]["nodeName"].rpartition("-")[2]) % 3)
        assert sorted(map(sorted, zones.values())) == [[0], [1], [2]]
        assert world.pods("Pending") == ["serve-3"] or len(world.pods("Pending")) == 1

    play(story, shapes=ZONES)


@pytest.mark.parametrize(
    ("size", "policy", "expected"),
    [
        (5, "{subGroupSize: 2}", {"0": ["", "1", "2"], "1": ["3", "4"]}),
        (4, "{subGroupSize: 2}", {"0": ["", "1"], "1": ["2", "3"]}),
        (
            5,
            "{subGroupSize: 2, subGroupPolicyType: LeaderExcluded}",
            {"": [""], "0": ["1", "2"], "1": ["3", "4"]},
        ),
    ],
)
def test_subgroups(size: int, policy: str, expected: dict[str, list[str]]) -> None:
    async def story(world: SetCluster) -> None:
        world.apply(serving(size=size, replicas=1, template=f"subGroupPolicy: {policy}"))
        await world.until(lambda: is_available(world, 1))
        found: dict[str, list[str]] = {}
        for pod in world.all(PODS):
            index = pod["metadata"]["labels"].get(f"{PREFIX}subgroup-index", "")
            found.setdefault(index, []).append(pod["metadata"]["name"].removeprefix("serve-0").lstrip("-"))
        assert found == expected

    play(story)


def test_groups_may_have_services_of_their_own() -> None:
    async def story(world: SetCluster) -> None:
        world.apply(serving(spec="networkConfig: {subdomainPolicy: UniquePerReplica}"))
        await world.until(lambda: is_available(world, 2))
        assert world.names(SERVICES) == ["kubernetes", "serve-0", "serve-1"]
        assert {name: world.get(PODS, name)["spec"]["subdomain"] for name in ("serve-1", "serve-1-2")} == {
            "serve-1": "serve-1",
            "serve-1-2": "serve-1",
        }

    play(story)


def test_with_gangs_a_group_is_placed_as_a_whole_or_not_at_all() -> None:
    async def story(world: SetCluster) -> None:
        text = serving(size=3, replicas=2).replace(
            'image: "i:1",', 'image: "i:1", resources: {requests: {cpu: "3"}},'
        )
        world.apply(text)
        await world.until(lambda: len(world.pods("Running")) == 3)
        await world.settle(20)
        placed = [one for one in world.all(PODS) if "nodeName" in one["spec"]]
        assert len({one["metadata"]["labels"][f"{PREFIX}group-index"] for one in placed}) == 1
        assert sorted(
            one["spec"]["schedulingPolicy"]["gang"]["minCount"] for one in world.all(POD_GROUPS)
        ) == [3, 3]
        world.patch(world.kind(SETS), "serve", {"spec": {"replicas": 1}})
        await world.until(lambda: is_available(world, 1))
        await world.until(lambda: len(world.names(POD_GROUPS)) == 1)

    play(story, gangs=True, shapes=(NodeShape(count=2, zones=("a",)),))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (serving().replace("name: serve", "name: 9serve"), "metadata.name: Invalid value"),
        (serving(size=0), "size must be equal or greater than 1"),
        (
            serving(spec="rolloutStrategy: {rollingUpdateConfiguration: {maxUnavailable: 0, maxSurge: 0}}"),
            "must not be 0 when `maxSurge` is 0",
        ),
        (
            serving(spec="rolloutStrategy: {rollingUpdateConfiguration: {maxSurge: 120%}}"),
            "must not be greater than 100%",
        ),
        (serving(size=6, template="subGroupPolicy: {subGroupSize: 4}"), "must be divisible by subGroupSize"),
        (
            serving(annotations=f"{{{PREFIX}subgroup-exclusive-topology: zone}}"),
            "cannot have subgroup-exclusive-topology without subGroupSize set",
        ),
    ],
)
def test_sets_that_could_not_work_are_refused(text: str, problem: str) -> None:
    async def story(world: SetCluster) -> None:
        with pytest.raises(ApiError) as refused:
            world.apply(text)
        assert problem in refused.value.message

    play(story)


def test_subgroups_are_fixed_when_a_set_is_created() -> None:
    async def story(world: SetCluster) -> None:
        world.apply(serving())
        change = {"spec": {"leaderWorkerTemplate": {"subGroupPolicy": {"subGroupSize": 3}}}}
        with pytest.raises(ApiError, match="cannot enable subGroupSize after the lws is already created"):
            world.patch(world.kind(SETS), "serve", change)

    play(story)
