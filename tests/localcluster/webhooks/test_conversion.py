"""Custom resources in several versions: converted by their webhook, or kept as they were written."""

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from localcluster.apiserver.served import APPLY, MERGE, Answer, Served, serving
from localcluster.webhooks.hookserver import (
    Json,
    WebhookServer,
    allow,
    labels,
    rule,
    webhook,
    webhooks,
)
from localcluster.webhooks.test_admission_webhooks import install, warnings
from stowplan.localcluster.remote.calls import RemoteSettings
from stowplan.localcluster.remote.services import Address, ServiceKey

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = "/apis/example.com/{version}/namespaces/default/queues"
SKIPPED = (
    "spec.conversion: nothing answers at the webhook of queues.example.com: objects keep every field in the "
    "version they are written in; other versions show the fields they have in common"
)


def schema(**properties: Any) -> Json:
    spec = {"type": "object", "properties": properties}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}


STRING = {"type": "string"}
# As Kueue's ClusterQueue: `cohort` became `cohortName`, `shared` is common, `size` changed its type.
OLD = schema(cohort=STRING, shared=STRING, size=STRING)
NEW = schema(cohortName=STRING, shared=STRING, size={"type": "integer"})


def definition(client: Json | None = None, *, stored: str = "v1") -> Json:
    client = client or {"service": {"name": "away", "namespace": "default"}}
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == stored,
            "schema": fields,
            "subresources": {"status": {}},
        }
        for name, fields in (("v1", NEW), ("v1beta1", OLD))
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "queues.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "queues", "kind": "Queue"},
            "scope": "Namespaced",
            "versions": versions,
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
            },
        },
    }


def queue(version: str, name: str = "q", **spec: Any) -> Json:
    return {"apiVersion": f"example.com/{version}", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def path(version: str, name: str = "") -> str:
    return OBJECTS.format(version=version) + (f"/{name}" if name else "")


def converted(obj: Json, target: str) -> Json:
    """What Kueue's webhook would do."""
    made = copy.deepcopy(obj)
    made["apiVersion"], spec = target, made.setdefault("spec", {})
    renamed = ("cohort", "cohortName") if target.endswith("/v1") else ("cohortName", "cohort")
    if renamed[0] in spec:
        spec[renamed[1]] = spec.pop(renamed[0])
    if "size" in spec:
        spec["size"] = int(spec["size"]) if target.endswith("/v1") else str(spec["size"])
    return made


def convert(review: Json, **more: Any) -> Json:
    request = review["request"]
    made = [converted(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
    response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": made, **more}
    return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}


@contextmanager
def cluster(hook: WebhookServer) -> Iterator[Served]:
    services = {ServiceKey("default", "hook"): Address("127.0.0.1", hook.port)}
    with serving(remote=RemoteSettings(services)) as served:
        yield served


def define(served: Served, client: Json | None = None, **more: Any) -> Answer:
    answer = served.ask("POST", CRDS, definition(client, **more))
    assert answer.code == 201, answer.body
    return answer


def spec_of(served: Served, version: str, name: str = "q") -> Json:
    answer = served.ask("GET", path(version, name))
    assert answer.code == 200, answer.body
    assert answer.body["apiVersion"] == f"example.com/{version}"
    spec: Json = answer.body["spec"]
    return spec


# Nobody calls the webhook


def test_without_its_webhook_nothing_that_was_written_is_lost_and_the_warning_is_true() -> None:
    with serving(remote=RemoteSettings()) as served:
        assert warnings(define(served))[0] == SKIPPED[:256]
        made = served.ask("POST", path("v1beta1"), queue("v1beta1", cohort="all", shared="s", size="3"))
        assert made.body["spec"] == {"cohort": "all", "shared": "s", "size": "3"}
        assert spec_of(served, "v1beta1") == {"cohort": "all", "shared": "s", "size": "3"}
        assert spec_of(served, "v1") == {"shared": "s"}
        listed = served.ask("GET", path("v1beta1")).body["items"]
        assert listed[0]["spec"] == {"cohort": "all", "shared": "s", "size": "3"}


@pytest.mark.parametrize("change", ["status", "finalizer", "apply", "update"])
def test_a_write_in_another_version_keeps_the_fields_it_does_not_know(change: str) -> None:
    with serving(remote=RemoteSettings()) as served:
        define(served)
        served.ask("POST", path("v1beta1"), queue("v1beta1", cohort="all", shared="s", size="3"))
        if change == "status":
            body: Json = {"status": {"pending": 1}}
            answer = served.ask("PATCH", path("v1", "q/status"), body, Content_Type=MERGE)
        elif change == "finalizer":
            body = {"metadata": {"finalizers": ["example.com/held"]}}
            answer = served.ask("PATCH", path("v1", "q"), body, Content_Type=MERGE)
        elif change == "apply":
            applied = json.dumps(queue("v1", cohortName="new")).encode()
            answer = served.ask("PATCH", path("v1", "q?fieldManager=me"), applied, Content_Type=APPLY)
        else:
            old = served.ask("GET", path("v1", "q")).body
            answer = served.ask("PUT", path("v1", "q"), {**old, "spec": {"shared": "other", "size": 4}})
        assert answer.code == 200, answer.body
        spec = spec_of(served, "v1beta1")
        assert spec["cohort"] == "all"
        if change in ("status", "finalizer"):
            assert spec == {"cohort": "all", "shared": "s", "size": "3"}
        if change == "apply":
            assert spec_of(served, "v1") == {"cohortName": "new", "shared": "s"}
        if change == "update":
            assert spec_of(served, "v1") == {"shared": "other", "size": 4}


def test_objects_keep_their_fields_when_the_definition_and_its_storage_version_change() -> None:
    with serving(remote=RemoteSettings()) as served:
        define(served)
        served.ask("POST", path("v1beta1"), queue("v1beta1", cohort="all"))
        served.ask("POST", path("v1"), queue("v1", name="other", cohortName="all"))
        current = served.ask("GET", f"{CRDS}/queues.example.com").body
        changed = {**current, "spec": definition(stored="v1beta1")["spec"]}
        assert served.ask("PUT", f"{CRDS}/queues.example.com", changed).code == 200
        assert spec_of(served, "v1beta1") == {"cohort": "all"}
        assert spec_of(served, "v1", "other") == {"cohortName": "all"}


# The webhook is called


def test_a_webhook_converts_what_is_written_and_read() -> None:
    with webhooks(convert=convert) as hook, cluster(hook) as served:
        assert warnings(define(served, hook.service("/convert"))) == []
        made = served.ask("POST", path("v1beta1"), queue("v1beta1", cohort="all", size="3"))
        assert made.code == 201, made.body
        assert made.body["spec"] == {"cohort": "all", "size": "3"}
        assert spec_of(served, "v1") == {"cohortName": "all", "size": 3}
        assert spec_of(served, "v1beta1") == {"cohort": "all", "size": "3"}
        [listed] = served.ask("GET", path("v1beta1")).body["items"]
        assert listed["spec"] == {"cohort": "all", "size": "3"}
        change = {"spec": {"size": "4"}}
        patched = served.ask("PATCH", path("v1beta1", "q"), change, Content_Type=MERGE)
        assert patched.body["spec"] == {"cohort": "all", "size": "4"}
        old = served.ask("GET", path("v1beta1", "q")).body
        replaced = served.ask("PUT", path("v1beta1", "q"), {**old, "spec": {"cohort": "two"}})
        assert replaced.body["spec"] == {"cohort": "two"}
        applied = json.dumps(queue("v1beta1", shared="mine")).encode()
        answer = served.ask("PATCH", path("v1beta1", "q?fieldManager=me"), applied, Content_Type=APPLY)
        assert answer.body["spec"] == {"cohort": "two", "shared": "mine"}
        assert spec_of(served, "v1") == {"cohortName": "two", "shared": "mine"}
        stored = served.run(lambda store: [one["apiVersion"] for one in _queues(store)])
        assert stored == ["example.com/v1"]


def _queues(store: Any) -> list[Json]:
    found: list[Json] = store.all(store.catalogue.of_kind("example.com/v1", "Queue"))
    return found


def test_a_watch_shows_objects_in_its_version() -> None:
    with webhooks(convert=convert) as hook, cluster(hook) as served:
        define(served, hook.service("/convert"))
        served.ask("POST", path("v1"), queue("v1", name="before", cohortName="a"))
        events = served.watch(path("v1beta1") + "?watch=true")
        first = next(events)
        served.ask("POST", path("v1"), queue("v1", name="after", cohortName="b"))
        served.ask("DELETE", path("v1", "before"))
        shown = [first, next(events), next(events)]
        events.close()
        assert [(one["type"], one["object"]["apiVersion"], one["object"]["spec"]) for one in shown] == [
            ("ADDED", "example.com/v1beta1", {"cohort": "a"}),
            ("ADDED", "example.com/v1beta1", {"cohort": "b"}),
            ("DELETED", "example.com/v1beta1", {"cohort": "a"}),
        ]


def test_one_review_converts_a_list_and_what_is_known_is_not_sent_again() -> None:
    with webhooks(convert=convert) as hook, cluster(hook) as served:
        define(served, hook.service("/convert"))
        for name in "abc":
            served.ask("POST", path("v1"), queue("v1", name=name, cohortName=name))
        for _ in range(2):
            items = served.ask("GET", path("v1beta1")).body["items"]
            assert [one["spec"]["cohort"] for one in items] == ["a", "b", "c"]
        assert [len(review["request"]["objects"]) for _, review in hook.reviews] == [3]


def test_objects_of_a_former_storage_version_are_converted_when_they_are_read() -> None:
    with webhooks(convert=convert) as hook, cluster(hook) as served:
        define(served, hook.service("/convert"))
        served.ask("POST", path("v1"), queue("v1", cohortName="all"))
        current = served.ask("GET", f"{CRDS}/queues.example.com").body
        changed = {**current, "spec": definition(hook.service("/convert"), stored="v1beta1")["spec"]}
        assert served.ask("PUT", f"{CRDS}/queues.example.com", changed).code == 200
        assert spec_of(served, "v1beta1") == {"cohort": "all"}
        served.ask("PATCH", path("v1", "q"), {"spec": {"shared": "s"}}, Content_Type=MERGE)
        stored = served.run(lambda store: [(one["apiVersion"], one["spec"]) for one in _queues(store)])
        assert stored == [("example.com/v1beta1", {"cohort": "all", "shared": "s"})]


def _renamed(review: Json) -> Json:
    made = convert(review)
    made["response"]["convertedObjects"][0]["metadata"]["name"] = "another"
    return made


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda review: convert(review, result={"status": "Failure", "message": "no"}), "failed: no"),
        (lambda review: convert(review, convertedObjects=[]), "returned 0 objects, expected 1"),
        (_renamed, "returned invalid converted object at index 0: must have the same name: q != another"),
        (
            lambda review: convert(review, convertedObjects=review["request"]["objects"]),
            "invalid groupVersion (expected example.com/v1, received example.com/v1beta1)",
        ),
    ],
    ids=["failure", "too few", "another name", "another version"],
)
def test_a_conversion_that_fails_is_an_error_that_names_it(answer: Any, message: str) -> None:
    with webhooks(convert=answer) as hook, cluster(hook) as served:
        define(served, hook.service("/convert"))
        refused = served.ask("POST", path("v1beta1"), queue("v1beta1", cohort="all"))
        assert (refused.code, refused.body["reason"]) == (500, "InternalError")
        assert "conversion webhook for example.com/v1beta1, Kind=Queue " in refused.body["message"]
        assert message in refused.body["message"]
        assert served.ask("GET", path("v1")).body["items"] == []


# Together with admission webhooks


@pytest.mark.parametrize("is_called", [True, False], ids=["called", "kept"])
def test_an_admission_webhook_of_another_version_gets_it_and_its_patch_loses_nothing(is_called: bool) -> None:
    with webhooks(convert=convert, mutate=labels(by="hook"), check=allow) as hook, cluster(hook) as served:
        define(served, hook.service("/convert") if is_called else None)
        only_v1 = rule("queues", groups=("example.com",), versions=("v1",))
        install(served, "Mutating", webhook(hook.service("/mutate"), only_v1))
        made = served.ask("POST", path("v1beta1"), queue("v1beta1", cohort="all", shared="s"))
        assert made.code == 201, made.body
        assert made.body["metadata"]["labels"] == {"by": "hook"}
        assert spec_of(served, "v1beta1") == {"cohort": "all", "shared": "s"}
        [request] = hook.requests("/mutate")
        assert request["object"]["apiVersion"] == "example.com/v1"
        expected = {"cohortName": "all", "shared": "s"} if is_called else {"shared": "s"}
        assert request["object"]["spec"] == expected
