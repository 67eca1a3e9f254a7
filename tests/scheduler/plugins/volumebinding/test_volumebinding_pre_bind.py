"""Volumes are written down before the pod is bound, and waited for until they are bound or made."""

import asyncio
from collections.abc import Callable

import pytest

from scheduler.plugins.volumebinding.servers import TIMEOUT, Server, with_server
from scheduler.plugins.volumebinding.storageobjects import NAMESPACE, claim, storage_class, using, volume
from stowplan.api import catalogue as c
from stowplan.scheduler.framework.status import SUCCESS, Status, error
from stowplan.testing import node
from stowplan.testing.builders import ZONE

SELECTED = "volume.kubernetes.io/selected-node"
MAKER = storage_class("maker", provisioner="csi.example.com")
STATIC, MADE = claim("static"), claim("made", class_name="maker")
FREE = volume("free", zone="b")
P = using("p", "static")
Q = using("q", "made")
WORLD = [storage_class(), MAKER, STATIC, MADE, FREE]


def failed(cause: str) -> Status:
    return error(f'running PreBind plugin "VolumeBinding": {cause}')


def test_a_free_volume_is_written_as_the_claims_own_and_waited_for() -> None:
    async def main(server: Server) -> None:
        stored = server.store.get(c.PERSISTENT_VOLUMES, "", "free")
        server.change(FREE, spec={**stored["spec"], "local": {"path": "/mnt/disk"}})
        seen = server.store.get(c.PERSISTENT_VOLUMES, "", "free")["metadata"]["resourceVersion"]
        cycle = await server.reserve(P, "b")
        binding = asyncio.create_task(server.pre_bind(cycle, "b"))
        await server.settled()
        (written,) = server.client.written
        assert written["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
        assert written["metadata"]["resourceVersion"] == seen
        asked = server.store.get(c.PERSISTENT_VOLUME_CLAIMS, NAMESPACE, "static")["metadata"]
        assert written["spec"]["claimRef"] == {
            "kind": "PersistentVolumeClaim",
            "namespace": NAMESPACE,
            "name": "static",
            "uid": asked["uid"],
            "apiVersion": "v1",
            "resourceVersion": asked["resourceVersion"],
        }
        assert written["spec"]["local"] == {"path": "/mnt/disk"}, "fields that scheduling does not know stay"
        await asyncio.sleep(5.5)
        assert not binding.done()
        began = server.clock.now()
        server.bind(STATIC, "free")
        assert await binding == SUCCESS
        assert server.clock.now() == began, "it is told, and does not ask again and again"

    with_server(WORLD, main)


def test_a_claim_asks_for_a_volume_on_the_node_and_waits_for_it() -> None:
    async def main(server: Server) -> None:
        cycle = await server.reserve(Q, "c")
        binding = asyncio.create_task(server.pre_bind(cycle, "c"))
        await server.settled()
        (written,) = server.client.written
        assert written["metadata"]["annotations"] == {SELECTED: "c"}
        server.bind(MADE, "new")
        await server.settled()
        assert not binding.done(), "the volume itself has not been heard of yet"
        began = server.clock.now()
        server.create(volume("new", zone="c", class_name="maker", claimed_by="made"))
        assert await binding == SUCCESS
        assert server.clock.now() == began

    with_server(WORLD, main)


def test_a_pod_with_both_kinds_waits_for_both() -> None:
    async def main(server: Server) -> None:
        both = using("p", "static", "made")
        cycle = await server.reserve(both, "b")
        binding = asyncio.create_task(server.pre_bind(cycle, "b"))
        await server.settled()
        assert [body["metadata"]["name"] for body in server.client.written] == ["free", "made"]
        server.bind(STATIC, "free")
        server.create(volume("new", class_name="maker", claimed_by="made"))
        await server.settled()
        assert not binding.done()
        server.bind(MADE, "new")
        assert await binding == SUCCESS

    with_server(WORLD, main)


def unclaim(server: Server) -> None:
    stored = server.store.get(c.PERSISTENT_VOLUMES, "", "free")
    spec = {key: value for key, value in stored["spec"].items() if key != "claimRef"}
    server.store.update(c.PERSISTENT_VOLUMES, {**stored, "spec": spec})


def deselect(server: Server, **kept: str) -> None:
    stored = server.store.get(c.PERSISTENT_VOLUME_CLAIMS, NAMESPACE, "made")
    meta = {**stored["metadata"], "annotations": kept}
    server.store.update(c.PERSISTENT_VOLUME_CLAIMS, {**stored, "metadata": meta})


def forget_pods(server: Server) -> None:
    server.pods.clear()


def move_node(server: Server) -> None:
    server.table.put_node(node("b").labels({ZONE: "elsewhere"}).obj())
    server.bind(STATIC, "free")


def make_elsewhere(server: Server) -> None:
    server.create(volume("new", zone="a", class_name="maker", claimed_by="made"))
    server.bind(MADE, "new")


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        pytest.param(lambda server: None, "context deadline exceeded", id="nothing happens for too long"),
        pytest.param(unclaim, 'ClaimRef got reset for pv "free"', id="the volume is taken from the claim"),
        pytest.param(
            lambda server: server.remove(FREE),
            'failed to check binding: persistentvolumes "free" not found',
            id="the volume goes",
        ),
        pytest.param(
            lambda server: server.remove(STATIC),
            f'failed to check binding: persistentvolumeclaims "{NAMESPACE}/static" not found',
            id="the claim goes",
        ),
        pytest.param(
            forget_pods,
            'pod does not exist any more: pod "p" not found',
            id="the pod goes, of which nobody tells",
        ),
        pytest.param(
            lambda server: server.table.remove_node("b"),
            'failed to get node "b": node "b" not found',
            id="the node goes",
        ),
        pytest.param(
            move_node,
            'pv "free" node affinity doesn\'t match node "b": no matching NodeSelectorTerms',
            id="the node loses the label that the volume needs",
        ),
    ],
)
def test_a_match_that_comes_to_nothing_fails_the_attempt(event: Callable[[Server], None], cause: str) -> None:
    async def main(server: Server) -> None:
        cycle = await server.reserve(P, "b")
        binding = asyncio.create_task(server.pre_bind(cycle, "b"))
        await server.settled()
        began = server.clock.now()
        event(server)
        assert await binding == failed(f"binding volumes: {cause}")
        patience = TIMEOUT if "deadline" in cause else 1
        assert server.clock.now() - began <= patience + 0.001

    with_server(WORLD, main)


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        pytest.param(
            deselect, 'selectedNode annotation reset for PVC "made"', id="the claim loses all annotations"
        ),
        pytest.param(
            lambda server: deselect(server, other="x"),
            'provisioning failed for PVC "made"',
            id="the node is taken from the claim: no volume could be made there",
        ),
        pytest.param(
            lambda server: server.remove(MADE),
            f'failed to check provisioning pvc: persistentvolumeclaims "{NAMESPACE}/made" not found',
            id="the claim goes",
        ),
        pytest.param(
            make_elsewhere,
            'pv "new" node affinity doesn\'t match node "b": no matching NodeSelectorTerms',
            id="a volume is made that the node does not reach",
        ),
    ],
)
def test_a_volume_that_is_not_made_fails_the_attempt(event: Callable[[Server], None], cause: str) -> None:
    async def main(server: Server) -> None:
        cycle = await server.reserve(Q, "b")
        binding = asyncio.create_task(server.pre_bind(cycle, "b"))
        await server.settled()
        event(server)
        assert await binding == failed(f"binding volumes: {cause}")

    with_server(WORLD, main)


def test_an_object_that_changed_meanwhile_is_not_overwritten_and_everything_is_given_back() -> None:
    async def main(server: Server) -> None:
        cycle = await server.reserve(using("p", "static", "made"), "b")
        stored = server.store.get(c.PERSISTENT_VOLUMES, "", "free")
        taken = {"name": "other", "namespace": NAMESPACE, "uid": "u"}
        server.store.update(c.PERSISTENT_VOLUMES, {**stored, "spec": {**stored["spec"], "claimRef": taken}})
        conflict = (
            'Operation cannot be fulfilled on persistentvolumes "free": the object has been modified; '
            "please apply your changes to the latest version and try again"
        )
        assert await server.pre_bind(cycle, "b") == failed(conflict)
        assert server.lifecycle.unreserve(cycle, cycle.pod, "b") == []
        await server.settled()
        storage = server.table.storage
        assert storage.claim(f"{NAMESPACE}/made") is storage.claims[f"{NAMESPACE}/made"]
        assert storage.volume("free") is storage.volumes["free"]
        assert storage.volumes["free"].spec.claim_ref is not None

    with_server(WORLD, main)


def test_what_was_written_stays_and_the_next_attempt_starts_from_there() -> None:
    async def main(server: Server) -> None:
        cycle = await server.reserve(P, "b")
        binding = asyncio.create_task(server.pre_bind(cycle, "b"))
        await server.settled()
        assert (await binding).message.endswith("context deadline exceeded")
        assert server.lifecycle.unreserve(cycle, cycle.pod, "b") == []
        rows = server.framework.evaluate(server.table.info(using("p2", "static"))).feasible_rows
        assert [server.table.name_of(row) for row in rows.tolist()] == ["b"]
        server.create(claim("other"))
        await server.settled()
        assert server.framework.evaluate(server.table.info(using("q", "other"))).feasible_count == 0

    with_server(WORLD, main)


def test_a_claim_bound_before_the_wait_begins_is_not_waited_for() -> None:
    async def main(server: Server) -> None:
        cycle = await server.reserve(P, "b")
        server.bind(STATIC, "free")
        await server.settled()
        began = server.clock.now()
        assert await server.pre_bind(cycle, "b") == SUCCESS
        assert server.clock.now() == began

    with_server(WORLD, main)
