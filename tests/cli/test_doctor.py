"""`stowplan doctor` against a real API server over HTTP: what it finds, for whom, and how it exits."""

import asyncio
import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from localcluster.apiserver.served import Served, serving
from stowplan.api import catalogue as c
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.meta import micro_timestamp
from stowplan.api.releases import Version, release
from stowplan.cli.main import stowplan
from stowplan.client.http import HttpClient
from stowplan.config.types import SchedulerConfig
from stowplan.localcluster.apiserver import responses
from stowplan.server.preflight import Preflight, watched_kinds

RBAC = "/apis/rbac.authorization.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    """A server where `scheduler` has kube-scheduler's rights, `reader` may read, `nobody` has no rights."""
    with serving() as served:
        for name, roles in {
            "scheduler": ("system:kube-scheduler", "system:volume-scheduler"),
            "reader": ("stowplan-view",),
        }.items():
            for role in roles:
                answer = served.ask("POST", f"{RBAC}/clusterrolebindings", bound(name, role))
                assert answer.code == 201, answer.body
        rules = [
            {
                "apiGroups": [kind.served.group],
                "resources": [kind.served.plural],
                "verbs": ["get", "list", "watch"],
            }
            for kind in watched_kinds(DEFAULT_GATES)
        ]
        view = {"metadata": {"name": "stowplan-view"}, "rules": rules}
        assert served.ask("POST", f"{RBAC}/clusterroles", view).code == 201
        yield served


def bound(name: str, role: str, kind: str = "ClusterRole") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{name}-{role}".replace(":", "-").replace(" ", "-")},
        "roleRef": {"apiGroup": c.RBAC, "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": c.RBAC, "name": name}],
    }


def examined(api: Served, folder: Path, *options: str, who: str = "", token: str = "") -> Result:
    """Output of the doctor for a user."""
    api_as(api, folder / "kubeconfig", who, token)
    return CliRunner().invoke(stowplan, ["doctor", "--kubeconfig", str(folder / "kubeconfig"), *options])


def api_as(api: Served, file: Path, who: str = "", token: str = "") -> None:
    """A kubeconfig of a user."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": api.server.url}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "users": [
            {"name": "x", "user": {"token": token or api.server.token, **({"as": who} if who else {})}}
        ],
    }
    file.write_text(yaml.safe_dump(config))


def configured(folder: Path, lease: str, **more: Any) -> Path:
    """A configuration with a separate lease, for the kubeconfig of `examined`."""
    more = {"clientConnection": {"kubeconfig": str(folder / "kubeconfig")}} | more
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump({**kind, "leaderElection": {"resourceName": lease}, **more}))
    return file


def findings(result: Result, check: str) -> list[dict[str, Any]]:
    document = json.loads(result.stdout)
    return [one for one in document["findings"] if one["check"] == check]


def test_somebody_with_all_rights_is_told_that_it_would_work(api: Served, tmp_path: Path) -> None:
    version = Version.parse(api.ask("GET", "/version").body["gitVersion"])
    result = examined(api, tmp_path, "--emulated-version", str(version))
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("stowplan run would work here.\n")
    assert "failed" not in result.stdout
    assert "warning" not in result.stdout


def test_the_rights_of_kube_scheduler_are_enough_to_schedule(api: Served, tmp_path: Path) -> None:
    """The roles of a real cluster, but for the two that are bound in kube-system."""
    result = examined(api, tmp_path, "-o", "json", who="scheduler")
    assert result.exit_code == 0, result.output
    assert [one["message"] for one in findings(result, "identity")] == ["scheduler"]
    denied = {one["resource"] for one in findings(result, "rights") if one["level"] != "ok"}
    assert denied == {"configmaps"}


def test_somebody_who_may_only_read_is_told_what_would_not_work(api: Served, tmp_path: Path) -> None:
    result = examined(api, tmp_path, who="reader")
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    at = lines.index("failed   rights    may not create pods/binding")
    assert lines[at + 1].strip() == "→ no pod is scheduled"
    at = lines.index("warning  rights    may not delete pods")
    assert lines[at + 1].strip() == "→ preemption evicts nothing"
    assert "it never becomes leader" in result.stdout
    assert "stowplan run would not work here." in lines


def test_rights_are_told_by_what_they_are_for_the_worst_first(api: Served, tmp_path: Path) -> None:
    lines = examined(api, tmp_path, who="nobody").stdout.splitlines()
    denied = [line for line in lines if " rights " in line]
    assert denied[0] == "failed   rights    may not list or watch pods, nodes"
    levels = [line.split()[0] for line in denied]
    assert levels == sorted(levels)
    assert any(
        line.endswith("may not list or watch persistentvolumes, persistentvolumeclaims") for line in denied
    )


def test_what_it_says_to_do_gives_the_rights(api: Served, tmp_path: Path) -> None:
    def advice(who: str) -> list[str]:
        lines = examined(api, tmp_path, who=who).stdout.splitlines()
        return [line.strip() for line in lines if line.startswith("  kubectl ")]

    assert advice("scheduler") == []
    account = advice("system:serviceaccount:default:mine")
    assert all(line.endswith(" --serviceaccount=default:mine") for line in account)
    assert len(account) == 3
    for line in advice("somebody else"):
        words = shlex.split(line)
        options = dict(word.removeprefix("--").split("=") for word in words if word.startswith("--"))
        kind, name = ("ClusterRole", "clusterrole") if "clusterrole" in options else ("Role", "role")
        binding = bound(options["user"], options[name], kind)
        where = "" if kind == "ClusterRole" else f"/namespaces/{words[words.index('-n') + 1]}"
        assert api.ask("POST", f"{RBAC}{where}/{name}bindings", binding).code == 201, line
    result = examined(api, tmp_path, "-o", "json", who="somebody else")
    assert result.exit_code == 0, result.output
    assert [one["level"] for one in findings(result, "rights")] == ["ok"]


def test_an_account_without_rights_is_told_that_it_sees_nothing(api: Served, tmp_path: Path) -> None:
    result = examined(api, tmp_path, "-o", "json", who="nobody")
    assert (result.exit_code, json.loads(result.stdout)["level"]) == (1, "failed")
    failed = {one["resource"] for one in findings(result, "rights") if one["level"] == "failed"}
    assert failed == {"pods", "nodes", "pods/binding", "leases"}
    [lease] = findings(result, "lease")
    assert lease["level"] == "warning"
    assert lease["effect"] == "who schedules is not known"


def test_nothing_is_written(api: Served, tmp_path: Path) -> None:
    def version() -> str:
        return str(api.ask("GET", "/api/v1/pods").body["metadata"]["resourceVersion"])

    before = version()
    examined(api, tmp_path)
    assert version() == before


def test_a_server_that_is_not_there_or_refuses_is_another_exit_code(api: Served, tmp_path: Path) -> None:
    refused = examined(api, tmp_path, token="wrong")
    assert refused.exit_code == 2, refused.output
    assert refused.stderr.startswith("Error: the API server at 127.0.0.1:")
    assert len(refused.stderr.splitlines()) == 1
    arguments = ["doctor", "--kubeconfig", str(tmp_path / "missing")]
    nowhere = CliRunner().invoke(stowplan, arguments)
    assert (nowhere.exit_code, nowhere.stderr) == (
        2,
        f"Error: {tmp_path / 'missing'}: no such file or directory\n",
    )


def test_what_configuration_says_is_looked_at(api: Served, tmp_path: Path) -> None:
    config = configured(tmp_path, "mine", profiles=[{"schedulerName": "mine"}])
    result = examined(api, tmp_path, "-o", "json", "--config", str(config))
    assert result.exit_code == 0, result.output
    [lease], [pending] = findings(result, "lease"), findings(result, "pending")
    assert lease["message"] == "kube-system/mine does not exist: nobody schedules by it"
    assert pending["profiles"] == ["mine"]


def test_a_configuration_with_an_unknown_plugin_would_not_work(api: Served, tmp_path: Path) -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "NoSuch"}]}}
    config = configured(tmp_path, "mine", profiles=[{"plugins": plugins}])
    result = examined(api, tmp_path, "-o", "json", "--config", str(config))
    assert result.exit_code == 1, result.output
    [found] = findings(result, "config")
    assert (found["level"], found["effect"]) == ("failed", "stowplan run ends at its start")
    assert "NoSuch" in found["message"]


def test_a_kubeconfig_that_run_would_ignore_is_told(
    api: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = configured(tmp_path, "mine", clientConnection={})
    result = examined(api, tmp_path, "-o", "json", "--config", str(config))
    assert result.exit_code == 1, result.output
    [found] = findings(result, "kubeconfig")
    assert found["level"] == "failed"
    assert found["message"].endswith("uses the in-cluster configuration, which does not exist here")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    [found] = findings(examined(api, tmp_path, "-o", "json", "--config", str(config)), "kubeconfig")
    assert found["level"] == "warning"
    other = configured(tmp_path, "mine", clientConnection={"kubeconfig": "/etc/other"})
    [found] = findings(examined(api, tmp_path, "-o", "json", "--config", str(other)), "kubeconfig")
    assert (found["level"], found["message"].endswith("uses /etc/other")) == ("warning", True)


def test_the_kubeconfig_of_the_configuration_is_used(api: Served, tmp_path: Path) -> None:
    api_as(api, tmp_path / "kubeconfig")
    config = configured(tmp_path, "mine")
    result = CliRunner().invoke(stowplan, ["doctor", "-o", "json", "--config", str(config)])
    assert result.exit_code == 0, result.output
    assert not findings(result, "kubeconfig")


def test_a_forbidden_list_is_not_ok(api: Served, tmp_path: Path) -> None:
    """Events are for people, so they are unknown; without pods nothing is scheduled."""
    result = examined(api, tmp_path, "-o", "json", who="scheduler")
    [bound_by] = findings(result, "bound")
    assert bound_by["level"] == "unknown"
    assert json.loads(result.stdout)["level"] == "warning"
    [waiting] = findings(examined(api, tmp_path, "-o", "json", who="nobody"), "pending")
    assert waiting["level"] == "failed"
    [read] = findings(examined(api, tmp_path, "-o", "json", who="nobody"), "objects")
    assert read["level"] == "unknown"


@pytest.mark.parametrize(
    ("name", "ago", "holder", "said"),
    [
        ("fresh", 1.0, "master-1_abc", "is held by master-1_abc, renewed"),
        ("stale", 100.0, "master-1_abc", "was held by master-1_abc, expired"),
        ("free", 1.0, "", "is free"),
    ],
)
def test_the_lease_says_who_schedules(
    api: Served, tmp_path: Path, name: str, ago: float, holder: str, said: str
) -> None:
    spec = {
        "holderIdentity": holder,
        "leaseDurationSeconds": 60,
        "renewTime": micro_timestamp(time.time() - ago),
    }
    if not holder:
        del spec["holderIdentity"]
    answer = api.ask("POST", LEASES, {"metadata": {"name": name}, "spec": spec})
    assert answer.code == 201, answer.body
    config = configured(tmp_path, name)
    result = examined(api, tmp_path, "-o", "json", "--config", str(config))
    [lease] = findings(result, "lease")
    assert f"kube-system/{name} {said}" in lease["message"]


class Told(HttpClient):
    """A client of a server with some clock and version."""

    def __init__(self, time: float | None = None, version: str = "") -> None:
        self._time = time
        self._version = version

    async def server_time(self) -> float | None:
        return self._time

    async def get_path(self, path: str) -> dict[str, Any]:
        assert path == "/version"
        return {"gitVersion": self._version}


@pytest.mark.parametrize(
    ("emulated", "server", "level", "effect"),
    [
        ("1.36", "v1.36.4", "ok", ""),
        ("1.36", "v1.37.0-rc.1+k3s1", "ok", ""),
        ("1.37", "v1.36.4", "warning", "not newer: use --emulated-version 1.36"),
        ("1.36", "v1.38.0", "warning", "not newer: use --emulated-version 1.37"),
        ("1.37", "v1.29.9", "warning", "not newer"),
        ("1.37", "unknown", "warning", ""),
    ],
)
def test_versions_that_do_not_go_together_are_named(
    emulated: str, server: str, level: str, effect: str
) -> None:
    gates = FeatureGates(release=release(emulated))
    found = asyncio.run(Preflight(Told(version=server), SchedulerConfig(), gates).server())
    assert (found.level, found.effect.endswith(effect)) == (level, True), found


@pytest.mark.parametrize(
    ("theirs", "level", "said"),
    [
        (1000.0, "ok", "to a few seconds"),
        (1060.0, "warning", "is 60 s behind the API server"),
        (940.0, "warning", "is 60 s ahead of the API server"),
        (None, "warning", "does not tell its time"),
    ],
)
def test_clocks_that_differ_are_named(theirs: float | None, level: str, said: str) -> None:
    preflight = Preflight(Told(theirs), SchedulerConfig(), DEFAULT_GATES, now=lambda: 1000.5)
    found = asyncio.run(preflight.clock())
    assert (found.level, said in found.message) == (level, True)


def test_objects_that_a_scheduler_cannot_read_are_named(
    api: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = responses.encode
    poison = b'"annotations":{"poison":' + b"[" * 2_000 + b"]" * 2_000 + b"}"
    place = b'"annotations":{"poison":"here"}'
    namespace = {"metadata": {"name": "poisoned", "annotations": {"poison": "here"}}}
    assert api.ask("POST", "/api/v1/namespaces", namespace).code == 201
    with monkeypatch.context() as patched:
        patched.setattr(responses, "encode", lambda value: encode(value).replace(place, poison))
        result = examined(api, tmp_path, "-o", "json")
    assert result.exit_code == 0, result.output
    (found,) = findings(result, "objects")
    assert (found["level"], found["resource"], found["object"]) == ("warning", "namespaces", "poisoned")
    assert "$.metadata.annotations" in found["message"]
    assert findings(examined(api, tmp_path, "-o", "json"), "objects")[0]["message"].startswith("all ")
