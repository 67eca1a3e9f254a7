"""The API `/stowplan/v1` on a running cluster: what it says, to whom, and that nothing breaks it."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localcluster.up.clusters import Up, up
from stowplan.explain.document.cluster import (
    GroupsDocument,
    NodeDocument,
    NodesDocument,
    Overview,
    PodMap,
    PodsDocument,
)
from stowplan.explain.document.pending import PendingDocument
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.document.queue import CostsDocument, DecisionsDocument, QueueDocument
from stowplan.explain.document.schema import schema_text
from stowplan.explain.terminal.pod import render
from waiting import PATIENCE

APP = """
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: main, image: app, resources: {requests: {cpu: "2"}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: "big", namespace: shop, labels: {app: "big"}}
spec:
  containers: [{name: main, image: app, resources: {requests: {cpu: "20"}}}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: looker, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: look}
rules: [{nonResourceURLs: ["/stowplan/v1*"], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: look}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: look}
subjects: [{kind: ServiceAccount, name: looker, namespace: default}]
"""


class Api:
    """The API of a cluster, with a user's token."""

    def __init__(self, running: Up) -> None:
        config = yaml.safe_load(running.kubeconfig.read_text())
        self.url: str = config["clusters"][0]["cluster"]["server"]
        self._token: str = config["users"][0]["user"]["token"]
        self._tls = ssl._create_unverified_context()

    def get(self, path: str, user: str = "") -> tuple[int, Any]:
        request = urllib.request.Request(self.url + path)
        request.add_header("Authorization", f"Bearer {self._token}")
        if user:
            request.add_header("Impersonate-User", user)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=PATIENCE) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def ok(self, path: str) -> Any:
        code, document = self.get(path)
        assert code == 200, document
        return document


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    folder = tmp_path_factory.mktemp("inspection")
    manifest: Path = folder / "app.yaml"
    manifest.write_text(APP)
    with up(folder, "--load", str(manifest), "--nodes", "3") as running:
        found = Api(running)
        while found.ok("/stowplan/v1")["pods"] != {"assigned": 2, "waiting": 1}:
            pass
        yield found


def test_the_cluster_at_a_glance(api: Api) -> None:
    overview = api.ok("/stowplan/v1")
    assert overview["nodes"] == 3
    assert overview["scheduler"]["leader"] is True
    nodes = api.ok("/stowplan/v1/nodes")
    assert sorted(nodes["names"]) == ["node-0", "node-1", "node-2"]
    assert nodes["keys"][0] == "topology.kubernetes.io/zone"
    assert sorted(nodes["labels"]["topology.kubernetes.io/zone"]["values"]) == ["a", "b", "c"]
    assert sum(nodes["requested"]["cpu"]) == 4000
    assert sum(nodes["requested"]["pods"]) == 2
    assert nodes["allocatable"]["cpu"] == [8000] * 3


def test_the_schema_is_served_and_documents_decode_into_their_types(api: Api) -> None:
    assert api.ok("/stowplan/v1/schema") == json.loads(schema_text())
    for path, kind in (
        ("", Overview),
        ("/nodes", NodesDocument),
        ("/nodes/node-0", NodeDocument),
        ("/pods", PodsDocument),
        ("/pods/shop/big", PodDocument),
        ("/pods/shop/big/map", PodMap),
        ("/podgroups", GroupsDocument),
        ("/pending", PendingDocument),
        ("/queue", QueueDocument),
        ("/decisions", DecisionsDocument),
        ("/costs", CostsDocument),
    ):
        answer = api.ok(f"/stowplan/v1{path}")
        assert msgspec.convert(answer, kind).document() == answer, path


def test_terminal_and_api_say_the_same_of_a_pod(api: Api) -> None:
    answer = api.ok("/stowplan/v1/pods/shop/big")
    text = " ".join(render(msgspec.convert(answer, PodDocument)).split())
    assert all(sentence in text for sentence in (answer["headline"], *answer["situation"], *answer["awaits"]))


def test_a_waiting_pod_is_explained_with_its_place_in_the_queue(api: Api) -> None:
    found = api.ok("/stowplan/v1/pods/shop/big")
    assert (found["state"], found["source"]) == ("pending", "the running scheduler")
    assert found["queue"]["place"] == "unschedulable"
    assert [line["reason"] for line in found["funnel"]] == ["Insufficient cpu"]
    assert {miss["missing"] for miss in found["nearMisses"]} == {"12 cpu short", "14 cpu short"}
    assert [change["kind"] for change in found["changes"]] == ["requests"]
    assert found["wakes"]
    assert found["attempts"][0]["outcome"] == "unschedulable"


def test_the_map_of_a_pod_follows_the_order_of_the_nodes(api: Api) -> None:
    found = api.ok("/stowplan/v1/pods/shop/big/map")
    assert found["nodes"] == [0, 0, 0]
    assert found["legend"][0]["plugin"] == "NodeResourcesFit"


def test_a_node_says_what_is_on_it_and_whom_it_turned_away(api: Api) -> None:
    names = api.ok("/stowplan/v1/nodes")["names"]
    found = [api.ok(f"/stowplan/v1/nodes/{name}") for name in names]
    assert sum(len(one["pods"]) for one in found) == 2
    assert found[0]["turnedAway"][0]["pod"] == "shop/big"
    assert found[0]["couldTake"][0]["more"] in (2, 3, 4)


def test_queue_decisions_and_causes(api: Api) -> None:
    lanes = {lane["name"]: lane for lane in api.ok("/stowplan/v1/queue")["lanes"]}
    assert lanes["unschedulable"]["total"] == 1
    assert lanes["unschedulable"]["pods"][0]["pod"] == "shop/big"
    outcomes = [item["outcome"] for item in api.ok("/stowplan/v1/decisions")["items"]]
    assert sorted(outcomes) == ["bound", "bound", "unschedulable"]
    [cause] = api.ok("/stowplan/v1/pending")["causes"]
    assert (cause["name"], cause["count"]) == ("shop/big", 1)
    assert api.ok("/stowplan/v1/config")["kind"] == "KubeSchedulerConfiguration"


def test_pods_are_found_by_name_label_and_node(api: Api) -> None:
    assert api.ok("/stowplan/v1/pods")["total"] == 3
    assert api.ok("/stowplan/v1/pods?search=big")["items"][0]["cause"].startswith("0/3 nodes are available")
    assert api.ok("/stowplan/v1/pods?search=app%3Dweb")["total"] == 2
    assert api.ok("/stowplan/v1/pods?state=waiting")["total"] == 1
    assert api.ok("/stowplan/v1/pods?namespace=other")["total"] == 0


def test_who_may_not_read_pods_sees_none_anywhere(api: Api) -> None:
    looker = "system:serviceaccount:default:looker"
    for path in (
        "/nodes",
        "/nodes/node-0",
        "/pods/shop/big",
        "/pods/shop/nobody",
        "/pods/shop/big/map",
        "/config",
    ):
        code, document = api.get(f"/stowplan/v1{path}", looker)
        assert (code, document["reason"]) == (403, "Forbidden"), path
    for path in ("", "/pods", "/pending", "/queue", "/decisions"):
        code, document = api.get(f"/stowplan/v1{path}", looker)
        assert code == 200
        assert "big" not in json.dumps(document), path
        assert "web" not in json.dumps(document).replace('"web"', ""), path


def test_without_the_right_to_the_path_nothing_is_told(api: Api) -> None:
    code, document = api.get("/stowplan/v1", "somebody")
    assert (code, document["reason"]) == (403, "Forbidden")


PARTS = ["nodes", "pods", "shop", "big", "map", "x", "%00", "..", "%2F", "é"]
QUERIES = ["", "?limit=x", "?limit=-1", "?limit=99999999999999", "?state=%FF", "?search=%00%FF"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.lists(
        st.sampled_from(["nodes", "pods", "shop", "big", "map", "x", "%00", "..", "%2F", "é"]), max_size=5
    ),
    query=st.sampled_from(
        ["", "?limit=x", "?limit=-1", "?limit=99999999999999", "?state=%FF", "?search=%00%FF"]
    ),
)
def test_odd_paths_are_never_a_server_error(api: Api, path: list[str], query: str) -> None:
    code, _ = api.get("/stowplan/v1/" + "/".join(quote(part, safe="%") for part in path) + query)
    assert code in (200, 400, 404)
