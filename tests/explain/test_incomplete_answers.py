"""Answers say what they did not look at: in their first lines, in JSON, and with --strict by exit code."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from scheduler.live_scheduler import node, pod
from stowplan.api.catalogue import (
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from stowplan.api.status import ApiError
from stowplan.cli.explain import offline
from stowplan.cli.explain.explain import Configuration, Targets
from stowplan.cli.main import stowplan
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock

STRICT = 3
KIND = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
NODE = {"apiVersion": "v1", "kind": "Node", **node("n"), "spec": {}}
WEB = {"apiVersion": "v1", "kind": "Pod", **pod("web", cpu="40")}
EXTENDER = {"urlPrefix": "http://127.0.0.1:1/", "filterVerb": "filter"}


def written(folder: Path, *items: Mapping[str, Any]) -> str:
    path = folder / "dump.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": list(items)}))
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(stowplan, list(arguments))


def test_an_empty_dump_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    result = run("pending", "--from", str(empty))
    assert result.exit_code == 1
    assert "no objects: expected what `kubectl get" in result.output


def test_a_dump_without_pods_is_not_one_in_which_no_pod_waits(tmp_path: Path) -> None:
    dump = written(tmp_path, NODE)
    result = run("pending", "--from", dump, "--strict")
    assert result.stdout.splitlines()[0] == "No waiting pod is known: the dump has no pods"
    assert result.exit_code == STRICT
    assert run("pending", "--from", dump).exit_code == 0


def test_a_dump_of_pods_alone_explains_no_placement(tmp_path: Path) -> None:
    dump = written(tmp_path, WEB)
    missing = "the dump has no nodes: placement cannot be explained"
    result = run("explain", "--from", dump, "-n", "d", "web", "--strict")
    assert result.stdout.splitlines()[:2] == [f"d/web is pending: {missing}", f"incomplete: {missing}"]
    assert result.exit_code == STRICT
    found = json.loads(run("pending", "--from", dump, "-o", "json").stdout)
    assert found["incomplete"] == [missing]
    assert found["causes"][0]["reason"] == missing


def test_extenders_are_not_called_and_the_answer_says_so(tmp_path: Path) -> None:
    dump = written(tmp_path, NODE, WEB)
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump({**KIND, "extenders": [EXTENDER]}))
    said = "extender http://127.0.0.1:1/ is not called: it may reject nodes"
    result = run("explain", "--from", dump, "--config", str(config), "-n", "d", "web", "--strict")
    assert result.stdout.splitlines()[1] == f"incomplete: {said}"
    assert result.exit_code == STRICT
    result = run("explain", "--from", dump, "-n", "d", "web", "--strict")
    assert result.exit_code == 0
    assert "incomplete" not in result.stdout


def test_an_extender_of_a_resource_matters_only_to_pods_that_ask_for_it(tmp_path: Path) -> None:
    asks = {"containers": [{"name": "main", "image": "app", "resources": {"limits": {"e.com/card": "1"}}}]}
    other = {**WEB, "metadata": {"name": "card", "namespace": "d", "uid": "card"}, "spec": asks}
    dump = written(tmp_path, NODE, WEB, other)
    config = tmp_path / "config.yaml"
    managed = {**EXTENDER, "managedResources": [{"name": "e.com/card"}]}
    config.write_text(yaml.safe_dump({**KIND, "extenders": [managed]}))
    arguments = ("--from", dump, "--config", str(config), "-n", "d", "-o", "json")
    web, card = json.loads(run("explain", *arguments, "web", "card").stdout)["items"]
    assert (len(web["incomplete"]), len(card["incomplete"])) == (0, 1)


@pytest.mark.parametrize(("claims", "lines"), [((), ("the dump has no persistentvolumeclaims",)), ((1,), ())])
def test_a_claim_that_was_not_dumped_is_not_one_that_does_not_exist(
    tmp_path: Path, claims: tuple[int, ...], lines: tuple[str, ...]
) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    wants = {**WEB, "spec": {**WEB["spec"], "volumes": [volume]}}
    some = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"c{one}", "namespace": "d"},
        }
        for one in claims
    ]
    found = json.loads(
        run("explain", "--from", written(tmp_path, NODE, wants, *some), "-n", "d", "web", "-o", "json").stdout
    )
    assert tuple(line for line in found["incomplete"] if "claims" in line) == lines


def test_a_plugin_that_is_not_installed_is_left_out_and_the_answer_says_so(tmp_path: Path) -> None:
    dump = written(tmp_path, NODE, WEB)
    config = tmp_path / "config.yaml"
    licence = {"multiPoint": {"enabled": [{"name": "LicenseAware"}]}}
    profiles = [
        {
            "schedulerName": "default-scheduler",
            "plugins": licence,
            "pluginConfig": [{"name": "LicenseAware", "args": {"seats": 3}}],
        },
        {"schedulerName": "other"},
    ]
    config.write_text(yaml.safe_dump({**KIND, "profiles": profiles}))
    said = "plugin LicenseAware is not installed: evaluated without it"
    arguments = ("--from", dump, "--config", str(config), "--strict")
    result = run("explain", *arguments, "-n", "d", "web")
    assert result.stdout.splitlines()[1] == f"incomplete: {said}"
    assert result.exit_code == STRICT
    assert run("pending", *arguments).exit_code == STRICT
    of_other = {**WEB, "spec": {**WEB["spec"], "schedulerName": "other"}}
    written(tmp_path, NODE, of_other)
    assert run("explain", *arguments, "-n", "d", "web").exit_code == 0


class OneNamespace(InProcessClient):
    """The rights of somebody who may read one namespace, and nothing of the cluster."""

    def __init__(self, store: Store, *allowed: Resource) -> None:
        super().__init__(store)
        self._allowed = allowed

    async def list(self, resource: Resource, *arguments: Any, namespace: str = "", **options: Any) -> Any:
        if namespace != "d" and resource not in self._allowed:
            raise ApiError(403, "Forbidden", f"{resource.plural} is forbidden")
        return await super().list(resource, *arguments, namespace=namespace, **options)


def store_of(*pods: Mapping[str, Any]) -> Store:
    store = Store(RealClock(), Random(1))
    store.create(NAMESPACES, {"metadata": {"name": "d"}})
    store.create(NODES, node("n"))
    for one in pods:
        store.create(PODS, dict(one))
    return store


def explained(client: Any, *targets: str, manifests: tuple[Path, ...] = ()) -> Any:
    configuration, wanted = Configuration(None, None, ()), Targets(targets, "d", "", manifests)
    found, _ = asyncio.run(offline.explained(client, "a test", configuration, wanted, "d"))
    return found[0]


def test_somebody_who_may_read_one_namespace_gets_an_answer_with_what_is_missing() -> None:
    store = store_of(pod("web", cpu="40"))
    found = explained(OneNamespace(store), "pod/web")
    missing = "nodes could not be read: placement cannot be explained"
    assert found.headline == f"d/web is pending: {missing}"
    assert found.incomplete[0] == missing
    found = explained(OneNamespace(store, NODES), "pod/web")
    assert found.headline.startswith("d/web is pending: larger than any node")
    said = "pods of other namespaces could not be read: nodes have less room than is assumed"
    assert said in found.incomplete


def test_pending_says_that_only_one_namespace_was_read() -> None:
    client: Any = OneNamespace(store_of(pod("web", cpu="40")), NODES)
    found, _ = asyncio.run(
        offline.causes_of_cluster(client, "a test", Configuration(None, None, ()), "", "d")
    )
    assert found.headline == "1 pod waits on 1 cause"
    said = "pods of other namespaces could not be read: nodes have less room than is assumed"
    assert said in found.incomplete


def test_no_pod_waits_is_said_with_what_was_not_read() -> None:
    class NoEvents(InProcessClient):
        async def list(self, resource: Resource, *arguments: Any, **options: Any) -> Any:
            if resource is EVENTS:
                raise ApiError(403, "Forbidden", "events is forbidden")
            return await super().list(resource, *arguments, **options)

    client: Any = NoEvents(store_of())
    found, _ = asyncio.run(offline.causes_of_cluster(client, "a test", Configuration(None, None, ()), ""))
    missing = "pods that cannot be created: events could not be read: events is forbidden"
    assert found.incomplete == (missing,)
    assert found.headline == f"No waiting pod is known: {missing}"


WEBHOOK = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


@pytest.mark.parametrize(
    ("changes", "is_called"),
    [
        ({}, True),
        ({"rules": [{**WEBHOOK, "resources": ["services"]}]}, False),
        ({"rules": [{**WEBHOOK, "operations": ["UPDATE"]}]}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, False),
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "db"}}}, False),
    ],
)
def test_webhooks_that_a_new_pod_would_pass_are_named(
    tmp_path: Path, changes: dict[str, Any], is_called: bool
) -> None:
    store = store_of()
    webhook = {"name": "policy.example.com", "rules": [WEBHOOK], **changes}
    store.create(VALIDATING_WEBHOOK_CONFIGURATIONS, {"metadata": {"name": "w"}, "webhooks": [webhook]})
    manifest = tmp_path / "pod.yaml"
    labelled = {**WEB, "metadata": {"name": "web", "labels": {"app": "web"}}}
    manifest.write_text(yaml.safe_dump(labelled))
    found = explained(InProcessClient(store), manifests=(manifest,))
    said = "webhook policy.example.com is not called: it may refuse the pod"
    assert (said in found.incomplete) == is_called
