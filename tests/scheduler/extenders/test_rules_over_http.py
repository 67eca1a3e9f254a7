"""The same rules over a real connection and in this process, with identical results."""

import json
from collections.abc import Awaitable
from typing import Any

import pytest
from aiohttp import web

from scheduler.extenders.servers import config, run, serving
from stowplan.api.decode import convert
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.config.types import Extender as ExtenderConfig
from stowplan.scheduler.extenders.http import HttpExtender
from stowplan.scheduler.extenders.interface import Filtered
from stowplan.scheduler.extenders.requests import ExtenderError
from stowplan.scheduler.extenders.wire import ObjectEncoder
from stowplan.scheduler.framework.interface import Victims
from stowplan.scheduler.framework.status import SUCCESS, Code
from stowplan.testing import node, pod
from stowplan.testing.extenders import RULES, SAYS_NO, Rules, rule_extender

NODES = [node(f"node-{number:03}").capacity(cpu=2).obj() for number in range(23)]
PODS = [pod(f"pod-{number:03}").requests(cpu="1500m").obj() for number in range(4)]
VICTIMS = {each.name: Victims((pod(f"on-{each.name}").on(each.name).obj(),), 1) for each in NODES[:9]}
PLACES = {(node, victims.pods[0].metadata.uid): victims.pods[0] for node, victims in VICTIMS.items()}


def answering(rules: Rules, verb: str, body: Any) -> Any:
    """An extender in the words of its protocol, as its author would write it."""
    if rules.broken:
        return web.Response(status=500)
    if rules.says_no:
        return {"filter": {"error": SAYS_NO}, "prioritize": [], "preempt": {}}[verb]
    name = body["Pod"]["metadata"]["name"]
    if verb == "preempt":
        found = body["NodeNameToMetaVictims"] or body["NodeNameToVictims"]
        return {
            "nodeNameToMetaVictims": {
                node: {
                    "pods": [{"uid": pod.get("UID") or pod["metadata"]["uid"]} for pod in victims["Pods"]],
                    "numPDBViolations": victims["NumPDBViolations"],
                }
                for node, victims in found.items()
                if rules.agrees(node)
            }
        }
    items = (body["Nodes"] or {}).get("items") or []
    nodes = body["NodeNames"] or [item["metadata"]["name"] for item in items]
    if verb == "prioritize":
        return [{"host": node, "score": rules.score(node, name)} for node in nodes]
    verdicts = {node: rules.judge(node, name) for node in nodes}
    kept = [node for node in nodes if verdicts[node] is SUCCESS]
    answer = {
        key: {node: v.message for node, v in verdicts.items() if v is not None and v.code is code}
        for key, code in (
            ("failedNodes", Code.UNSCHEDULABLE),
            ("failedAndUnresolvableNodes", Code.UNSCHEDULABLE_AND_UNRESOLVABLE),
        )
    }
    if body["NodeNames"] is not None:
        return {**answer, "nodenames": kept}
    return {**answer, "nodes": {"items": [item for item in items if item["metadata"]["name"] in kept]}}


async def outcome(work: Awaitable[Any]) -> Any:
    try:
        answer = await work
    except ExtenderError as error:
        return str(error)
    if isinstance(answer, Filtered):
        names = None if answer.nodes is None else [node.name for node in answer.nodes]
        return answer.kept, answer.failed, answer.unresolvable, names
    return dict(answer)


@pytest.mark.parametrize("by_name", [True, False], ids=["names", "objects"])
@pytest.mark.parametrize("rules", RULES)
def test_rules_come_to_the_same_over_http(rules: str, by_name: bool) -> None:
    async def main() -> None:
        async with serving(lambda verb, body: answering(RULES[rules], verb, body)) as server:
            settings = config(f"{server.url}/{rules}", node_cache_capable=by_name)
            over_http, here = HttpExtender(settings, environ={}), rule_extender(settings)
            for each in PODS:
                for extender_verb in ("filter", "prioritize"):
                    theirs = await outcome(getattr(over_http, extender_verb)(each, NODES))
                    assert theirs == await outcome(getattr(here, extender_verb)(each, NODES))
                theirs = await outcome(
                    over_http.preempt(each, VICTIMS, lambda node, uid: PLACES.get((node, uid)))
                )
                assert theirs == await outcome(here.preempt(each, VICTIMS, lambda node, uid: None))
            await over_http.close()

    run(main())


def whole_nodes(server_url: str) -> ExtenderConfig:
    return config(server_url, node_cache_capable=False)


def test_nodes_that_come_back_unchanged_stay_the_objects_they_were() -> None:
    stored = [
        convert({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "2"}}}, Node) for name in "ab"
    ]

    async def main() -> None:
        async with serving(lambda verb, body: {"nodes": body["Nodes"]}) as server:
            ext = HttpExtender(whole_nodes(server.url), environ={})
            answer = await ext.filter(PODS[0], stored)
            assert answer.nodes is not None
            assert [id(given) for given in answer.nodes] == [id(sent) for sent in stored]
            await ext.close()

    run(main())


def test_what_an_extender_writes_into_a_node_reaches_the_next_one_whole() -> None:
    def marking(verb: str, body: Any) -> Any:
        items = body["Nodes"]["items"]
        for item in items:
            item["metadata"].setdefault("labels", {})["seen"] = "yes"
            item["spec"]["unknownToUs"] = 7
        return {"nodes": {"items": items}}

    async def main() -> None:
        async with serving(marking) as server:
            objects = ObjectEncoder()
            first, second = (HttpExtender(whole_nodes(server.url), objects, {}) for _ in range(2))
            answer = await first.filter(PODS[0], NODES[:2])
            assert answer.nodes is not None
            assert [given.metadata.labels["seen"] for given in answer.nodes] == ["yes", "yes"]
            await second.filter(PODS[0], list(answer.nodes))
            await first.filter(PODS[0], NODES[:2])
            sent = [[item["spec"] for item in heard.body["Nodes"]["items"]] for heard in server.heard]
            assert sent[1] == [{"unknownToUs": 7}] * 2
            await first.close()
            await second.close()

    run(main())


def test_an_extender_that_was_sent_objects_has_to_give_objects_back() -> None:
    async def main() -> None:
        async with serving(lambda verb, body: {"nodeNames": [NODES[0].name]}) as server:
            ext = HttpExtender(whole_nodes(server.url), environ={})
            assert await ext.filter(PODS[0], NODES) == Filtered([], nodes=[])
            await ext.close()

    run(main())


def test_an_extender_that_was_sent_names_may_give_objects_back() -> None:
    async def main() -> None:
        async with serving(lambda verb, body: {"nodes": {"items": [{"metadata": {"name": "x"}}]}}) as server:
            ext = HttpExtender(config(server.url), environ={})
            answer = await ext.filter(PODS[0], NODES)
            assert answer.kept == ["x"]
            assert answer.nodes == [convert({"metadata": {"name": "x"}}, Node)]
            await ext.close()

    run(main())


def test_an_object_the_host_does_not_know_is_sent_as_far_as_it_is_typed() -> None:
    typed, asked = ObjectEncoder(), ObjectEncoder(lambda pod: None, lambda node: None)
    assert asked.nodes(NODES) == typed.nodes(NODES)
    assert asked.pod(PODS[0]) == typed.pod(PODS[0])


def test_the_text_of_a_node_is_made_once_and_again_when_it_changes() -> None:
    made: list[str] = []

    def raw(given: Node) -> dict[str, Any]:
        made.append(given.name)
        return {"metadata": {"name": given.name, "labels": given.metadata.labels}}

    objects = ObjectEncoder(None, raw)
    before = objects.nodes(NODES[:3])
    assert objects.nodes(NODES[:3]) == before
    changed = node(NODES[1].name).labels(new="1").obj()
    objects.nodes([NODES[0], changed])
    assert made == [NODES[0].name, NODES[1].name, NODES[2].name, NODES[1].name]


def test_quantities_are_spelled_in_one_way_and_empty_fields_are_there() -> None:
    (text,) = ObjectEncoder().nodes([node("a").capacity(cpu="2000m", memory=1024).obj()])
    status = json.loads(bytes(text))["status"]
    assert status["capacity"] == {"cpu": "2", "memory": "1024", "pods": "110"}
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    bare: Pod = convert({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}, Pod)
    sent = json.loads(bytes(ObjectEncoder().pod(bare)))
    assert sent == {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "resources": {}}]},
        "status": {},
    }
    empty = json.loads(bytes(ObjectEncoder().pod(convert({"metadata": {"name": "p"}}, Pod))))
    assert empty["spec"] == {"containers": None}
