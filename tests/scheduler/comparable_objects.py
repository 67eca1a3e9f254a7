"""Recorded and own objects made comparable: pods and events as a server holds them."""

import re
from collections.abc import Mapping
from typing import Any

from observed.files import recorded
from scheduler.live_scheduler import World
from stowplan.api.catalogue import EVENTS, PODS
from stowplan.api.requests import Json

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def same_objects(world: World, recording: str, *pods: str) -> None:
    """Assert that pods and their events (of these names, or all) are as they were recorded."""
    expected = recorded(f"objects/{recording}")
    own_pods = world.store.list(PODS, world.namespace).items
    wanted = _pods(_items(expected["pods"]), pods)
    assert _pods(own_pods, pods) == wanted
    uids = _uids(_items(expected["events_v1"]))
    mine = _uids(world.store.list(EVENTS, world.namespace).items)
    assert _events(world.store.list(EVENTS, world.namespace).items, pods, mine) == _events(
        _items(expected["events_v1"]), pods, uids
    )


def _items(held: Any) -> list[Json]:
    return list(held["items"] if isinstance(held, dict) else held)


def _pods(found: list[Json], names: tuple[str, ...]) -> dict[str, Json]:
    return {
        one["metadata"]["name"]: _pod(one) for one in found if not names or one["metadata"]["name"] in names
    }


def _pod(pod: Json) -> Json:
    """Relevant parts of a pod: its node, its nomination, and its conditions."""
    status, metadata = pod.get("status", {}), pod["metadata"]
    return {
        "labels": metadata.get("labels"),
        "generation": metadata.get("generation"),
        "deleted": "deletionTimestamp" in metadata,
        "grace": metadata.get("deletionGracePeriodSeconds"),
        "node": pod["spec"].get("nodeName"),
        "phase": status.get("phase"),
        "nominated": status.get("nominatedNodeName"),
        "conditions": [_neutral(condition, {}) for condition in status.get("conditions", [])],
    }


def _uids(events: list[Json]) -> dict[str, str]:
    return {
        one["regarding"]["uid"]: f"uid of {one['regarding']['name']}"
        for one in events
        if one["regarding"]["kind"] == "Pod"
    }


def _events(events: list[Json], names: tuple[str, ...], uids: Mapping[str, str]) -> list[Any]:
    """Events about pods in the order they were created, without their metadata but for their namespace."""
    shown = []
    for event in events:
        about = event["regarding"]
        if about["kind"] != "Pod" or (names and about["name"] not in names):
            continue
        name = event["metadata"]["name"]
        assert re.fullmatch(rf"{re.escape(about['name'])}\.[0-9a-f]{{16}}", name)
        body = {key: value for key, value in event.items() if key not in ("metadata", "kind", "apiVersion")}
        body["regarding"] = {key: value for key, value in about.items() if key != "resourceVersion"}
        shown.append((name.rpartition(".")[2], event["metadata"]["namespace"], _neutral(body, uids)))
    ordered = [(namespace, body) for _, namespace, body in sorted(shown, key=lambda one: one[0])]
    return sorted(ordered, key=lambda one: str(one[1]["regarding"]["name"]))


def _neutral(value: Any, uids: Mapping[str, str]) -> Any:
    """A value with neutral times and uids, and without what is null: that is as good as absent."""
    if isinstance(value, dict):
        return {key: _neutral(held, uids) for key, held in value.items() if held is not None}
    if isinstance(value, str):
        for uid, name in uids.items():
            value = value.replace(uid, name)
        return _TIME.sub(lambda found: re.sub(r"\d", "0", found[0]), value)
    return value
