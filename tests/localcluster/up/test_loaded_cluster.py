"""A cluster that is dumped and loaded is that cluster: nothing is made anew, and nothing moves."""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import replace

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from localcluster.up.dumps import (
    ABOUT_THE_SERVER,
    FAILURES,
    PRETEND,
    comparable,
    differences,
    dump,
    manifests,
)
from stowplan.api.catalogue import CONFIG_MAPS, NODES, PODS
from stowplan.api.requests import Json, PatchType
from stowplan.localcluster.kubelets import KubeletSettings, NodeShape
from stowplan.localcluster.up import ClusterPlan, LocalCluster
from stowplan.localcluster.up.manifests import Manifest
from stowplan.runtime.clock import VirtualClock, run

SHAPES = (NodeShape(count=2, cpu="8", zones=("a", "b")), NodeShape(count=1, name="small", cpu="1"))
REST = 150.0
"""Seconds after which nothing happens any more, and a silent node has been found out."""


def planned(objects: list[Json], *, found: bool) -> ClusterPlan:
    kubelets = replace(KubeletSettings(), adopt=True, as_found=found)
    loaded = [Manifest("test", obj) for obj in objects]
    return ClusterPlan(shapes=() if found else SHAPES, kubelets=kubelets, loaded=loaded, seed=1)


async def life(
    clock: VirtualClock, plan: ClusterPlan, act: Callable[[LocalCluster], None], seconds: float
) -> LocalCluster:
    cluster = LocalCluster(plan, clock=clock)
    async with cluster.running(listen=False):
        await asyncio.sleep(1)
        act(cluster)
        await asyncio.sleep(seconds)
    return cluster


@settings(max_examples=examples(20), deadline=None)
@given(objects=manifests(), failure=FAILURES, annotated=st.booleans())
def test_a_dump_of_a_loaded_cluster_is_the_dump_that_was_loaded(
    objects: list[Json], failure: str, annotated: bool
) -> None:
    def fail(cluster: LocalCluster) -> None:
        if failure and annotated:
            patch = {"metadata": {"annotations": {f"{PRETEND}fail": failure}}}
            cluster.store.patch(NODES, "", "node-0", patch, PatchType.MERGE)
        elif failure == "Silent":
            cluster.kubelets.silence("node-0")
        elif failure:
            cluster.kubelets.ail("node-0", failure.replace("NotReady", "Ready"))

    async def story(clock: VirtualClock) -> None:
        first = await life(clock, planned(objects, found=False), fail, REST)
        before = dump(first.store)
        again = await life(clock, planned(before, found=True), lambda cluster: None, 20)
        assert not again.load_report.skipped
        assert not again.load_report.missing
        found = [*differences(comparable(before), comparable(dump(again.store)))]
        assert not found, "\n".join(found)

    run(story)


def test_a_loaded_cluster_says_where_its_own_server_is() -> None:
    async def story(clock: VirtualClock) -> None:
        first = await life(clock, planned([], found=False), lambda cluster: None, 5)
        again = await life(clock, planned(dump(first.store), found=True), lambda cluster: None, 5)
        own = (again.server.certificate or b"").decode()
        assert own
        assert own != (first.server.certificate or b"").decode()
        maps = {
            obj["metadata"]["name"]: obj["data"]
            for obj in again.store.list(CONFIG_MAPS).items
            if obj["metadata"]["namespace"] in ("kube-public", "kube-system")
        }
        assert set(maps) == set(ABOUT_THE_SERVER)
        assert maps["kube-root-ca.crt"]["ca.crt"] == own
        known = maps["extension-apiserver-authentication"]
        assert known["client-ca-file"] == known["requestheader-client-ca-file"] == own
        [entry] = yaml.safe_load(maps["cluster-info"]["kubeconfig"])["clusters"]
        assert base64.b64decode(entry["cluster"]["certificate-authority-data"]).decode() == own
        assert entry["cluster"]["server"] == again.server.url

    run(story)


def test_a_loaded_cluster_goes_on_when_something_is_changed() -> None:
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "busy"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }

    async def story(clock: VirtualClock) -> None:
        first = await life(clock, planned([web], found=False), lambda cluster: None, 30)
        before = {pod["metadata"]["uid"] for pod in first.store.list(PODS).items}

        def scale(cluster: LocalCluster) -> None:
            resource = cluster.store.catalogue.of_kind("apps/v1", "Deployment")
            assert resource is not None
            cluster.store.patch(resource, "busy", "web", {"spec": {"replicas": 5}}, PatchType.MERGE)

        again = await life(clock, planned(dump(first.store), found=True), scale, 30)
        pods = again.store.list(PODS).items
        assert before < {pod["metadata"]["uid"] for pod in pods}
        assert {pod["status"]["phase"] for pod in pods} == {"Running"}
        assert len({pod["status"]["podIP"] for pod in pods}) == len(pods) == 5

    run(story)
