"""Requests of kube-scheduler to extenders, and ours for the same pods and nodes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scheduler.extenders.servers import config, run, serving
from stowplan.api.decode import convert
from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.scheduler.extenders.http import HttpExtender
from stowplan.scheduler.extenders.requests import ExtenderError
from stowplan.scheduler.extenders.wire import ObjectEncoder
from stowplan.scheduler.framework.interface import Victims

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text())
IDS = [
    f"{number} {each['scenario']} {each['path'].rpartition('/')[2]}"
    for number, each in enumerate(RECORDED, 1)
]
NODES = [
    node
    for each in RECORDED
    if each["request"].get("Nodes") and len(each["request"]["Nodes"]["items"]) == 3
    for node in each["request"]["Nodes"]["items"]
]


def nodes_of(body: Mapping[str, Any]) -> list[Node]:
    if body["Nodes"] is not None:
        return [convert(item, Node) for item in body["Nodes"]["items"]]
    return [convert({"metadata": {"name": name}}, Node) for name in body["NodeNames"]]


def victims_of(body: Mapping[str, Any]) -> dict[str, Victims]:
    given = body["NodeNameToVictims"] or body["NodeNameToMetaVictims"]
    return {
        node: Victims(
            tuple(
                convert({"metadata": {"uid": pod["UID"]}} if "UID" in pod else pod, Pod)
                for pod in victims["Pods"]
            ),
            victims["NumPDBViolations"],
        )
        for node, victims in given.items()
    }


async def repeat(extender: HttpExtender, verb: str, body: Mapping[str, Any]) -> Any:
    """Ask what was asked then, and give the answer in the form it has on the wire."""
    if verb == "bind":
        meta = {"name": body["PodName"], "namespace": body["PodNamespace"], "uid": body["PodUID"]}
        await extender.bind(convert({"metadata": meta}, Pod), body["Node"])
        return {"Error": ""}
    pod = convert(body["Pod"], Pod)
    if verb == "preempt":
        victims = victims_of(body)
        pods = {(node, pod.metadata.uid): pod for node, some in victims.items() for pod in some.pods}
        answer = await extender.preempt(pod, victims, lambda node, uid: pods.get((node, uid)))
        assert answer == victims
        return {
            "NodeNameToMetaVictims": {
                node: {
                    "Pods": [{"UID": pod.metadata.uid} for pod in found.pods],
                    "NumPDBViolations": found.violations,
                }
                for node, found in answer.items()
            }
        }
    nodes = nodes_of(body)
    if verb == "prioritize":
        scores = await extender.prioritize(pod, nodes)
        return [{"Host": host, "Score": score} for host, score in scores.items()]
    filtered = await extender.filter(pod, nodes)
    return {
        "FailedNodes": filtered.failed,
        "FailedAndUnresolvableNodes": filtered.unresolvable,
        "Error": "",
        "kept": filtered.kept,
    }


def comparable(answer: Any) -> Any:
    """A recorded answer with the nodes only by name."""
    if not isinstance(answer, dict) or "FailedNodes" not in answer:
        return answer
    answer = dict(answer)
    nodes = answer.pop("Nodes", None)
    kept = [node["metadata"]["name"] for node in nodes["items"]] if nodes else answer.pop("NodeNames")
    return {**answer, "kept": kept}


@pytest.mark.parametrize("entry", RECORDED, ids=IDS)
def test_the_same_request_is_sent_and_the_answer_understood(entry: dict[str, Any]) -> None:
    verb, body = entry["path"].rpartition("/")[2], entry["request"]
    pods = [body.get("Pod")] + [
        pod for victims in (body.get("NodeNameToVictims") or {}).values() for pod in victims["Pods"]
    ]
    whole = {pod["metadata"]["uid"]: pod for pod in pods if pod}
    nodes = {node["metadata"]["name"]: node for node in (body.get("Nodes") or {}).get("items", ())}

    def as_stored(data: dict[str, Any], kind: str) -> dict[str, Any]:
        """The object as an API server has it: with its kind, and with what only managers of fields need."""
        return {
            "kind": kind,
            "apiVersion": "v1",
            **data,
            "metadata": {**data["metadata"], "managedFields": [1]},
        }

    objects = ObjectEncoder(
        lambda pod: as_stored(whole[pod.metadata.uid], "Pod"),
        lambda node: as_stored(nodes[node.name], "Node"),
    )

    async def main() -> None:
        async with serving(lambda verb, body: entry["response"]) as server:
            settings = config(server.url + "/", node_cache_capable="names" in entry["scenario"])
            extender = HttpExtender(settings, objects)
            refusal = isinstance(entry["response"], dict) and entry["response"].get("Error")
            if refusal:
                with pytest.raises(ExtenderError, match=f"^{refusal}$"):
                    await repeat(extender, verb, body)
            else:
                assert await repeat(extender, verb, body) == comparable(entry["response"])
            await extender.close()
            (heard,) = server.heard
            assert (heard.method, heard.verb) == (entry["method"], verb)
            assert heard.headers["Content-Type"] == entry["headers"]["Content-Type"]
            assert heard.headers["Accept-Encoding"] == entry["headers"]["Accept-Encoding"]
            assert heard.body == body
            assert list(heard.body) == list(body)

    run(main())


def lacking(ours: Any, theirs: Any, path: str = "") -> set[str]:
    """Where our data has less than theirs; it is an error if it has anything else."""
    if isinstance(theirs, dict):
        assert isinstance(ours, dict), path
        assert ours.keys() <= theirs.keys(), path
        missing = {f"{path}.{key}" for key in theirs.keys() - ours.keys()}
        return missing.union(*(lacking(ours[key], theirs[key], f"{path}.{key}") for key in ours))
    if isinstance(theirs, list):
        assert len(ours) == len(theirs), path
        return set().union(*(lacking(a, b, path) for a, b in zip(ours, theirs, strict=True)))
    if ours is None and theirs is not None:
        return {path}
    assert ours == theirs, path
    return set()


def test_a_typed_node_lacks_only_what_has_no_type() -> None:
    missing: set[str] = set()
    for data in NODES:
        (text,) = ObjectEncoder().nodes([convert(data, Node)])
        missing |= lacking(json.loads(bytes(text)), data)
    assert missing == {".status.conditions.lastHeartbeatTime", ".status.conditions.lastTransitionTime"}


def test_a_typed_pod_lacks_only_what_has_no_type() -> None:
    missing: set[str] = set()
    for entry in RECORDED:
        if "Pod" in entry["request"]:
            data = entry["request"]["Pod"]
            missing |= lacking(json.loads(bytes(ObjectEncoder().pod(convert(data, Pod)))), data)
    container = ".spec.containers"
    assert missing == {
        f"{container}.imagePullPolicy",
        f"{container}.terminationMessagePath",
        f"{container}.terminationMessagePolicy",
        ".spec.dnsPolicy",
        ".spec.enableServiceLinks",
        ".spec.securityContext",
        ".status.qosClass",
    }
