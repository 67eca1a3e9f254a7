"""From the text of a Policy to the predicates, priorities and extenders it names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stowplan.config.fields import Fields, parse_document, refuse
from stowplan.config.policy.arguments import (
    PREDICATE_ARGUMENTS,
    PRIORITY_ARGUMENTS,
    Argument,
    PluginData,
)
from stowplan.config.policy.extenders import read_extender
from stowplan.gocompat.quoting import quote
from stowplan.plugins.legacy.names import PREDICATES, PRIORITIES, OldName

_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Named:
    """A predicate or priority that a Policy names.

    `given` is the name in the file, which can be of one's own where an argument says what is meant.
    """

    entry: OldName
    where: str
    given: str
    weight: int = 0
    args: PluginData = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Policy:
    """What a Policy says. A list that is None is not given, which is not the same as an empty one."""

    predicates: tuple[Named, ...] | None = None
    priorities: tuple[Named, ...] | None = None
    extenders: tuple[Mapping[str, Any], ...] = ()
    hard_pod_affinity_weight: int | None = None
    check_all: bool = False


def read_policy(data: bytes) -> Policy:
    """Read a Policy. Raises ConfigError."""
    fields = Fields(parse_document(data))
    _check_kind(fields)
    predicates = fields.objects("predicates")
    priorities = fields.objects("priorities")
    policy = Policy(
        None if predicates is None else _distinct([_predicate(one) for one in predicates]),
        None if priorities is None else _distinct([_priority(one) for one in priorities]),
        tuple(read_extender(tree, path) for path, tree in fields.elements("extenders") or ()),
        fields.number("hardPodAffinitySymmetricWeight", 0, 100) or None,
        fields.flag("alwaysCheckAllPredicates"),
    )
    fields.done("a Policy")
    _check_weights(policy.priorities or ())
    return policy


def _check_kind(fields: Fields) -> None:
    kind, version = fields.text("kind"), fields.text("apiVersion")
    if kind != "Policy":
        refuse("kind", f"expected Policy, got {quote(kind)}" if kind else "missing, expected Policy")
    if version != "v1":
        refuse("apiVersion", f"expected v1, got {quote(version)}" if version else "missing, expected v1")


def _predicate(fields: Fields) -> Named:
    entry, given, args = _named(fields, "predicate", PREDICATES, PREDICATE_ARGUMENTS)
    fields.done("a predicate")
    return Named(entry, fields.path, given, args=args)


def _priority(fields: Fields) -> Named:
    entry, given, args = _named(fields, "priority", PRIORITIES, PRIORITY_ARGUMENTS)
    weight = fields.number("weight", 1, _MOST)
    if weight is None:
        refuse(fields.at("weight"), f"missing for {given}, expected a number from 1")
    fields.done("a priority")
    return Named(entry, fields.path, given, weight, args)


def _named(
    fields: Fields, kind: str, known: Mapping[str, OldName], arguments: Mapping[str, Argument]
) -> tuple[OldName, str, PluginData]:
    """Which predicate or priority is meant, how it is called, and the arguments of its plugin."""
    name = fields.text("name")
    if not name:
        refuse(fields.at("name"), f"missing, expected the name of a {kind}")
    argument = fields.object("argument")
    if argument is None:
        if name not in known:
            refuse(fields.at("name"), f"unknown {kind} {quote(name)}")
        entry = known[name]
        if entry.argument:
            refuse(fields.path, f"{name} needs an argument {entry.argument}")
        return entry, name, {}
    chosen = [one for one in arguments if argument.has(one)]
    if len(chosen) != 1:
        argument_names = ", ".join(arguments)
        if not chosen:
            argument.done(f"an argument, which is one of {argument_names}")
        refuse(argument.path, f"expected one of {argument_names}")
    [field_name] = chosen
    entry = next(one for one in known.values() if one.argument == field_name)
    if name in known and known[name] is not entry:
        takes = f"takes {known[name].argument}" if known[name].argument else "takes no argument"
        refuse(argument.at(field_name), f"{name} {takes}")
    value = argument.object(field_name)
    assert value is not None
    args = arguments[field_name](value)
    value.done(field_name)
    argument.done("an argument")
    return entry, name, args


def _distinct(found: Sequence[Named]) -> tuple[Named, ...]:
    """A name stands once; several of one's own can mean the same predicate or priority."""
    seen: dict[str, str] = {}
    for one in found:
        if one.given in seen:
            refuse(f"{one.where}.name", f"{one.given} is there already as {seen[one.given]}")
        seen[one.given] = one.where
    return tuple(found)


def _check_weights(priorities: Sequence[Named]) -> None:
    """What is one plugin in the end has one weight, and stands once unless it is made to be repeated."""
    first: dict[str, Named] = {}
    for one in priorities:
        plugin = one.entry.meaning.uses[0].plugin
        earlier = first.setdefault(plugin, one)
        if earlier is one:
            continue
        names = f"{one.given} and {earlier.given}"
        if one.entry.argument not in ("labelPreference", "serviceAntiAffinity"):
            refuse(one.where, f"{names} are the same priority")
        if one.weight != earlier.weight:
            refuse(f"{one.where}.weight", f"{names} must have the same weight: they are one plugin, {plugin}")
