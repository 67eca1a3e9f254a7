"""From names to plugins: what a choice of predicates and priorities comes to in a profile of today."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stowplan.config.fields import refuse
from stowplan.config.policy.document import ALWAYS, PREEMPTION, ProfileDocument
from stowplan.config.policy.notes import about
from stowplan.config.policy.reading import Named, Policy
from stowplan.framework.points import Point
from stowplan.plugins.legacy.names import (
    MANDATORY,
    ORDER,
    PREDICATES,
    PRIORITIES,
    PROVIDERS,
    OldName,
)

DEFAULT_PROVIDER: Final = "DefaultProvider"
LATEST: Final = "1.18"
_GROWING: Final = {"labelPreference", "serviceAntiAffinity"}
"""Arguments of priorities of which several can be one plugin, with the sum of their weights."""


@dataclass(frozen=True, slots=True)
class Around:
    """What is said beside a Policy or a provider: by flags, or by the configuration that names it.

    None: nothing. What a Policy says about the weight itself counts more.
    """

    scheduler_name: str = "default-scheduler"
    hard_pod_affinity_weight: int | None = None
    bind_timeout_seconds: int | None = None
    preemption: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """A profile, what there is to say about it, and by plugin the name of the priority it stands for."""

    profile: dict[str, Any]
    notes: tuple[str, ...]
    old_names: Mapping[str, str]


def choose(policy: Policy, around: Around, release: str) -> Choice:
    """The profile that a Policy comes to. Raises ConfigError.

    A list that is absent stands for the default provider's; in 1.9 it still stood for an empty one.
    """
    defaults = PROVIDERS[DEFAULT_PROVIDER][release]
    if release == "1.9":
        standard: tuple[Named, ...] = ()
        usual: tuple[Named, ...] = ()
    else:
        standard = tuple(_standard(PREDICATES[name]) for name in defaults.predicates)
        usual = tuple(_standard(PRIORITIES[name], weight) for name, weight in defaults.priorities.items())
    predicates = standard if policy.predicates is None else policy.predicates
    priorities = usual if policy.priorities is None else policy.priorities
    return _combine(predicates, priorities, policy, around, release)


def choose_provider(name: str, around: Around, release: str) -> Choice:
    """The profile of an algorithm provider."""
    provider = PROVIDERS[name][release]
    predicates = [_standard(PREDICATES[one]) for one in provider.predicates]
    priorities = [_standard(PRIORITIES[one], weight) for one, weight in provider.priorities.items()]
    return _combine(predicates, priorities, Policy(), around, release)


def _standard(entry: OldName, weight: int = 0) -> Named:
    return Named(entry, entry.name, entry.name, weight)


def _combine(
    predicates: Sequence[Named], priorities: Sequence[Named], policy: Policy, around: Around, release: str
) -> Choice:
    made = ProfileDocument()
    made.enable_all(ALWAYS)
    if around.preemption:
        made.enable(PREEMPTION)
    found = [*predicates, *_mandatory(predicates, release)]
    found.sort(key=lambda one: ORDER.index(one.entry.name))
    for one in found:
        made.enable_all(one.entry.as_of(release).uses)
    old_names: dict[str, str] = {}
    for one in priorities:
        meaning = one.entry.as_of(release)
        made.enable_all(meaning.uses, _weight(one, priorities))
        old_names.update(dict.fromkeys((use.plugin for use in meaning.uses), one.entry.name))
    for one in (*found, *priorities):
        if one.args:
            made.configure(one.entry.as_of(release).uses[0].plugin, one.args)
    _check_labels(made)
    _set_around(made, policy, around)
    notes = tuple(
        dict.fromkeys(
            note for one in (*found, *priorities) for note in about(one.entry, one.entry.as_of(release))
        )
    )
    return Choice(made.profile(around.scheduler_name), notes, old_names)


def _mandatory(predicates: Sequence[Named], release: str) -> list[Named]:
    chosen = {one.entry.name for one in predicates}
    return [_standard(PREDICATES[name]) for name in MANDATORY[release] if name not in chosen]


def _weight(one: Named, priorities: Sequence[Named]) -> int:
    """The weight of the plugin: several priorities that are one plugin weigh as much as all of them."""
    if one.entry.argument not in _GROWING:
        return one.weight
    return sum(other.weight for other in priorities if other.entry is one.entry)


def _check_labels(made: ProfileDocument) -> None:
    """A label cannot be wished for and away at once."""
    args = made.args_of("NodeLabel")
    for present, absent in (
        ("presentLabels", "absentLabels"),
        ("presentLabelsPreference", "absentLabelsPreference"),
    ):
        for label in args.get(absent, ()):
            if label in args.get(present, ()):
                refuse(f"label {label}", "is to be both present and absent")


def _set_around(made: ProfileDocument, policy: Policy, around: Around) -> None:
    weight = policy.hard_pod_affinity_weight
    weight = around.hard_pod_affinity_weight if weight is None else weight
    if weight is not None and made.uses("InterPodAffinity", Point.SCORE):
        made.configure("InterPodAffinity", {"hardPodAffinityWeight": weight})
    timeout = around.bind_timeout_seconds
    if timeout is not None and made.uses("VolumeBinding", Point.PRE_BIND):
        made.configure("VolumeBinding", {"bindTimeoutSeconds": timeout})
    if any(_ignores_resources(extender) for extender in policy.extenders):
        made.configure("NodeResourcesFit", {})


def _ignores_resources(extender: Mapping[str, Any]) -> bool:
    return any(resource.get("ignoredByScheduler") for resource in extender.get("managedResources") or ())
