"""Clients that others wrote: the official one for Python, and lightkube."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lazily import Lazily
from localcluster.apiserver.served import Served, pod, serving

official = Lazily("kubernetes.client")
config = Lazily("kubernetes.config")
watch = Lazily("kubernetes.watch")
lightkube = Lazily("lightkube")
models = Lazily("lightkube.models.core_v1")
meta = Lazily("lightkube.models.meta_v1")
resources = Lazily("lightkube.resources.core_v1")


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving(plain=False, history=30) as served:
        yield served


@pytest.fixture(scope="module")
def kubeconfig(api: Served, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("config") / "kubeconfig"
    path.write_text(api.server.kubeconfig())
    return path


@pytest.fixture
def core(kubeconfig: Path) -> Any:
    return official.CoreV1Api(config.new_client_from_config(str(kubeconfig)))


def test_the_official_client_creates_lists_patches_and_deletes(core: Any) -> None:
    made = core.create_namespaced_pod("default", pod("official", labels={"a": "b"}))
    assert made.metadata.uid
    assert made.spec.scheduler_name == "default-scheduler"
    listed = core.list_namespaced_pod("default", label_selector="a=b", limit=1)
    assert [found.metadata.name for found in listed.items] == ["official"]
    patched = core.patch_namespaced_pod("official", "default", {"metadata": {"labels": {"a": "c"}}})
    assert patched.metadata.labels == {"a": "c"}
    assert core.read_namespaced_pod("official", "default").metadata.labels == {"a": "c"}
    core.delete_namespaced_pod("official", "default")
    with pytest.raises(official.ApiException) as caught:
        core.read_namespaced_pod("official", "default")
    assert caught.value.status == 404


def test_the_official_clients_watch_survives_a_relist(core: Any, api: Served) -> None:
    listed = core.list_namespaced_pod("default")
    for number in range(40):
        body = pod(f"r{number}")
        api.create_pod(body)
    seen = []
    watching = watch.Watch()
    stream = watching.stream(core.list_namespaced_pod, "default", timeout_seconds=20)
    for event in stream:
        seen.append(event["object"].metadata.name)
        if len(seen) == 40:
            core.create_namespaced_pod("default", pod("after"))
        if seen[-1] == "after":
            watching.stop()
    assert set(seen) >= {f"r{number}" for number in range(40)} | {"after"}
    old = watch.Watch().stream(
        core.list_namespaced_pod,
        "default",
        resource_version=listed.metadata.resource_version,
        timeout_seconds=20,
    )
    with pytest.raises(official.ApiException) as caught:
        list(old)
    assert caught.value.status == 410


def test_lightkube_creates_lists_watches_and_deletes(kubeconfig: Path) -> None:
    client = lightkube.Client(config=lightkube.KubeConfig.from_file(str(kubeconfig)), namespace="default")
    spec = models.PodSpec(containers=[models.Container(name="main", image="registry.example/app:1")])
    made = client.create(
        resources.Pod(metadata=meta.ObjectMeta(name="light", labels={"by": "light"}), spec=spec)
    )
    assert made.metadata is not None
    assert made.metadata.uid
    found = [
        each.metadata.name for each in client.list(resources.Pod, labels={"by": "light"}) if each.metadata
    ]
    assert found == ["light"]
    for kind, each in client.watch(resources.Pod, labels={"by": "light"}, server_timeout=120):
        assert each.metadata is not None
        if kind == "ADDED":
            client.patch(resources.Pod, "light", {"metadata": {"labels": {"more": "yes"}}})
        elif kind == "MODIFIED":
            assert each.metadata.labels == {"by": "light", "more": "yes"}
            break
    client.delete(resources.Pod, "light")
    with pytest.raises(lightkube.ApiError) as caught:
        client.get(resources.Pod, "light")
    assert caught.value.status.code == 404


def test_lightkube_applies(kubeconfig: Path) -> None:
    client = lightkube.Client(
        config=lightkube.KubeConfig.from_file(str(kubeconfig)), namespace="default", field_manager="me"
    )
    spec = models.PodSpec(containers=[models.Container(name="main", image="registry.example/app:1")])
    wanted = resources.Pod(
        apiVersion="v1", kind="Pod", metadata=meta.ObjectMeta(name="applied", labels={"x": "1"}), spec=spec
    )
    assert client.apply(wanted).metadata is not None
    assert wanted.metadata is not None
    wanted.metadata.labels = {"y": "2"}
    again = client.apply(wanted)
    assert again.metadata is not None
    assert again.metadata.labels == {"y": "2"}
