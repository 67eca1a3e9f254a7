"""Questions by POST equal the commands on the same cluster, and so does the command line that they name."""

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from effort import LONG
from simulate.embedded import Embedded, embedded
from simulate.random_clusters import RandomCluster
from stowplan.api.gates.feature_gates import gates_with
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.config import load
from stowplan.explain.document.tried import TryLimits
from stowplan.explain.web import EVERYTHING, Viewer
from stowplan.explain.web.questions import JSON, YAML, Asked
from stowplan.localcluster.kubelets import NodeShape
from stowplan.scheduler import Settings
from stowplan.simulate.questions.answers import answer
from stowplan.simulate.questions.host import facts_for

SEEDS = range(40 * LONG) if LONG else range(4)
_FILE = re.compile(r"cat > (\S+) <<'(EOF+)'\n(.*?)\n\2\n", re.DOTALL)

POD = """
apiVersion: v1
kind: Pod
metadata: {name: big}
spec:
  containers: [{name: main, image: app, resources: {requests: {cpu: "3"}}}]
"""
WEB: Json = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 6,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}]
            },
        },
    },
}


def ask(
    world: Embedded, question: str, body: Any, viewer: Viewer = EVERYTHING, media: str = JSON
) -> tuple[int, Json]:
    """Answer to a question, computed in this process."""
    facts = world.run(facts_for(world.cluster.routes.inspection, viewer, TryLimits()))
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    head, _, document = answer(facts, Asked(question, data, media)).partition(b"\n")
    found: Json = msgspec.json.decode(document)
    return msgspec.json.decode(head)["code"], found


def typed(world: Embedded, command: str, folder: Path) -> Json:
    """What a command line prints with `-o json`, its files written as a shell would."""
    for name, _, text in _FILE.findall(command):
        (folder / name).write_text(f"{text}\n")
    words = shlex.split(_FILE.sub("", command))
    assert words[0] == "stowplan"
    options = [str(folder / one) if (folder / one).is_file() else one for one in words[1:]]
    changes = folder / "changes.yaml"
    assert not changes.exists() or "apply" not in changes.read_text() or (folder / "manifests.yaml").exists()
    done = world.command(*options, "-o", "json")
    assert done.exit_code in (0, 1), done.output
    found: Json = msgspec.json.decode(done.stdout)
    return found


def same(one: Json, other: Json) -> bool:
    """True for equal results; only the place that the cluster was read from differs."""
    return {**one, "source": ""} == {**other, "source": ""}


@pytest.fixture(scope="module")
def world() -> Iterator[Embedded]:
    """Three nodes of 4 cpu with six pods of a workload, and one that waits."""
    with embedded(NodeShape(count=3, cpu="4")) as made:
        made.create(WEB)
        made.pass_time(5)
        yield made


STRATEGY = {"default-scheduler": {"weights": {"ImageLocality": 3}}}
WHAT_IFS: list[Json] = [
    {"changes": [{"drain": "node-1"}]},
    {"changes": [{"cordon": "node-0"}, {"scale": {"deployment/web": 9}}]},
    {"changes": [{"addNodes": {"node-0": 2}}, {"drain": "node-1"}]},
    {"changes": [{"addNodes": [{"name": "large", "count": 2, "cpu": 16}]}], "manifests": POD},
    {"changes": [{"drain": "node-0"}, {"uncordon": "node-0"}, {"drain": "node-1"}]},
    {"changes": [{"taint": {"nodes": "node-0", "taints": "gone=:NoExecute"}}]},
    {"changes": [{"label": {"nodes": "node-0", "labels": {"pool": "a", "kubernetes.io/os": None}}}]},
    {"changes": [{"remove": ["node-0", "node-1"]}]},
    {"changes": [{"priority": {"deployment/web": 7}}, {"delete": "deployment/web"}]},
    {"manifests": {**WEB, "metadata": {"name": "more"}}},
]


@pytest.mark.parametrize(
    "body", WHAT_IFS, ids=[" ".join(map(str, one.get("changes", ()))) for one in WHAT_IFS]
)
def test_whatif_is_the_commands_answer(world: Embedded, body: Json, tmp_path: Path) -> None:
    code, found = ask(world, "whatif", body)
    assert code == 200, found
    assert found["result"] == typed(world, found["command"], tmp_path)


@pytest.mark.parametrize(
    "body",
    [
        {"manifests": POD},
        {"manifests": POD, "replicas": 5, "seed": 3},
        {"manifests": POD, "max": True},
        {"manifests": [WEB, yaml.safe_load(POD)], "namespace": "default", "pendingFirst": True},
        {"manifests": POD.replace("spec:", "spec:\n  priority: 1000"), "preempt": True, "replicas": 2},
    ],
    ids=["pod", "replicas", "max", "two", "preempt"],
)
def test_fit_is_the_commands_answer(world: Embedded, body: Json, tmp_path: Path) -> None:
    code, found = ask(world, "fit", body)
    assert code == 200, found
    assert same(found["result"], typed(world, found["command"], tmp_path))


@pytest.mark.parametrize(
    "body",
    [
        {
            "profiles": {
                "default-scheduler": {"weights": {"NodeResourcesFit": 5}, "strategy": "MostAllocated"}
            }
        },
        {"profiles": {"default-scheduler": {"strategy": "RequestedToCapacityRatio"}}},
        {"config": {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}},
    ],
    ids=["weights", "strategy", "config"],
)
def test_compare_is_the_answer_of_whatif_with_another_configuration(
    world: Embedded, body: Json, tmp_path: Path
) -> None:
    code, found = ask(world, "compare", body)
    assert code == 200, found
    assert found["result"] == typed(world, found["command"], tmp_path)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_questions_are_answered_as_by_the_command(seed: int, tmp_path: Path) -> None:
    made = RandomCluster(seed)
    manifests = [one for one in made.workload if one["kind"] != "PodGroup"]
    for one in manifests:
        template = one["spec"].get("template", one)
        template["spec"].pop("schedulingGroup", None)
    with embedded() as world:
        for one in (*made.nodes, *made.surroundings):
            with suppress(ApiError):  # its quotas may refuse a running pod
                world.create(one)
        world.pass_time(5)
        version = world.cluster.store.version
        first, *_, last = (one["metadata"]["name"] for one in made.nodes)
        changes = [{"drain": first}, {"addNodes": {last: 1}}]
        for question, body in (
            ("fit", {"manifests": manifests}),
            ("whatif", {"changes": changes}),
            ("whatif", {"changes": changes, "manifests": manifests}),
        ):
            code, found = ask(world, question, body)
            if code == 400:
                assert found["details"]["causes"][0]["field"] == "manifests"
            else:
                folder = tmp_path / f"{question}-{len(body)}"
                folder.mkdir()
                assert same(found["result"], typed(world, found["command"], folder))
        assert world.cluster.store.version == version, "nothing is written"


def test_explain_says_why_a_pod_would_wait(world: Embedded) -> None:
    code, found = ask(world, "explain", {"manifests": POD.replace('"3"', '"64"')})
    assert code == 200
    [pod] = found["pods"]
    assert pod["document"] == "pod"
    assert pod["state"] == "pending"
    assert found["summary"] == f"{pod['headline']}."
    assert found["command"].endswith("stowplan explain -f manifests.yaml")


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
def test_an_edit_of_the_manifests_makes_the_pod_fit(world: Embedded, kind: str) -> None:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "3"}}}
    spec = {"containers": [container]}
    manifest: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "lost"}, "spec": spec}
    if kind == "Deployment":
        manifest = msgspec.json.decode(msgspec.json.encode(WEB))
        manifest["metadata"]["name"] = "lost"
        manifest["spec"]["template"]["spec"] = spec
    code, found = ask(world, "explain", {"manifests": manifest})
    assert code == 200
    [pod] = found["pods"]
    assert len(found["edits"]) == len(pod["changes"])
    [edit, *_] = [text for text in found["edits"] if text]
    code, found = ask(world, "fit", {"manifests": edit, "replicas": 1})
    assert (code, found["result"]["fits"]) == (200, True), found


def test_nodes_before_and_after_and_a_report_are_given_to_who_asks(world: Embedded) -> None:
    body = {"changes": [{"addNodes": {"node-0": 1}}, {"cordon": "node-1"}], "nodes": True, "report": True}
    code, found = ask(world, "whatif", body)
    assert code == 200
    assert found["before"]["names"] == ["node-0", "node-1", "node-2"]
    assert found["after"]["names"] == ["node-0", "node-1", "node-2", "node-0-copy-0"]
    assert found["after"]["unschedulable"] == [0, 1, 0, 0]
    assert found["report"].startswith("<!doctype html>")
    assert "Content-Security-Policy" in found["report"]


def test_a_body_may_be_yaml(world: Embedded) -> None:
    code, found = ask(world, "whatif", b"changes:\n- drain: node-1\n", media=YAML)
    assert code == 200
    assert found["command"] == "stowplan whatif --drain node-1"


DEEP = b'{"manifests":' + b"[" * 5000 + b"]" * 5000 + b"}"
BOMB = b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%s]\n" % (97 + i, 97 + i, b",".join([b"*%c" % (96 + i)] * 10)) for i in range(1, 10)
)


@pytest.mark.parametrize(
    ("question", "body", "field", "said"),
    [
        ("fit", {}, "manifests", "manifests: required field is missing"),
        ("fit", {"manifests": POD, "replicas": -1}, "replicas", "replicas: expected `int` >= 0"),
        ("fit", {"manifests": POD, "extra": 1}, "extra", "extra: unknown field"),
        ("fit", {"manifests": "a: ["}, "manifests", "manifests: line 2: not YAML or JSON: "),
        (
            "fit",
            {"manifests": POD.replace("name: main", "nam: main")},
            "manifests",
            "manifests: line 6: spec.containers[0].nam: unknown field",
        ),
        (
            "fit",
            {"manifests": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}},
            "manifests",
            "manifests: spec.containers: Required value",
        ),
        (
            "fit",
            {"manifests": "kind: Namespace\napiVersion: v1\nmetadata: {name: x}"},
            "manifests",
            "expected a pod",
        ),
        ("fit", {"manifests": POD, "namespace": "../etc"}, "namespace", "namespace: expected `str` matching"),
        ("fit", b"{", "", "body: not JSON: "),
        ("fit", b"\xff", "", "body: not JSON: "),
        ("fit", DEEP, "", "nested"),
        ("whatif", {"changes": []}, "changes", "expected a change"),
        ("whatif", {"changes": [{}]}, "changes[0]", "expected exactly one of drain, cordon"),
        ("whatif", {"changes": [{"cordon": "nope"}]}, "changes[0]", "changes[0]: no node nope"),
        ("whatif", {"changes": [{"apply": "/etc/passwd"}]}, "changes[0].apply", "names a file"),
        ("whatif", {"changes": [{"addNodes": "/etc/passwd"}]}, "changes[0].addNodes", "names a file"),
        ("whatif", {"changes": [{"config": "/etc/passwd"}]}, "changes[0].config", "names a file"),
        (
            "whatif",
            {"changes": [{"cordon": "node-0"}, {"addNodes": [{"name": "x", "cpu": "many"}]}]},
            "changes[1]",
            "changes[1]: addNodes",
        ),
        (
            "whatif",
            {"changes": [{"scale": {"deployment/no": 1}}]},
            "changes[0]",
            "no pods found in namespace",
        ),
        ("whatif", {"changes": [{"cordon": "node-0"}] * 101}, "changes", "length <= 100"),
        ("compare", {}, "config", "expected either config or profiles"),
        ("compare", {"config": "kind: Pod"}, "config", "config: "),
        ("compare", {"profiles": {"other": {}}}, "profiles.other", "expected one of default-scheduler"),
        (
            "compare",
            {"profiles": {"default-scheduler": {"weights": {"NodeName": 3}}}},
            "profiles.default-scheduler.weights.NodeName",
            "expected one of DynamicResources, ImageLocality, ",
        ),
        ("compare", {"profiles": {"default-scheduler": {"strategy": "Best"}}}, "profiles", "Best"),
        (
            "compare",
            {
                "config": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
                "extenders: [{urlPrefix: 'https://x', tlsConfig: {certFile: /etc/passwd}}]"
            },
            "config",
            "extenders: expected none",
        ),
    ],
)
def test_mistakes_are_one_line_with_their_field(
    world: Embedded, question: str, body: Any, field: str, said: str
) -> None:
    code, found = ask(world, question, body)
    assert code == 400
    assert found["kind"] == "Status"
    assert said in found["message"]
    assert "\n" not in found["message"]
    causes = found.get("details", {}).get("causes", [])
    assert [one["field"] for one in causes] == ([field] if field else [])


def test_aliases_cannot_make_a_body_large(world: Embedded) -> None:
    code, found = ask(world, "fit", BOMB, media=YAML)
    assert code == 400
    assert "aliasing" in found["message"]


# Rights


def viewer(*allowed: tuple[str, str]) -> Viewer:
    async def may_read(resource: str, namespace: str) -> bool:
        return (resource, namespace) in allowed

    return Viewer(may_read)


@pytest.fixture(scope="module")
def shared() -> Iterator[Embedded]:
    """A namespace of somebody else, whose pods fill the nodes, and quotas in both."""
    with embedded(NodeShape(count=2, cpu="4")) as made:
        made.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "theirs"}})
        made.create({**WEB, "metadata": {"name": "web", "namespace": "theirs"}})
        spec = {"hard": {"requests.cpu": "2"}}
        for namespace in ("default", "theirs"):
            metadata = {"name": f"quota-of-{namespace}", "namespace": namespace}
            made.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec})
        made.pass_time(5)
        yield made


def test_pods_of_hidden_namespaces_are_not_named(shared: Embedded) -> None:
    mine = viewer(("pods", "default"), ("nodes", ""))
    body = {"changes": [{"cordon": "node-1"}, {"drain": "node-0"}], "report": True}
    code, whole = ask(shared, "whatif", body)
    assert (code, "theirs/web" in str([*whole["result"]["pending"]])) == (200, True)
    code, found = ask(shared, "whatif", body, mine)
    assert code == 200
    assert "theirs/" not in str(found)
    assert found["summary"] == whole["summary"]


def test_quotas_that_a_viewer_may_not_read_are_not_told(shared: Embedded) -> None:
    code, found = ask(shared, "fit", {"manifests": POD})
    assert code == 200
    assert "quota-of-default" in found["summary"]
    code, found = ask(shared, "fit", {"manifests": POD}, viewer(("pods", "default"), ("nodes", "")))
    assert code == 200
    assert "quota-of" not in str(found)
    assert any(note.startswith("resourcequotas could not be read") for note in found["notes"])


def test_the_namespaces_of_an_answer_are_named_for_the_check_of_rights(shared: Embedded) -> None:
    inspection = shared.cluster.routes.inspection
    facts = shared.run(facts_for(inspection, EVERYTHING, TryLimits()))
    for body in (
        {"changes": [{"scale": {"deployment/web": 1}}], "namespace": "theirs"},
        {"changes": [{"scale": {"deployment/none": 1}}], "namespace": "theirs"},
    ):
        head = answer(facts, Asked("whatif", msgspec.json.encode(body), JSON)).partition(b"\n")[0]
        assert msgspec.json.decode(head)["namespaces"] == ["theirs"]
    manifest = POD.replace("{name: big}", "{name: big, namespace: theirs}")
    data = msgspec.json.encode({"manifests": manifest})
    head = answer(facts, Asked("explain", data, JSON)).partition(b"\n")[0]
    assert msgspec.json.decode(head)["namespaces"] == ["theirs"]


def test_the_command_has_the_configuration_of_the_scheduler_and_its_gates(tmp_path: Path) -> None:
    text = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 20, burst: 30}
profiles:
- schedulerName: default-scheduler
  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]
"""
    gates = gates_with(["GenericWorkload"])
    with embedded(NodeShape(count=3, cpu="4"), settings=Settings.of(load(text, gates))) as packed:
        packed.create(WEB)
        packed.pass_time(5)
        for question, body in (("whatif", WHAT_IFS[0]), ("compare", {"profiles": STRATEGY})):
            code, found = ask(packed, question, body)
            assert code == 200, found
            assert "type: MostAllocated" in found["command"]
            assert "--feature-gates GenericWorkload=true" in found["command"]
            assert "qps" not in found["command"]
            assert found["result"] == typed(packed, found["command"], tmp_path)
