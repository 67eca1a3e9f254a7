"""Explanations name other pods: a viewer never reads the name of one whose namespace they may not see."""

import asyncio
import json
from random import Random
from typing import Any

import pytest
from msgspec import to_builtins

from stowplan.api.catalogue import NODES, PODS
from stowplan.explain.web import Inspection, Routes
from stowplan.explain.web.access import EVERYTHING, Viewer
from stowplan.explain.web.redaction import redacted
from stowplan.explain.web.stream import HELLO_EVERY, Subscription
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Scheduler, Settings
from stowplan.testing import node, pod

PATHS = [
    "",
    "/pods",
    "/pods/team/waits",
    "/pods/team/pushes",
    "/pending",
    "/queue",
    "/decisions",
    "/nodes/n0",
    "/nodes",
]


async def _reads_team(plural: str, namespace: str) -> bool:
    return plural == "nodes" or namespace == "team"


async def looked_at(clock: VirtualClock) -> dict[str, dict[str, Any]]:
    """All documents, for an administrator and for a user who may only read the pods of `team`."""
    store = Store(clock, Random(1))
    for name in ("n0", "n1"):
        store.create(NODES, to_builtins(node(name).capacity(cpu=4).obj()))
    for name, where in (("vault", "n0"), ("ledger", "n1")):
        victim: dict[str, Any] = to_builtins(pod(name).namespace("secret").requests(cpu=3).on(where).obj())
        victim["metadata"]["finalizers"] = ["example.com/stays-for-a-while"]
        store.create(PODS, victim)
    scheduler = Scheduler(InProcessClient(store), Settings.of(), clock=clock, rng=Random(2))
    inspection = Inspection(lambda: scheduler, cluster="a test", release="1.36")
    routes, found = Routes(inspection, dict), {}
    viewers = {"all": EVERYTHING, "team": Viewer(_reads_team)}
    streams = {who: Subscription(inspection, viewer) for who, viewer in viewers.items()}
    async with scheduler.running():
        store.create(PODS, to_builtins(pod("waits").namespace("team").requests(cpu=2).obj()))
        await asyncio.sleep(1)
        look = inspection.feed.look()
        for stream in streams.values():
            await stream.told(look)
        store.create(PODS, to_builtins(pod("pushes").namespace("team").priority(10).requests(cpu=2).obj()))
        await asyncio.sleep(0.5)
        look = inspection.feed.look()
        for who, viewer in viewers.items():
            answers = {path: await routes.answer(f"/stowplan/v1{path}", {}, viewer) for path in PATHS}
            assert {answer.code for answer in answers.values()} == {200}
            found[who] = {path: answer.document.document() for path, answer in answers.items()}
            found[who]["stream"] = [event.decode() for event in await streams[who].told(look)]
    return found


def test_pods_of_hidden_namespaces_are_named_nowhere() -> None:
    found = run(looked_at)
    told = {path for path, document in found["all"].items() if "secret/" in json.dumps(document)}
    assert told >= {"/pods/team/waits", "/pods/team/pushes", "/decisions", "stream"}
    for path, document in found["team"].items():
        text = json.dumps(document)
        assert not any(name in text for name in ("secret", "vault", "ledger")), path
    assert "a pod of another namespace ends" in json.dumps(found["team"]["/pods/team/waits"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("secret/vault ends", "a pod of another namespace ends"),
        ("anti-affinity: secret/db-2.x is there", "anti-affinity: a pod of another namespace is there"),
        ("team/a, secret/b", "team/a, a pod of another namespace"),
        ("0/3 nodes: 1 Insufficient example.com/secret", "0/3 nodes: 1 Insufficient example.com/secret"),
        ("secret.example.com/x", "secret.example.com/x"),
        ("my-secret/x", "my-secret/x"),
        ("podgroup/secret/train", "a group of another namespace"),
        ("compositepodgroup/secret/train", "a group of another namespace"),
        ("pod/secret/vault", "a pod of another namespace"),
        ("evicted for group secret/train, now", "evicted for a group of another namespace, now"),
        ("podgroup/team/train", "podgroup/team/train"),
    ],
)
def test_only_keys_of_pods_are_replaced(text: str, expected: str) -> None:
    assert redacted({"a": [text]}, {"secret"}) == {"a": [expected]}


async def rights_end(clock: VirtualClock) -> tuple[list[str], list[str]]:
    """The events of a stream whose viewer may see everything at first, before and after that has ended."""
    store = Store(clock, Random(1))
    store.create(NODES, to_builtins(node("n0").capacity(cpu=40).obj()))
    scheduler = Scheduler(InProcessClient(store), Settings.of(), clock=clock, rng=Random(2))
    allowed = True

    async def may_read(plural: str, namespace: str) -> bool:
        return allowed

    inspection = Inspection(lambda: scheduler, cluster="a test", release="1.36")
    stream = Subscription(inspection, Viewer(may_read))
    told: list[list[str]] = [[], []]
    async with scheduler.running():
        for number in range(2 * HELLO_EVERY):
            if number == HELLO_EVERY:
                allowed = False
            store.create(PODS, to_builtins(pod(f"p{number}").namespace("secret").requests(cpu=1).obj()))
            await asyncio.sleep(1)
            events = await stream.told(inspection.feed.look())
            told[number // HELLO_EVERY] += [event.decode() for event in events]
    return told[0], told[1]


def test_a_stream_ends_to_tell_what_its_viewer_may_not_see_any_more() -> None:
    before, after = run(rights_end)
    assert any("secret/" in event for event in before)
    assert any("event: nodes" in event for event in before)
    assert not [event for event in after if "secret" in event or "event: nodes" in event]
    assert [event for event in after if "event: hello" in event]
