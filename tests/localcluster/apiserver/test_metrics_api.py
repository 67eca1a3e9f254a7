"""metrics.k8s.io: pretend usage of pods and nodes, as `kubectl top` asks for it."""

from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.apiserver.served import Served, serving
from stowplan.api import catalogue as c
from stowplan.localcluster.objects.usage import PretendUsage

BASE = "/apis/metrics.k8s.io/v1beta1"


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving(usage=PretendUsage(0.5)) as served:
        served.run(
            lambda store: [store.create(c.NODES, {"metadata": {"name": name}}) for name in ("n1", "n2")]
        )
        make_pod(served, "busy", {"pretend.stowplan.io/cpu-usage": "300m"})
        make_pod(served, "plain", {})
        make_pod(served, "waiting", {}, phase="Pending")
        yield served


def make_pod(served: Served, name: str, annotations: dict[str, str], phase: str = "Running") -> None:
    requests = {"cpu": "100m", "memory": "64Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    body: dict[str, Any] = {
        "metadata": {"name": name, "annotations": annotations, "labels": {"app": name}},
        "spec": {"nodeName": "n1", "containers": [container]},
    }

    def create(store: Any) -> None:
        made = store.create(c.PODS, body, "default")
        store.update(c.PODS, {**made, "status": {"phase": phase}}, subresource="status")

    served.run(create)


def usage(item: Any) -> Any:
    return item["metadata"]["name"], item["containers"][0]["usage"]


def test_running_pods_have_usage_and_can_be_selected(api: Served) -> None:
    listed = api.ask("GET", f"{BASE}/namespaces/default/pods").body
    assert listed["kind"] == "PodMetricsList"
    assert [usage(item) for item in listed["items"]] == [
        ("busy", {"cpu": "300m", "memory": "32Mi"}),
        ("plain", {"cpu": "50m", "memory": "32Mi"}),
    ]
    chosen = api.ask("GET", f"{BASE}/pods?labelSelector=app%3Dbusy").body
    assert [item["metadata"]["name"] for item in chosen["items"]] == ["busy"]
    assert api.ask("GET", f"{BASE}/namespaces/default/pods/busy").body["kind"] == "PodMetrics"


def test_nodes_use_what_their_pods_use(api: Served) -> None:
    listed = api.ask("GET", f"{BASE}/nodes").body
    found = {item["metadata"]["name"]: item["usage"] for item in listed["items"]}
    assert found == {"n1": {"cpu": "350m", "memory": "64Mi"}, "n2": {"cpu": "0", "memory": "0"}}
    assert api.ask("GET", f"{BASE}/nodes/n1").body["usage"]["cpu"] == "350m"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/nodes/none", 404),
        ("GET", "/namespaces/default/pods/waiting", 404),
        ("POST", "/nodes", 405),
        ("DELETE", "/namespaces/default/pods/busy", 405),
        ("GET", "/nodes?watch=1", 405),
        ("GET", "/nodes?labelSelector=((", 400),
        ("GET", "/namespaces/default/pods/busy/log", 404),
    ],
)
def test_what_metrics_do_not_do_is_refused(api: Served, method: str, path: str, code: int) -> None:
    assert api.ask(method, BASE + path, {} if method == "POST" else None).code == code


def test_metrics_are_in_discovery_only_where_they_are_served(api: Served) -> None:
    groups = {group["name"] for group in api.ask("GET", "/apis").body["groups"]}
    assert "metrics.k8s.io" in groups
    listed = api.ask("GET", BASE).body["resources"]
    assert [(one["name"], one["kind"], one["verbs"]) for one in listed] == [
        ("nodes", "NodeMetrics", ["get", "list"]),
        ("pods", "PodMetrics", ["get", "list"]),
    ]
    with serving() as without:
        assert without.ask("GET", f"{BASE}/nodes").code == 404
