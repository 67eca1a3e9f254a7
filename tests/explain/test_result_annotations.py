"""`--annotate-results`: pods get the annotations of kube-scheduler-simulator once they are bound."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from explain.test_inspection import Api
from localcluster.up.clusters import up
from stowplan.scheduler.instruments.annotations import LIMIT, PREFIX, Results
from waiting import PATIENCE

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "annotations": {"example.com/own": "kept"}},
    "spec": {
        "nodeSelector": {"topology.kubernetes.io/zone": "a"},
        "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}],
    },
}


def annotations_of(api: Api) -> dict[str, str]:
    """The annotations of the pod; those of results come after it is bound."""
    end = time.monotonic() + PATIENCE
    while True:
        _, pod = api.get("/api/v1/namespaces/default/pods/web")
        found: dict[str, str] = (pod.get("metadata") or {}).get("annotations") or {}
        if PREFIX + "selected-node" in found:
            return found
        assert time.monotonic() < end, pod
        time.sleep(0.1)


def test_a_bound_pod_has_its_results(tmp_path: Path) -> None:
    manifest = tmp_path / "pod.yaml"
    manifest.write_text(yaml.safe_dump(POD))
    with up(tmp_path, "--annotate-results", "--load", str(manifest), "--nodes", "6") as running:
        found = annotations_of(Api(running))
    own = {key.removeprefix(PREFIX): value for key, value in found.items() if key.startswith(PREFIX)}
    assert found["example.com/own"] == "kept"
    assert own["selected-node"] in ("node-0", "node-3")
    filters = json.loads(own["filter-result"])
    assert filters["node-0"] == filters["node-3"]
    assert set(filters["node-0"].values()) == {"passed"}
    assert filters["node-1"]["NodeAffinity"] == "node(s) didn't match Pod's node affinity/selector"
    assert len(filters) == 6
    scores, final = json.loads(own["score-result"]), json.loads(own["finalscore-result"])
    assert set(scores) == set(final) == {"node-0", "node-3"}
    assert final["node-0"]["NodeResourcesFit"] == scores["node-0"]["NodeResourcesFit"]
    assert int(final["node-0"]["TaintToleration"]) == 300
    assert json.loads(own["bind-result"]) == {"DefaultBinder": "success"}
    assert json.loads(own["prefilter-result-status"])["NodeResourcesFit"] == "success"
    assert json.loads(own["reserve-result"])["VolumeBinding"] == "success"
    history = json.loads(own["result-history"])
    assert history == [{key: value for key, value in found.items() if key in history[0]}]
    assert PREFIX + "filter-result" in history[0]


def results(nodes: int) -> Results:
    by_node = {f"node-{number:05}": {"NodeResourcesFit": "passed" * 10} for number in range(nodes)}
    return Results("node-00000", {"bind-result": {"DefaultBinder": "success"}}, by_node, by_node, by_node)


@pytest.mark.parametrize(("nodes", "room"), [(1000, LIMIT), (1000, 20_000), (1000, 3000), (10, 100)])
def test_results_are_trimmed_to_what_an_object_may_have(nodes: int, room: int) -> None:
    found: dict[str, Any] = results(nodes).annotations(room)
    assert sum(len(key) + len(value.encode()) for key, value in found.items()) <= max(room, 100)
    assert found[PREFIX + "selected-node"] == "node-00000"
    if room >= 3000:
        kept = json.loads(found[PREFIX + "filter-result"])
        assert "node-00000" in kept
        assert set(json.loads(found[PREFIX + "score-result"])) == set(kept)
