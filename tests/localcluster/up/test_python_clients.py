"""Frameworks that others wrote, on a whole cluster: kr8s as a script would use it, kopf as an operator."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lazily import Lazily
from localcluster.up.clusters import up
from waiting import until

kr8s = Lazily("kr8s")
objects = Lazily("kr8s.objects")
official = Lazily("kubernetes.client")
config = Lazily("kubernetes.config")

GREETINGS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "greetings.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "greetings", "singular": "greeting", "kind": "Greeting"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"name": {"type": "string"}}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with up(tmp_path_factory.mktemp("cluster")) as running:
        yield running.kubeconfig


def deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
            },
        },
    }


def test_kr8s_deploys_waits_scales_and_reads_logs(kubeconfig: Path) -> None:
    api = kr8s.api(kubeconfig=str(kubeconfig))
    assert len(list(objects.Node.list(api=api))) == 3
    web = objects.Deployment(deployment("web", 2), api=api)
    web.create()
    until(lambda: web.ready())
    web.scale(3)
    until(lambda: web.ready() and len(web.pods()) == 3)
    pods: list[Any] = list(objects.Pod.list(api=api, namespace="default", label_selector={"app": "web"}))
    assert {pod.status.phase for pod in pods} == {"Running"}
    assert "simulated" in "\n".join(pods[0].logs())
    web.label({"tier": "front"})
    web.refresh()
    assert web.labels["tier"] == "front"
    web.delete(propagation_policy="Background")
    until(lambda: not list(objects.Pod.list(api=api, namespace="default", label_selector={"app": "web"})))


def test_a_kopf_operator_follows_its_custom_resources(kubeconfig: Path) -> None:
    """Finalizers, status patches, children with owners, updates and deletions, as operators do it."""
    import kopf

    registry = kopf.OperatorRegistry()
    core = official.CoreV1Api(config.new_client_from_config(str(kubeconfig)))
    forgotten: list[str] = []

    @kopf.on.create("example.com", "v1", "greetings", id="greet", registry=registry)  # type: ignore[arg-type]
    def greet(spec: Any, name: str, namespace: str, body: Any, **_: Any) -> dict[str, str]:
        text = f"hello {spec['name']}"
        child: Any = {"metadata": {"name": f"{name}-text"}, "data": {"text": text}}
        kopf.append_owner_reference(child, owner=body)
        core.create_namespaced_config_map(namespace, child)
        return {"said": text}

    @kopf.on.update("example.com", "v1", "greetings", id="again", field="spec.name", registry=registry)
    def greet_again(new: Any, name: Any, namespace: Any, **_: Any) -> dict[str, str]:
        core.patch_namespaced_config_map(f"{name}-text", namespace, {"data": {"text": f"hello {new}"}})
        return {"said": f"hello {new}"}

    @kopf.on.delete("example.com", "v1", "greetings", registry=registry)
    def forget(name: str, **_: Any) -> None:
        forgotten.append(name)

    api = kr8s.api(kubeconfig=str(kubeconfig))
    definition = objects.new_class("CustomResourceDefinition", "apiextensions.k8s.io/v1", namespaced=False)
    definition(GREETINGS, api=api).create()
    greeting = objects.new_class("Greeting", "example.com/v1", namespaced=True, plural="greetings")
    with operating(registry, kubeconfig):
        first = greeting(
            {"metadata": {"name": "first", "namespace": "default"}, "spec": {"name": "world"}}, api=api
        )
        until(lambda: _created(first))
        until(lambda: _text(core, "first-text") == "hello world")
        until(lambda: _said(first, "greet") == "hello world")
        first.patch({"spec": {"name": "moon"}})
        until(lambda: _text(core, "first-text") == "hello moon")
        until(lambda: _said(first, "again/spec.name") == "hello moon")
        first.delete()
        until(lambda: not first.exists())
        until(lambda: _text(core, "first-text") is None)
    assert forgotten == ["first"]


@contextlib.contextmanager
def operating(registry: Any, kubeconfig: Path) -> Iterator[None]:
    """An operator in a separate thread, as `kopf run` would start it."""
    import kopf

    stop, ready = threading.Event(), threading.Event()
    settings = kopf.OperatorSettings()
    settings.posting.enabled = True

    @kopf.on.login(registry=registry)
    def login(**arguments: Any) -> Any:
        return kopf.login_with_kubeconfig(**arguments)

    def run() -> None:
        asyncio.run(
            kopf.operator(
                registry=registry,
                settings=settings,
                standalone=True,
                clusterwide=True,
                stop_flag=stop,
                ready_flag=ready,
            )
        )

    thread = threading.Thread(target=run, daemon=True)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KUBECONFIG", str(kubeconfig))
        thread.start()
        assert ready.wait(20)
        try:
            yield
        finally:
            stop.set()
            thread.join(20)


def _created(obj: Any) -> bool:
    """A definition is served a moment after it was created."""
    try:
        obj.create()
    except kr8s.NotFoundError:
        return False
    return True


def _text(core: Any, name: str) -> str | None:
    try:
        found: str = core.read_namespaced_config_map(name, "default").data["text"]
    except official.ApiException as error:
        if error.status != 404:
            raise
        return None
    return found


def _said(obj: Any, handler: str) -> str | None:
    obj.refresh()
    said: str | None = obj.raw.get("status", {}).get(handler, {}).get("said")
    return said
