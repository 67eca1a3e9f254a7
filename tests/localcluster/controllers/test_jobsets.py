"""JobSets in a whole cluster in virtual time: Jobs in order, policies, placement, suspension."""

import pytest

from localcluster.controllers.set_clusters import SetCluster, conditions_of, play
from stowplan.api.catalogue import JOBS, PERSISTENT_VOLUME_CLAIMS, PODS, SERVICES, Resource
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllers.sets.failurepolicy import verdict_on
from stowplan.localcluster.kubelets import NodeShape

JOB_SETS = "jobsets.v1alpha2.jobset.x-k8s.io"
PREFIX = "jobset.sigs.k8s.io/"


def replicated(name: str, *, more: str = "", pods: int = 2, seconds: str = "1000", code: int = 0) -> str:
    """A replicated Job whose pods run for some time."""
    pretended = f"{{pretend.stowplan.io/run-seconds: '{seconds}', pretend.stowplan.io/exit-code: '{code}'}}"
    return f"""
  - name: {name}
    {more}
    template:
      spec:
        parallelism: {pods}
        completions: {pods}
        backoffLimit: 0
        template:
          metadata: {{annotations: {pretended}}}
          spec:
            restartPolicy: Never
            containers: [{{name: c, image: i, resources: {{requests: {{cpu: "1"}}}}}}]"""


def jobset(*jobs: str, spec: str = "", annotations: str = "{}") -> str:
    return f"""
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {{name: train, annotations: {annotations}}}
spec:
  {spec}
  replicatedJobs: {"".join(jobs)}
"""


def the_set(world: SetCluster) -> Json:
    return world.get(world.kind(JOB_SETS), "train")


def status(world: SetCluster) -> Json:
    return the_set(world).get("status") or {}


def conditions(world: SetCluster) -> dict[str, tuple[str, str]]:
    return conditions_of(the_set(world))


def test_jobs_and_pods_are_named_labelled_and_reachable_as_the_set_says() -> None:
    async def story(world: SetCluster) -> None:
        coordinator = "coordinator: {replicatedJob: driver, jobIndex: 0, podIndex: 0}"
        world.apply(
            jobset(replicated("driver", pods=1), replicated("w", more="replicas: 2"), spec=coordinator)
        )
        await world.until(lambda: len(world.pods("Running")) == 5)
        assert world.names(JOBS) == ["train-driver-0", "train-w-0", "train-w-1"]
        assert world.pods() == [
            "train-driver-0-0",
            *(f"train-w-{job}-{pod}" for job in (0, 1) for pod in (0, 1)),
        ]
        pod = next(one for one in world.all(PODS) if one["metadata"]["name"].startswith("train-w-1-1"))
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("train-w-1-1", "train")
        wanted = {
            "jobset-name": "train",
            "replicatedjob-name": "w",
            "replicatedjob-replicas": "2",
            "global-replicas": "3",
            "job-index": "1",
            "job-global-index": "2",
            "job-group-index": "2",
            "group-name": "default",
            "group-replicas": "3",
            "restart-attempt": "0",
            "coordinator": "train-driver-0-0.train",
        }
        for part in ("labels", "annotations"):
            assert {f"{PREFIX}{key}": value for key, value in wanted.items()}.items() <= pod["metadata"][
                part
            ].items()
        service = world.get(SERVICES, "train")["spec"]
        assert (service["clusterIP"], service["selector"]) == ("None", {f"{PREFIX}jobset-name": "train"})
        await world.until(lambda: len(status(world).get("replicatedJobsStatus", [])) == 2)
        await world.until(lambda: status(world).get("replicatedJobsStatus", [])[0]["ready"] == 2)
        assert status(world).get("replicatedJobsStatus", [])[0] == {
            "name": "w",
            "ready": 2,
            "active": 2,
            "succeeded": 0,
            "failed": 0,
            "suspended": 0,
        }
        world.delete(world.kind(JOB_SETS), "train")
        await world.until(lambda: not world.all(PODS) and not world.all(JOBS) and not world.all(SERVICES)[1:])

    play(story)


@pytest.mark.parametrize("needed", ["Ready", "Complete"])
def test_a_replicated_job_waits_for_those_it_depends_on(needed: str) -> None:
    async def story(world: SetCluster) -> None:
        first = replicated("first", seconds="20")
        then = replicated("then", more=f"dependsOn: [{{name: first, status: {needed}}}]")
        world.apply(jobset(first, then))
        await world.until(lambda: len(world.pods("Running")) == 2)
        await world.settle()
        assert world.names(JOBS) == ["train-first-0", *(["train-then-0"] if needed == "Ready" else [])]
        await world.until(lambda: "train-then-0" in world.names(JOBS))

    play(story)


def test_with_the_startup_policy_in_order_one_replicated_job_starts_after_the_other() -> None:
    async def story(world: SetCluster) -> None:
        held = "replicas: 1"
        world.apply(
            jobset(
                replicated("a", more=held),
                replicated("b", more=held),
                spec="startupPolicy: {startupPolicyOrder: InOrder}",
            )
        )
        await world.until(lambda: world.names(JOBS) == ["train-a-0"])
        await world.until(lambda: world.names(JOBS) == ["train-a-0", "train-b-0"])
        await world.until(lambda: conditions(world).get("StartupPolicyCompleted", ("",))[0] == "True")
        assert conditions(world)["StartupPolicyInProgress"] == ("False", "InOrderStartupPolicyInProgress")

    play(story)


@pytest.mark.parametrize(
    ("policy", "done"),
    [
        ("{operator: All}", ["a", "b"]),
        ("{operator: Any}", ["a"]),
        ("{operator: All, targetReplicatedJobs: [a]}", ["a"]),
    ],
)
def test_a_set_is_complete_when_its_success_policy_is_met(policy: str, done: list[str]) -> None:
    async def story(world: SetCluster) -> None:
        times = {"a": "5", "b": "20"}
        jobs = [replicated(name, seconds=times[name], pods=1) for name in times]
        world.apply(jobset(*jobs, spec=f"successPolicy: {policy}"))
        await world.until(lambda: status(world).get("terminalState") == "Completed")
        assert conditions(world)["Completed"] == ("True", "AllJobsCompleted")
        await world.until(lambda: world.names(JOBS) == [f"train-{name}-0" for name in done])
        assert ("AllJobsCompleted", "jobset completed successfully") in world.events("train")

    play(story)


def test_a_failed_job_restarts_the_whole_set_until_the_limit() -> None:
    async def story(world: SetCluster) -> None:
        bad = replicated("bad", seconds="3", code=1, pods=1)
        good = replicated("good", pods=1)
        world.apply(jobset(bad, good, spec="failurePolicy: {maxRestarts: 2}"))
        uids = {one["metadata"]["uid"] for one in world.all(JOBS)}
        await world.until(lambda: status(world).get("restarts") == 1)
        assert conditions(world)["RestartingJobSet"] == ("True", "DefaultFailurePolicy")
        await world.until(lambda: [*map(_attempt, world.all(JOBS))] == ["1", "1"])
        assert not uids & {one["metadata"]["uid"] for one in world.all(JOBS)}
        await world.until(lambda: conditions(world)["RestartingJobSet"] == ("False", "JobsReady"))
        await world.until(lambda: status(world).get("terminalState") == "Failed")
        assert (status(world)["restarts"], status(world)["restartsCountTowardsMax"]) == (2, 2)
        assert conditions(world)["Failed"] == ("True", "ReachedMaxRestarts")
        await world.until(lambda: world.names(JOBS) == ["train-bad-0"])

    play(story)


def _attempt(job: Json) -> str:
    label: str = job["metadata"]["labels"][f"{PREFIX}restart-attempt"]
    return label


def failed(name: str, when: int, reason: str = "BackoffLimitExceeded", target: str = "w") -> Json:
    failure = {"type": "Failed", "status": "True", "reason": reason, "message": f"{name} went wrong"}
    return {
        "metadata": {"name": name, "labels": {f"{PREFIX}replicatedjob-name": target}},
        "status": {"conditions": [{**failure, "lastTransitionTime": f"2026-01-01T00:00:{when:02}Z"}]},
    }


RULES: dict[str, tuple[Json | None, int, tuple[bool, str, bool, str]]] = {
    "without a policy the set fails": (None, 0, (True, "FailedJobs", False, "early")),
    "without a rule it restarts": (
        {"maxRestarts": 1},
        0,
        (False, "RestartJobSetFailurePolicyAction", True, "early"),
    ),
    "too many restarts": ({"maxRestarts": 1}, 1, (True, "ReachedMaxRestarts", False, "early")),
    "a rule by reason": (
        {"maxRestarts": 1, "rules": [{"action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]},
        0,
        (True, "FailJobSetFailurePolicyAction", False, "late"),
    ),
    "a rule by message": (
        {"rules": [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["^late .*wrong$"]}]},
        0,
        (True, "FailJobSetFailurePolicyAction", False, "late"),
    ),
    "a rule by replicated job, not counted": (
        {"rules": [{"action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["d"]}]},
        5,
        (False, "RestartJobSetAndIgnoreMaxRestartsFailurePolicyAction", False, "late"),
    ),
    "a pattern that is none": (
        {"rules": [{"action": "FailJobSet", "onJobFailureMessagePatterns": ["("]}]},
        0,
        (True, "ReachedMaxRestarts", False, "early"),
    ),
}


@pytest.mark.parametrize("case", RULES)
def test_failure_policies(case: str) -> None:
    policy, restarts, expected = RULES[case]
    jobs = [failed("late", 9, "PodFailurePolicy", "d"), failed("early", 1)]
    spec = {} if policy is None else {"failurePolicy": policy}
    found = verdict_on({"metadata": {"name": "s"}, "spec": spec}, jobs, restarts)
    fails, reason, counts, first = expected
    assert (found.fails, found.reason, found.counts) == (fails, reason, counts)
    assert found.note.endswith(f"(first failed job: {first})")


def test_a_suspended_set_has_suspended_jobs_and_takes_changes_when_it_goes_on() -> None:
    async def story(world: SetCluster) -> None:
        world.apply(jobset(replicated("w"), spec="suspend: true"))
        await world.until(lambda: conditions(world).get("Suspended") == ("True", "SuspendedJobs"))
        assert [one["spec"]["suspend"] for one in world.all(JOBS)] == [True]
        assert world.pods() == []
        kind = world.kind(JOB_SETS)
        found = the_set(world)["spec"]["replicatedJobs"]
        found[0]["template"]["spec"]["template"]["spec"]["nodeSelector"] = {
            "topology.kubernetes.io/zone": "b"
        }
        world.patch(kind, "train", {"spec": {"replicatedJobs": found, "suspend": False}})
        await world.until(lambda: len(world.pods("Running")) == 2)
        assert {one["spec"]["nodeName"] for one in world.all(PODS)} == {"node-1"}
        assert conditions(world)["Suspended"] == ("False", "ResumeJobs")
        world.patch(kind, "train", {"spec": {"suspend": True}})
        await world.until(lambda: world.pods() == [])
        world.patch(kind, "train", {"spec": {"suspend": False}})
        await world.until(lambda: len(world.pods("Running")) == 2)

    play(story)


def test_a_finished_set_is_deleted_after_its_time() -> None:
    async def story(world: SetCluster) -> None:
        kind: Resource = world.kind(JOB_SETS)
        world.apply(jobset(replicated("w", seconds="2"), spec="ttlSecondsAfterFinished: 30"))
        await world.until(lambda: "Completed" in conditions(world))
        await world.settle(25)
        assert world.names(kind) == ["train"]
        await world.until(lambda: not world.names(kind) and not world.names(JOBS), 20)

    play(story)


def test_with_exclusive_placement_each_job_has_a_domain_of_its_own() -> None:
    async def story(world: SetCluster) -> None:
        exclusive = "{alpha.jobset.sigs.k8s.io/exclusive-topology: topology.kubernetes.io/zone}"
        world.apply(jobset(replicated("w", more="replicas: 4"), annotations=exclusive))
        await world.until(lambda: len(world.pods("Running")) == 6)
        nodes: dict[str, set[str]] = {}
        for pod in world.all(PODS):
            node = pod["spec"].get("nodeName")
            if node is not None:
                nodes.setdefault(pod["metadata"]["labels"][f"{PREFIX}job-index"], set()).add(_zone(node))
        assert sorted(map(sorted, nodes.values())) == [["0"], ["1"], ["2"]]
        waiting = [one for one in world.all(PODS) if "nodeName" not in one["spec"]]
        assert [
            one["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for one in waiting
        ] == ["0"]
        job = world.get(JOBS, waiting[0]["metadata"]["labels"]["job-name"])["metadata"]["name"]
        assert any("leader" in note or "follower" in note for _, note in world.events(job))

    play(story, shapes=(NodeShape(count=6, zones=("a", "b", "c")),))


def _zone(node: str) -> str:
    return str(int(node.rpartition("-")[2]) % 3)


def test_claims_of_a_set_are_mounted_by_the_pods_that_name_them() -> None:
    async def story(world: SetCluster) -> None:
        claims = (
            "volumeClaimPolicies: [{templates: [{metadata: {name: cache}, spec: {accessModes: "
            "[ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}]"
        )
        text = jobset(replicated("w", pods=1), replicated("x", pods=1), spec=claims)
        mount = "image: i, volumeMounts: [{name: cache, mountPath: /c}],"
        world.apply(text.replace("image: i,", mount, 1))
        await world.until(lambda: len(world.pods("Running")) == 2)
        assert world.names(PERSISTENT_VOLUME_CLAIMS) == ["cache-train"]
        volumes = {one["metadata"]["name"]: one["spec"].get("volumes", []) for one in world.all(PODS)}
        mounted = [name for name, found in volumes.items() if any(one["name"] == "cache" for one in found)]
        assert len(mounted) == 1
        assert mounted[0].startswith("train-w-0-0")

    play(story)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            jobset(replicated("a", more="dependsOn: [{name: b, status: Ready}]")),
            "DependsOn can't be set for the",
        ),
        (
            jobset(replicated("a"), replicated("b", more="dependsOn: [{name: c, status: Ready}]")),
            "replicatedJob: b cannot depend on replicatedJob: c",
        ),
        (jobset(replicated("a" * 60)), "must be no more than 63 characters"),
        (
            jobset(replicated("a"), spec="successPolicy: {operator: All, targetReplicatedJobs: [b]}"),
            "invalid replicatedJob name 'b' does not appear in .spec.ReplicatedJobs",
        ),
        (
            jobset(replicated("a"), spec="coordinator: {replicatedJob: a, jobIndex: 3}"),
            "coordinator job index 3 is invalid for replicatedJob a",
        ),
        (jobset(replicated("a"), spec="network: {subdomain: 9-}"), "spec.network.subdomain: Invalid value"),
        (
            jobset(
                replicated("a"),
                spec="failurePolicy: {rules: [{action: FailJobSet, onJobFailureReasons: [X]}]}",
            ),
            "invalid job failure reason 'X'",
        ),
    ],
)
def test_sets_that_could_not_work_are_refused(text: str, problem: str) -> None:
    async def story(world: SetCluster) -> None:
        with pytest.raises(ApiError) as refused:
            world.apply(text)
        assert problem in refused.value.message

    play(story)


def test_replicated_jobs_of_a_running_set_stay_as_they_are() -> None:
    async def story(world: SetCluster) -> None:
        world.apply(jobset(replicated("w")))
        kind, found = world.kind(JOB_SETS), the_set(world)["spec"]["replicatedJobs"]
        changed = [{**found[0], "replicas": 2}]
        with pytest.raises(ApiError, match=r"spec\.replicatedJobs: Invalid value.*field is immutable"):
            world.patch(kind, "train", {"spec": {"replicatedJobs": changed}})

    play(story)
