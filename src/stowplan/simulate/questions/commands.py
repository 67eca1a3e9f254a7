"""The command line that gives the same answer as a question, ready to be pasted into a shell."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from stowplan.api.releases import DEFAULT
from stowplan.config import default_config
from stowplan.config.dump import dump_to_load_again
from stowplan.config.types import SchedulerConfig
from stowplan.gocompat.yamltext import load_yaml, to_yaml
from stowplan.scheduler.settings import Settings
from stowplan.simulate.changes import Change
from stowplan.simulate.questions.bodies import (
    Body,
    CompareBody,
    ExplainBody,
    FitBody,
    Text,
    WhatIfBody,
    text_of,
)

_MANIFESTS: Final = "manifests.yaml"
_CHANGES: Final = "changes.yaml"
_NEW: Final = "new.yaml"
_SCHEDULER: Final = "scheduler.yaml"
_DECIDING: Final = ("apiVersion", "kind", "percentageOfNodesToScore", "profiles")
"""Fields of a configuration that a simulation reads; extenders are not called."""
_IN_ORDER: Final = (
    "add_nodes",
    "label",
    "taint",
    "cordon",
    "uncordon",
    "remove",
    "delete",
    "priority",
    "scale",
    "drain",
)
"""Options of `whatif` in the order in which they are applied."""


def command_of(body: Body, settings: Settings, new: str = "") -> str:
    """The command line of a question. `new` is the other configuration of a comparison."""
    files: dict[str, str] = {}
    words = ["stowplan", *_words(body, files, new), *_scheduler(settings, files)]
    if body.seed:
        words += ["--seed", str(body.seed)]
    if isinstance(body, WhatIfBody | FitBody | ExplainBody) and body.namespace != "default":
        words += ["--namespace", body.namespace]
    return "".join(_written(name, text) for name, text in files.items()) + shlex.join(words)


def deciding(config: SchedulerConfig) -> dict[str, Any]:
    """The parts of a configuration that decide where pods go."""
    whole = load_yaml(dump_to_load_again(config))
    return {name: whole[name] for name in _DECIDING if name in whole}


def _words(body: Body, files: dict[str, str], new: str) -> Iterator[str]:
    match body:
        case FitBody():
            files[_MANIFESTS] = text_of(body.manifests)
            yield from ("fit", "-f", _MANIFESTS)
            if body.replicas is not None:
                yield from ("--replicas", str(body.replicas))
            for switch, on in (
                ("--max", body.max),
                ("--preempt", body.preempt),
                ("--pending-first", body.pending_first),
            ):
                if on:
                    yield switch
        case ExplainBody():
            files[_MANIFESTS] = text_of(body.manifests)
            yield from ("explain", "-f", _MANIFESTS)
        case CompareBody():
            files[_NEW] = new
            yield from ("whatif", "--new-config", _NEW)
        case WhatIfBody():
            yield "whatif"
            yield from _changes(body.changes, body.manifests, files)


def _changes(changes: Sequence[Change], manifests: Text | None, files: dict[str, str]) -> Iterator[str]:
    """Options if they say the same as the list, else a file."""
    options = [_options(one) for one in changes]
    order = [_IN_ORDER.index(next(iter(one.fields))) for one in changes]
    drains = order.count(len(_IN_ORDER) - 1)
    if manifests is not None:
        files[_MANIFESTS] = text_of(manifests)
    if None not in options and order == sorted(order) and drains <= 1 and not (manifests and changes):
        for words in options:
            yield from words or ()
        if manifests is not None:
            yield from ("--apply", _MANIFESTS)
        return
    found = [msgspec.to_builtins(one) for one in changes]
    plain: list[dict[str, Any]] = [
        {name: value for name, value in one.items() if value is not None} for one in found
    ]
    if manifests is not None:
        plain.append({"apply": _MANIFESTS})
    files[_CHANGES] = to_yaml({"changes": plain})
    yield from ("-f", _CHANGES)


def _options(change: Change) -> tuple[str, ...] | None:
    """A change as an option; None if it needs a file, or several of which the order matters."""
    [(field, value)] = change.fields.items()
    match field:
        case "cordon" | "uncordon" | "remove" | "delete" | "drain" if isinstance(value, str):
            return (f"--{field}", value)
        case "scale" | "priority" if len(value) == 1:
            [(title, number)] = value.items()
            return (f"--{field}", title, str(number))
        case "add_nodes" if isinstance(value, dict) and len(value) == 1:
            [(node, count)] = value.items()
            return ("--copy-node", node, str(count))
        case "taint" if isinstance(value.nodes, str) and isinstance(value.taints, str):
            return ("--taint", value.nodes, value.taints)
        case "label" if isinstance(value.nodes, str) and len(value.labels) == 1:
            [(key, text)] = value.labels.items()
            return ("--label", value.nodes, f"{key}-" if text is None else f"{key}={text}")
    return None


def _scheduler(settings: Settings, files: dict[str, str]) -> Iterator[str]:
    """Options of a scheduler that is not the default one."""
    gates = settings.gates
    config = deciding(settings.config.config)
    if config != deciding(default_config(gates).config):
        files[_SCHEDULER] = to_yaml(config)
        yield from ("--config", _SCHEDULER)
    if gates.changed():
        pairs = (f"{name}={str(on).lower()}" for name, on in sorted(gates.changed().items()))
        yield from ("--feature-gates", ",".join(pairs))
    if gates.release is not DEFAULT:
        yield from ("--emulated-version", gates.release.name)


def _written(name: str, text: str) -> str:
    """A file as a shell writes it."""
    end = "EOF"
    while end in text.splitlines():
        end += "F"
    return f"cat > {name} <<'{end}'\n{text.rstrip()}\n{end}\n"
