"""The chain with stages that objects of the cluster configure: what they see, change, and wait for."""

import asyncio
from random import Random
from typing import Any

import pytest

from localcluster.store.stores import HandClock
from stowplan.api.catalogue import CONFIG_MAPS, NAMESPACES, PODS, SERVICES
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.admission.attributes import AdmissionAttributes
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import FieldManager, Store
from stowplan.localcluster.store.attempts import Question, WriteAttempts, carried_out
from stowplan.localcluster.store.writer import API_SERVER

POD: Json = {
    "metadata": {"name": "p", "namespace": "default"},
    "spec": {"containers": [{"name": "a", "image": "a"}]},
}


class Stage:
    """Keeps what it sees. `mutation` changes the object, `question` is asked before validation."""

    def __init__(self) -> None:
        self.is_active = True
        self.seen: list[tuple[str, str, str, bool]] = []
        self.objects: list[Json | None] = []
        self.mutation: Any = None
        self.answer: Any = None
        self.asked: list[float] = []
        self.names: list[str] = []

    def mutate(self, write: AdmissionAttributes) -> bool:
        self.seen.append((write.operation, write.resource.plural, write.subresource, write.is_again))
        self.objects.append(write.object)
        self.names.append(write.name)
        if self.mutation is None or write.object is None:
            return False
        before = write.object
        new = self.mutation(before)
        write.replace(new)
        return bool(new != before)

    def validate(self, write: AdmissionAttributes) -> None:
        self.objects.append(write.object)
        self.names.append(write.name)
        if self.answer is None or write.by.attempts is None:
            return
        [found] = write.by.attempts.answers([Question("q", write.stored, self._call)])
        if isinstance(found, ApiError):
            raise found

    async def _call(self, seconds: float) -> Any:
        self.asked.append(seconds)
        await asyncio.sleep(0)
        return self.answer() if callable(self.answer) else self.answer


def cluster() -> tuple[Store, Stage]:
    admission, stage = ClusterAdmission(disabled=("ServiceAccount",)), Stage()
    store = Store(HandClock(), Random(1), admission=admission, fields=FieldManager())
    create_bootstrap_objects(store)
    admission.stages = (stage,)
    return store, stage


def config_map(name: str = "one", **data: str) -> Json:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def labelled(obj: Json) -> Json:
    metadata = {**obj["metadata"], "labels": {"by": "stage"}}
    return {**obj, "metadata": metadata}


def test_mutations_are_stored_with_defaults_and_plugins_run_again() -> None:
    store, stage = cluster()

    def with_container(pod: Json) -> Json:
        more = {"name": "more", "image": "more"}
        containers = pod["spec"]["containers"]
        return (
            pod
            if len(containers) > 1
            else {**pod, "spec": {**pod["spec"], "containers": [*containers, more]}}
        )

    stage.mutation = with_container
    body = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    }
    pod = store.create(PODS, body)
    assert [one.get("imagePullPolicy") for one in pod["spec"]["containers"]] == ["Always", "Always"]
    assert [again for *_, again in stage.seen] == [False, True]


def test_a_new_object_is_mutated_before_it_has_a_uid_and_validated_with_it() -> None:
    store, stage = cluster()
    made = store.create(CONFIG_MAPS, {"metadata": {"generateName": "x-", "namespace": "default"}})
    mutated, validated = stage.objects
    assert mutated is not None
    assert validated is not None
    assert {"uid", "name", "creationTimestamp"}.isdisjoint(mutated["metadata"])
    assert validated["metadata"]["uid"] == made["metadata"]["uid"]
    assert stage.names == ["", made["metadata"]["name"]]


def test_a_stage_may_name_an_object_whose_name_is_generated() -> None:
    store, stage = cluster()
    stage.mutation = lambda obj: {**obj, "metadata": {**obj["metadata"], "name": "mine"}}
    store.create(CONFIG_MAPS, {"metadata": {"generateName": "x-", "namespace": "default"}})
    assert store.get(CONFIG_MAPS, "default", "mine")["metadata"]["generateName"] == "x-"


def test_updates_of_the_status_are_validated_as_they_will_be_stored() -> None:
    store, stage = cluster()
    made = store.create(NAMESPACES, {"metadata": {"name": "n"}})
    stage.objects.clear()
    body = {
        **made,
        "status": {"phase": "Active"},
        "metadata": {**made["metadata"], "uid": made["metadata"]["uid"]},
    }
    store.update(NAMESPACES, {**body, "spec": {}}, subresource="status")
    mutated, validated = stage.objects
    assert mutated is not None
    assert validated is not None
    assert (mutated["spec"], validated["spec"]) == ({}, made["spec"])


def test_deletions_bindings_and_evictions_are_seen() -> None:
    store, stage = cluster()
    store.create(
        PODS,
        {
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        },
    )
    stage.seen.clear()
    store.bind("default", "p", {"target": {"name": "node"}})
    store.evict("default", "p")
    store.create(CONFIG_MAPS, config_map())
    store.delete(CONFIG_MAPS, "default", "one")
    assert [(one[0], one[2]) for one in stage.seen] == [
        ("CREATE", "binding"),
        ("CREATE", "eviction"),
        ("CREATE", ""),
        ("DELETE", ""),
    ]


def test_a_caller_that_can_wait_gets_the_answer_and_creates_the_same_object() -> None:
    store, stage = cluster()
    stage.answer = "fine"
    client = InProcessClient(store)

    async def story() -> Json:
        body = {"metadata": {"name": "s", "namespace": "default"}, "spec": {"ports": [{"port": 80}]}}
        return await client.create(SERVICES, body)

    made = asyncio.run(story())
    seen = [one for one in stage.objects if one is not None and "uid" in one["metadata"]]
    # The first attempt is one of a caller that does not expect to wait; the answer is for the second.
    assert (len(stage.asked), len(seen)) == (1, 3)
    assert seen[1]["metadata"]["uid"] == seen[2]["metadata"]["uid"] == made["metadata"]["uid"]
    assert len({one["spec"]["clusterIP"] for one in seen}) == 1
    assert made["spec"]["clusterIP"] == seen[0]["spec"]["clusterIP"]


def test_a_caller_that_cannot_wait_is_not_asked_to() -> None:
    store, stage = cluster()
    stage.answer = "fine"
    store.create(CONFIG_MAPS, config_map())
    assert stage.asked == []


def test_an_answer_about_an_object_that_has_changed_is_asked_for_again() -> None:
    store, stage = cluster()
    store.create(CONFIG_MAPS, config_map(a="1"))
    changed: list[int] = []

    def meanwhile() -> str:
        if len(stage.asked) == 1:
            changed.append(store.version)
            store.patch(CONFIG_MAPS, "default", "one", {"data": {"b": "2"}})
        return "fine"

    stage.answer = meanwhile

    async def story() -> Json:
        patch = {"data": {"c": "3"}}
        return await carried_out(
            lambda by: store.patch(CONFIG_MAPS, "default", "one", patch, by=by), API_SERVER
        )

    assert asyncio.run(story())["data"] == {"a": "1", "b": "2", "c": "3"}
    assert (len(stage.asked), len(changed)) == (2, 1)


def test_a_refusal_takes_the_warnings_of_its_last_attempt_along() -> None:
    store, stage = cluster()
    stage.answer = ApiError(403, "Forbidden", "no")
    mutate = stage.mutate

    def warns(write: AdmissionAttributes) -> bool:
        write.by.warn("careful")
        return mutate(write)

    stage.mutate = warns  # type: ignore[method-assign]

    async def story() -> None:
        by = API_SERVER._replace(attempts=WriteAttempts())
        await carried_out(lambda by: store.create(CONFIG_MAPS, config_map(), by=by), by)

    with pytest.raises(ApiError, match="no") as caught:
        asyncio.run(story())
    assert caught.value.warnings == ["careful"]
    assert store.find(CONFIG_MAPS, "default", "one") is None


def test_labels_of_a_stage_are_not_lost_by_a_patch_of_the_status() -> None:
    store, stage = cluster()
    store.create(NAMESPACES, {"metadata": {"name": "n"}})
    before = store.get(NAMESPACES, "", "n")
    stage.mutation = labelled
    store.patch(NAMESPACES, "", "n", {"status": {"phase": "Active"}}, subresource="status")
    assert store.get(NAMESPACES, "", "n")["metadata"]["labels"]["by"] == "stage"
    assert "by" not in (before["metadata"].get("labels") or {})
