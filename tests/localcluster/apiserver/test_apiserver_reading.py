"""Getting, listing, paging, selecting, and the forms things are shown in."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.apiserver.served import PODS, Served, deployment, pod, serving
from stowplan.api import catalogue as c
from stowplan.localcluster.store import Store

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving(history=50) as served:
        for number in range(7):
            labels = {"tier": "front" if number % 2 else "back"}
            assert served.ask("POST", PODS, pod(f"p{number}", labels=labels)).code == 201
        yield served


def names(body: dict[str, list[dict[str, dict[str, str]]]]) -> list[str]:
    return [item["metadata"]["name"] for item in body["items"]]


def test_a_list_has_its_kind_and_version(api: Served) -> None:
    body = api.ask("GET", PODS).body
    assert (body["kind"], body["apiVersion"]) == ("PodList", "v1")
    assert int(body["metadata"]["resourceVersion"]) >= 7
    assert names(body) == [f"p{number}" for number in range(7)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("labelSelector=tier%3Dfront", ["p1", "p3", "p5"]),
        ("labelSelector=tier+in+(back)&fieldSelector=metadata.name!%3Dp0", ["p2", "p4", "p6"]),
        ("fieldSelector=metadata.name%3Dp4", ["p4"]),
        ("fieldSelector=status.phase%3DRunning", []),
        ("fieldSelector=spec.nodeName%3D", [f"p{number}" for number in range(7)]),
    ],
)
def test_selectors_choose(api: Served, query: str, expected: list[str]) -> None:
    assert names(api.ask("GET", f"{PODS}?{query}").body) == expected
    assert names(api.ask("GET", f"/api/v1/pods?{query}").body) == expected


def test_pages_show_the_state_of_the_first_one() -> None:
    with serving() as api:
        for number in range(5):
            api.ask("POST", PODS, pod(f"p{number}"))
        first = api.ask("GET", f"{PODS}?limit=2").body
        assert first["metadata"]["remainingItemCount"] == 3
        api.ask("DELETE", f"{PODS}/p3")
        api.ask("POST", PODS, pod("p2a"))
        api.ask("PATCH", f"{PODS}/p4", {"metadata": {"labels": {"new": "yes"}}}, Content_Type=MERGE)
        second = api.ask("GET", f"{PODS}?limit=2&continue={first['metadata']['continue']}").body
        third = api.ask("GET", f"{PODS}?limit=2&continue={second['metadata']['continue']}").body
        assert [*names(first), *names(second), *names(third)] == ["p0", "p1", "p2", "p3", "p4"]
        assert "labels" not in third["items"][0]["metadata"]
        assert "continue" not in third["metadata"]
        versions = {page["metadata"]["resourceVersion"] for page in (first, second, third)}
        assert len(versions) == 1


def test_whoever_takes_any_version_gets_all_objects_at_once(api: Served) -> None:
    listed = api.ask("GET", f"{PODS}?limit=2&resourceVersion=0").body
    assert names(listed) == [f"p{number}" for number in range(7)]
    assert "continue" not in listed["metadata"]


def test_a_list_of_many_objects_is_the_same_piece_by_piece_and_in_pages() -> None:
    with serving(admission=False) as api:

        def fill(store: Store) -> None:
            for number in range(2_345):
                store.create(c.CONFIG_MAPS, {"metadata": {"name": f"m{number:04}", "namespace": "default"}})

        api.run(fill)
        path = "/api/v1/namespaces/default/configmaps"
        whole = api.ask("GET", path)
        assert whole.body["kind"] == "ConfigMapList"
        paged: list[Any] = []
        page = api.ask("GET", f"{path}?limit=900").body
        while True:
            paged += page["items"]
            if "continue" not in page["metadata"]:
                break
            page = api.ask("GET", f"{path}?limit=900&continue={page['metadata']['continue']}").body
        assert whole.body["items"] == paged
        assert len(paged) == 2_345
        assert whole.body["metadata"] == page["metadata"]
        assert whole.headers["Transfer-Encoding"] == "chunked"
        assert api.ask("GET", path, Accept="application/yaml").headers["Content-Type"] == "application/yaml"


MERGE = "application/merge-patch+json"


def test_a_page_of_a_state_that_is_forgotten_is_refused() -> None:
    with serving(history=5) as api:
        for number in range(4):
            api.ask("POST", PODS, pod(f"p{number}"))
        token = api.ask("GET", f"{PODS}?limit=1").body["metadata"]["continue"]
        for number in range(8):
            api.ask("POST", PODS, pod(f"q{number}"))
        answer = api.ask("GET", f"{PODS}?limit=1&continue={token}")
        assert (answer.code, answer.body["reason"]) == (410, "Expired")


def test_an_exact_version_is_shown_as_it_was(api: Served) -> None:
    version = api.ask("GET", PODS).body["metadata"]["resourceVersion"]
    api.ask("POST", "/api/v1/namespaces/kube-public/pods", pod("later"))
    path = f"/api/v1/pods?resourceVersion={version}"
    assert "later" not in names(api.ask("GET", f"{path}&resourceVersionMatch=Exact").body)
    assert "later" in names(api.ask("GET", f"{path}&resourceVersionMatch=NotOlderThan").body)


def test_a_table_has_a_row_for_each_object(api: Served) -> None:
    body = api.ask("GET", PODS, Accept=TABLE).body
    assert body["kind"] == "Table"
    columns = [column["name"] for column in body["columnDefinitions"]]
    assert columns[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    row = body["rows"][3]
    assert row["cells"][:4] == ["p3", "0/1", "Pending", "0"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "p3"
    whole = api.ask("GET", f"{PODS}?includeObject=Object", Accept=TABLE).body
    assert whole["rows"][0]["object"]["kind"] == "Pod"
    none = api.ask("GET", f"{PODS}?includeObject=None", Accept=TABLE).body
    assert none["rows"][0]["object"] is None


def test_one_object_may_be_a_table_too(api: Served) -> None:
    body = api.ask("GET", f"{PODS}/p1", Accept=TABLE).body
    assert [row["cells"][0] for row in body["rows"]] == ["p1"]


def test_metadata_may_be_had_alone(api: Served) -> None:
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    body = api.ask("GET", PODS, Accept=accept).body
    assert body["kind"] == "PartialObjectMetadataList"
    assert set(body["items"][0]) == {"kind", "apiVersion", "metadata"}


def test_events_are_the_same_in_both_groups(api: Served) -> None:
    event = {
        "metadata": {"name": "e1"},
        "involvedObject": {"kind": "Pod", "name": "p1", "namespace": "default"},
        "reason": "Started",
        "message": "it began",
        "type": "Normal",
        "count": 3,
        "source": {"component": "kubelet"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:01:00Z",
    }
    core, new = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
    created = api.ask("POST", core, event)
    assert created.code == 201, created.body
    shown = api.ask("GET", f"{new}/e1").body
    assert shown["apiVersion"] == "events.k8s.io/v1"
    assert shown["regarding"]["name"] == "p1"
    assert (shown["note"], shown["deprecatedCount"]) == ("it began", 3)
    chosen = api.ask("GET", f"{core}?fieldSelector=involvedObject.name%3Dp1,reason%3DStarted").body
    assert names(chosen) == ["e1"]
    assert chosen["items"][0]["message"] == "it began"
    assert (chosen["kind"], chosen["apiVersion"]) == ("EventList", "v1")
    assert not {"kind", "apiVersion"} & chosen["items"][0].keys()
    assert names(api.ask("GET", f"{core}?fieldSelector=involvedObject.name%3Dp2").body) == []
    patch = {"count": 4, "lastTimestamp": "2026-01-01T00:02:00Z"}
    answer = api.ask("PATCH", f"{core}/e1", patch, Content_Type="application/strategic-merge-patch+json")
    assert answer.body["count"] == 4
    row = api.ask("GET", core, Accept=TABLE).body["rows"][0]["cells"]
    assert row[1:4] == ["Normal", "Started", "pod/p1"]


def test_discovery_tells_of_everything_in_both_forms(api: Served) -> None:
    groups = [group["name"] for group in api.ask("GET", "/apis").body["groups"]]
    assert {"apps", "batch", "policy", "events.k8s.io", "authorization.k8s.io"} <= set(groups)
    resources = {entry["name"]: entry for entry in api.ask("GET", "/apis/apps/v1").body["resources"]}
    assert resources["deployments"]["shortNames"] == ["deploy"]
    assert resources["deployments/scale"]["kind"] == "Scale"
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
    answer = api.ask("GET", "/apis", Accept=accept)
    assert "as=APIGroupDiscoveryList" in answer.headers["Content-Type"]
    found = {item["metadata"]["name"]: item for item in answer.body["items"]}
    assert list(found) == groups
    deployments = next(
        entry for entry in found["apps"]["versions"][0]["resources"] if entry["resource"] == "deployments"
    )
    assert deployments["scope"] == "Namespaced"
    assert {part["subresource"] for part in deployments["subresources"]} == {"status", "scale"}
    core = api.ask("GET", "/api", Accept=accept).body["items"][0]
    assert core["metadata"] == {}
    assert "pods" in [entry["resource"] for entry in core["versions"][0]["resources"]]


def test_documents_describe_the_api(api: Served) -> None:
    index = api.ask("GET", "/openapi/v3").body["paths"]
    document = api.ask("GET", index["api/v1"]["serverRelativeURL"]).body
    spec = document["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]
    assert spec["required"] == ["containers"]
    assert spec["properties"]["containers"]["x-kubernetes-patch-merge-key"] == "name"
    patch = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "kind": "Pod", "version": "v1"}
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    assert api.ask("GET", "/openapi/v2", Accept=accept).body[:5] == b"\n\x032.0"
    references = set()

    def look(data: object) -> None:
        if isinstance(data, dict):
            references.update([data["$ref"]] if "$ref" in data else [])
            for value in data.values():
                look(value)
        elif isinstance(data, list):
            for value in data:
                look(value)

    look(document)
    assert {name.removeprefix("#/components/schemas/") for name in references} <= set(
        document["components"]["schemas"]
    )


def test_a_scale_is_a_view_of_what_makes_pods(api: Served) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert api.ask("POST", path, deployment("scaled")).code == 201
    scale = api.ask("GET", f"{path}/scaled/scale").body
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=scaled"}
    scale["spec"]["replicas"] = 5
    assert api.ask("PUT", f"{path}/scaled/scale", scale).body["spec"] == {"replicas": 5}
    assert api.ask("PUT", f"{path}/scaled/scale", scale).body["reason"] == "Conflict"
    patched = api.ask("PATCH", f"{path}/scaled/scale", {"spec": {"replicas": 0}}, Content_Type=MERGE)
    assert patched.body["spec"] == {}
    found = api.ask("GET", f"{path}/scaled").body
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (0, 3)
    scale["spec"]["replicas"] = -1
    del scale["metadata"]["resourceVersion"]
    assert api.ask("PUT", f"{path}/scaled/scale", scale).code == 422
