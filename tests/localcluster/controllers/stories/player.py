"""Plays stories against a cluster: does what they say, waits, and takes down what became of the objects."""

import asyncio
import copy
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from localcluster.controllers.stories.kubelet import StoryKubelet
from localcluster.controllers.stories.normalform import (
    SHARED_NODES,
    Names,
    canonical,
    lean,
    lean_event,
    sorted_objects,
    summed_events,
)
from localcluster.controllers.stories.recording import Item, Observation, Step, Story
from localcluster.controllers.stories.transports import (
    API_VERSION,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Answer,
    Transport,
    path_of,
)
from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import is_active, is_deleting, is_finished, is_ready, phase_of
from stowplan.runtime.clock import Clock

WATCHED = [
    "pods",
    "replicasets",
    "controllerrevisions",
    "jobs",
    "persistentvolumeclaims",
    "endpointslices",
    "resourceclaims",
]
ROOT_CERTIFICATES = "kube-root-ca.crt"
"""In every namespace; only the stories of service accounts look at it."""

POLL = 0.3
LOOK = 0.5
DEFAULT_TIMEOUT = 40.0
LONGEST_UNREST = 10.0
PATIENCE = 15.0
"""Seconds to wait for what a story expects, unless its step says how long that may take."""


class Watcher:
    """All objects ever seen, and what pods of each namespace have gone through since a step began."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, dict[str, Json]]] = defaultdict(lambda: defaultdict(dict))
        self.trace: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.extremes: dict[str, dict[str, int]] = {}
        self._pods: dict[str, dict[str, Json]] = defaultdict(dict)

    def hear(self, plural: str, what: str, obj: Json) -> None:
        meta = obj["metadata"]
        self.seen[meta.get("namespace", "")][plural][meta["uid"]] = obj
        if plural == "pods":
            self._hear_pod(meta["namespace"], what, obj)

    def restart(self, namespace: str) -> None:
        """A step begins."""
        self.trace[namespace] = []
        self.extremes.pop(namespace, None)
        self._measure(namespace)

    def _hear_pod(self, namespace: str, what: str, pod: Json) -> None:
        uid, name, known = pod["metadata"]["uid"], pod["metadata"]["name"], self._pods[namespace]
        before = known.pop(uid, None)
        if what != "DELETED":
            known[uid] = pod
            self.trace[namespace] += ((change, name) for change in _pod_changes(before, pod))
        elif before is not None:
            self.trace[namespace].append(("gone", name))
        self._measure(namespace)

    def _measure(self, namespace: str) -> None:
        live = [pod for pod in self._pods[namespace].values() if is_active(pod)]
        pods, ready = len(live), sum(map(is_ready, live))
        old = self.extremes.get(namespace)
        if old is None:
            self.extremes[namespace] = {
                "max_pods": pods,
                "min_pods": pods,
                "max_ready": ready,
                "min_ready": ready,
            }
            return
        for name, value in (("pods", pods), ("ready", ready)):
            old[f"max_{name}"] = max(old[f"max_{name}"], value)
            old[f"min_{name}"] = min(old[f"min_{name}"], value)


def _pod_changes(before: Json | None, pod: Json) -> list[str]:
    if before is None:
        return ["create", *(["delete"] if is_deleting(pod) else [])]
    changes = []
    if not is_ready(before) and is_ready(pod):
        changes.append("ready")
    elif is_ready(before) and not is_ready(pod) and not is_deleting(pod):
        changes.append("unready")
    if phase_of(before) != phase_of(pod) and is_finished(pod):
        changes.append(phase_of(pod))
    if is_deleting(pod) and not is_deleting(before):
        changes.append("delete")
    return changes


class Player:
    """Plays any number of stories at once against one cluster. `running` makes the nodes they share."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self._transport = transport
        self._clock = clock
        self._watcher = Watcher()
        self._kubelet = StoryKubelet(transport, clock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Player"]:
        for plural in WATCHED:
            await self._transport.follow(plural, partial(self._hear, plural))
        for name in SHARED_NODES:
            await self._kubelet.add_node(name, "shared")
        try:
            yield self
        finally:
            self._kubelet.stop()

    def _hear(self, plural: str, what: str, obj: Json) -> None:
        self._watcher.hear(plural, what, obj)
        if plural == "pods":
            self._kubelet.hear(what, obj)

    async def play(self, story: Story) -> list[Observation]:
        """Result of each step; ends with the first one that did not have the expected result."""
        own = [node["name"] for node in story.nodes]
        await self._begin(story.name, own)
        found: list[Observation] = []
        for step in story.steps:
            found.append(await self._step(story, step))
            if found[-1].timeout:
                break
        for name in own:
            await self._kubelet.remove_node(name)
        return found

    async def _begin(self, namespace: str, own_nodes: list[str]) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await self._transport.call("POST", path_of("namespaces"), body)
        for name in own_nodes:
            await self._kubelet.add_node(name, namespace)
        end = self._clock.monotonic() + PATIENCE
        while self._clock.monotonic() < end and not await self._is_prepared(namespace, own_nodes):
            await asyncio.sleep(POLL)

    async def _is_prepared(self, namespace: str, own_nodes: list[str]) -> bool:
        account = await self._transport.call("GET", path_of("serviceaccounts", namespace, "default"))
        if account[0] != 200:
            return False
        for name in (*own_nodes, SHARED_NODES[0]):
            _, node = await self._transport.call("GET", path_of("nodes", name=name))
            taints = node.get("spec", {}).get("taints") or ()
            if any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints):
                return False
        return True

    # Steps

    async def _step(self, story: Story, step: Step) -> Observation:
        namespace = story.name
        self._watcher.restart(namespace)
        answers = [await self._do(namespace, action) for action in step.do]
        unmet = await self._wait(namespace, step)
        await asyncio.sleep(step.hold)
        objects, events = await self._look_until_quiet(story, step.quiet)
        seen = self._watcher.seen[namespace]
        names = Names({plural: list(found.values()) for plural, found in seen.items()})
        return Observation(
            title=step.title,
            answers=names.walk(answers),
            objects={plural: sorted_objects(plural, found, names) for plural, found in objects.items()},
            events=summed_events(events, names),
            trace=[names.text(f"{what} {name}") for what, name in self._watcher.trace[namespace]],
            extremes=dict(self._watcher.extremes[namespace]),
            timeout=unmet,
        )

    async def _wait(self, namespace: str, step: Step) -> list[Json]:
        """Conditions that still do not hold when the step's time is over."""
        patience = min(DEFAULT_TIMEOUT, PATIENCE) if step.timeout is None else step.timeout
        end = self._clock.monotonic() + patience
        waits = list(step.until)
        while waits and self._clock.monotonic() < end:
            waits = [wait for wait in waits if not await self._holds(namespace, wait)]
            if waits:
                await asyncio.sleep(POLL)
        return waits

    async def _look_until_quiet(self, story: Story, quiet: float) -> tuple[dict[str, list[Item]], list[Item]]:
        begun = since = self._clock.monotonic()
        last = ""
        while True:
            objects, events = await self._look(story)
            text = canonical([objects, sorted(map(canonical, events))])
            now = self._clock.monotonic()
            if text != last:
                last, since = text, now
            if now - since >= quiet or now - begun > LONGEST_UNREST:
                return objects, events
            await asyncio.sleep(LOOK)

    async def _look(self, story: Story) -> tuple[dict[str, list[Item]], list[Item]]:
        objects: dict[str, list[Item]] = {}
        for observed in story.observe:
            plural, _, prefix = observed.partition(":")
            code, found = await self._transport.call("GET", path_of(plural, story.name))
            objects[plural] = [
                lean(plural, obj)
                for obj in found.get("items") or ()
                if obj["metadata"]["name"].startswith(prefix)
                and (obj["metadata"]["name"] != ROOT_CERTIFICATES or story.name.startswith("sa-"))
            ]
            if code != 200:
                objects[plural] = [{"unavailable": code}]
        events = await self._items("events", story.name)
        if story.cluster_events:
            events += [
                event
                for event in await self._items("events", "default")
                if (event.get("involvedObject") or {}).get("name", "").startswith(story.name)
            ]
        return objects, [lean_event(event) for event in events]

    async def _items(self, plural: str, namespace: str) -> list[Json]:
        _, found = await self._transport.call("GET", path_of(plural, namespace))
        return list(found.get("items") or ())

    # Waits

    async def _holds(self, namespace: str, wait: Json) -> bool:
        match wait:
            case {"get": str(what), **rest}:
                plural, _, name = what.partition("/")
                code, obj = await self._transport.call("GET", path_of(plural, namespace, name))
                return code == 404 if "gone" in rest else code == 200 and _fits(obj, rest["is"])
            case {"list": str(what), **rest}:
                plural, _, prefix = what.partition(":")
                fitting = [
                    obj
                    for obj in await self._items(plural, namespace)
                    if obj["metadata"]["name"].startswith(prefix) and _fits(obj, rest.get("is") or {})
                ]
                wanted: int = rest["atleast" if "atleast" in rest else "count"]
                return len(fitting) >= wanted if "atleast" in rest else len(fitting) == wanted
            case {"event": str(reason)}:
                return any(event.get("reason") == reason for event in await self._items("events", namespace))
        raise ValueError(f"an unknown wait: {wait}")

    # Actions

    async def _do(self, namespace: str, action: Json) -> Json:
        match action:
            case {"create": dict(body), "in": str(plural), **rest}:
                body = {"apiVersion": API_VERSION.get(plural, "v1"), **body}
                path = path_of(plural, rest.get("namespace", namespace))
                return _refusal(await self._transport.call("POST", path, body))
            case {"patch": str(what), "with": patch, **rest}:
                kind = {"merge": MERGE, "strategic": STRATEGIC}[rest.get("kind", "merge")]
                path = path_of(what.split("/")[0], namespace, what.split("/")[1], rest.get("sub", ""))
                return _refusal(await self._transport.call("PATCH", path, patch, kind))
            case {"delete": str(what), **rest}:
                options = {"propagationPolicy": rest["policy"]} if "policy" in rest else None
                return _refusal(await self._transport.call("DELETE", path_of(*_in(namespace, what)), options))
            case {"evict": dict(chosen)}:
                return await self._evict(namespace, chosen)
            case {"pods": dict(chosen)}:
                return await self._change_pods(namespace, chosen)
            case {"node": str(name), **rest}:
                return await self._change_node(name, rest)
            case {"undo": str(name), "revision": revision}:
                return await self._undo(namespace, name, revision)
            case {"uid_of": str(what), "in": str(plural), "body": dict(body), **rest}:
                return await self._create_owned(namespace, what, plural, body, rest.get("ref") or {})
            case {"sleep": seconds}:
                await asyncio.sleep(seconds)
                return {}
        raise ValueError(f"an unknown action: {action}")

    async def _evict(self, namespace: str, chosen: Json) -> Json:
        pods = await self._chosen_pods(namespace, chosen)
        name = pods[0]["metadata"]["name"] if pods else "none"
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        path = path_of("pods", namespace, name, "eviction")
        return _refusal(await self._transport.call("POST", path, eviction))

    async def _change_pods(self, namespace: str, chosen: Json) -> Json:
        """Set the status of some pods, patch or delete them."""
        codes: list[int] = []
        for pod in await self._chosen_pods(namespace, chosen):
            path = path_of("pods", namespace, pod["metadata"]["name"])
            if "set" in chosen:
                state, _, code = chosen["set"].partition(":")
                phase = state if state in ("Succeeded", "Failed") else "Running"
                self._kubelet.takes_no_start(pod)
                written = await self._kubelet.write_status(
                    pod, phase, ready=state == "ready", exit_code=int(code or 0)
                )
                codes.append(written[0])
            if "patch" in chosen:
                codes.append((await self._transport.call("PATCH", path, chosen["patch"], MERGE))[0])
            if "delete" in chosen:
                codes.append((await self._transport.call("DELETE", path))[0])
        return {"codes": codes}

    async def _chosen_pods(self, namespace: str, chosen: Json) -> list[Json]:
        pods = [pod for pod in await self._items("pods", namespace) if _is_chosen(pod, chosen)]
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))[: chosen.get("first")]

    async def _change_node(self, name: str, change: Json) -> Json:
        if change.get("silent"):
            self._kubelet.fall_silent(name)
            return {}
        if "silent" in change:
            self._kubelet.come_back(name)
        return {"code": (await self._kubelet.report(name, change.get("report") or {}))[0]}

    async def _undo(self, namespace: str, name: str, revision: str) -> Json:
        """Patch of `kubectl rollout undo`: the template of an older ReplicaSet."""
        sets = await self._items("replicasets", namespace)
        key = "deployment.kubernetes.io/revision"
        chosen = next(one for one in sets if one["metadata"]["annotations"].get(key) == revision)
        template = copy.deepcopy(chosen["spec"]["template"])
        template["metadata"]["labels"].pop("pod-template-hash", None)
        patch = [{"op": "replace", "path": "/spec/template", "value": template}]
        path = path_of("deployments", namespace, name)
        return _refusal(await self._transport.call("PATCH", path, patch, JSON_PATCH))

    async def _create_owned(self, namespace: str, owner: str, plural: str, body: Json, more: Json) -> Json:
        """Create an object owned by another."""
        _, found = await self._transport.call("GET", path_of(*_in(namespace, owner)))
        reference = {
            "apiVersion": found["apiVersion"],
            "kind": found["kind"],
            "name": found["metadata"]["name"],
            "uid": found["metadata"]["uid"],
            **more,
        }
        body = copy.deepcopy(body)
        body["metadata"].setdefault("ownerReferences", []).append(reference)
        return _refusal(await self._transport.call("POST", path_of(plural, namespace), body))


def _in(namespace: str, what: str) -> tuple[str, str, str]:
    plural, _, name = what.partition("/")
    return plural, namespace, name


def _refusal(answer: Answer) -> Json:
    code, body = answer
    return (
        {"code": code}
        if code < 300
        else {"code": code, "reason": body.get("reason"), "message": body.get("message")}
    )


def _is_chosen(pod: Json, chosen: Json) -> bool:
    asked: Iterable[tuple[str, Any]] = (
        ("name", pod["metadata"]["name"]),
        ("ready", is_ready(pod)),
        ("phase", phase_of(pod)),
        ("node", pod["spec"].get("nodeName")),
    )
    labels = (chosen.get("labels") or {}).items() <= (pod["metadata"].get("labels") or {}).items()
    return labels and not is_deleting(pod) and all(value == chosen.get(key, value) for key, value in asked)


def _fits(obj: Json, wanted: Json) -> bool:
    """True if the values at some paths are as wanted; None stands for nothing, and for zero."""
    found = ((_at(obj, path), value) for path, value in wanted.items())
    return all(not value if expected is None else value == expected for value, expected in found)


def _at(obj: Any, path: str) -> Any:
    """The value at `a.b[key=value].c` or `a.b[0]`, None if there is none."""
    for part in re.findall(r"[^.\[\]]+(?:\[[^\]]*\])?", path):
        name, _, chosen = part.partition("[")
        obj = obj.get(name) if isinstance(obj, dict) else None
        if chosen and isinstance(obj, list):
            key, equals, value = chosen.rstrip("]").partition("=")
            fitting = (one for one in obj if str(one.get(key)) == value) if equals else iter(obj[int(key) :])
            obj = next(fitting, None)
    return obj
