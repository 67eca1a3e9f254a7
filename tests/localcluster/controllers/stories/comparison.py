"""Differences between a story as it was recorded and as it was played."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from localcluster.controllers.stories.normalform import COMBINED, canonical
from localcluster.controllers.stories.recording import Item, Observation, Step, Story

_HOW_FAR = re.compile(r" from \d+ to \d+$")


def differences(story: Story, played: Sequence[Observation]) -> list[str]:
    """One line for each difference; none if the story was played as recorded."""
    found: list[str] = []
    for number, (plan, recorded) in enumerate(zip(story.steps, story.observed.steps, strict=True)):
        if number >= len(played):
            return [*found, f"{number} not reached: {plan.title}"]
        lines = _step_differences(story, plan, recorded, played[number])
        found += (f"{number} {line}" for line in lines)
    return found


def _step_differences(story: Story, plan: Step, was: Observation, now: Observation) -> Iterator[str]:
    if now.timeout and not was.timeout:
        yield f"did not become: {_short(now.timeout)}"
    yield from _value_differences(was.answers, now.answers, "answers")
    for plural, objects in was.objects.items():
        for line in _object_differences(plural, objects, now.objects.get(plural) or []):
            if not any(line.partition(" ")[2].partition(" ")[2].startswith(path) for path in plan.ignore):
                yield line
    if "events" not in plan.ignore:
        recorded, seen = _told(was.events, story), _told(now.events, story)
        loose = {canonical(event) for event in plan.loose_events}
        yield from (f"missing event {text}" for text in sorted(recorded - seen - loose))
        yield from (f"extra event {text}" for text in sorted(seen - recorded - loose))
    if plan.ordered and was.trace != now.trace:
        yield f"order: {was.trace} != {now.trace}"
    for key, limit in plan.limits.items():
        reached = now.extremes[key]
        if reached > limit if key.startswith("max") else reached < limit:
            yield f"{key} {reached}, the limit is {limit}"


def _object_differences(plural: str, was: Iterable[Item], now: Iterable[Item]) -> Iterator[str]:
    recorded, seen = _by_name(was), _by_name(now)
    for name in sorted({*recorded, *seen}):
        mine, theirs = recorded[name], seen[name]
        if len(mine) != len(theirs):
            yield f"{plural} {name}: {len(mine)} != {len(theirs)}"
            continue
        for one, other in zip(mine, theirs, strict=True):
            for line in _value_differences(one, other):
                yield f"{plural} {name} {line}"


def _by_name(objects: Iterable[Item]) -> "defaultdict[str, list[Item]]":
    found: defaultdict[str, list[Item]] = defaultdict(list)
    for obj in objects:
        found[obj.get("metadata", {}).get("name", "?")].append(obj)
    return found


def _value_differences(was: Any, now: Any, path: str = "") -> Iterator[str]:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted({*was, *now}):
            yield from _value_differences(was.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for number, (one, other) in enumerate(zip(was, now, strict=True)):
            yield from _value_differences(one, other, f"{path}[{number}]")
    elif was != now:
        yield f"{path}: {_short(was)} != {_short(now)}"


def _told(events: Iterable[Item], story: Story) -> set[str]:
    """Events without counts; where that is a matter of timing, without how far a rollout went at a time."""
    told: set[str] = set()
    for event in events:
        kept = {key: value for key, value in event.items() if key != "count"}
        if story.scaling_varies and event["reason"] == "ScalingReplicaSet":
            if event["message"] == COMBINED:
                continue
            kept["message"] = _HOW_FAR.sub("", event["message"])
        told.add(canonical(kept))
    return told


def _short(value: Any) -> str:
    text = canonical(value)
    return text if len(text) < 400 else f"{text[:400]}…"
