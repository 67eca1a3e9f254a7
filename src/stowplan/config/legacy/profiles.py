"""Predicates, priorities and algorithm providers as profiles of v1: from names to plugins."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from stowplan.config.legacy.fields import refuse
from stowplan.config.legacy.policy import Policy, PolicyEntry, read_policy
from stowplan.config.load import ConfigError, LegacySettings
from stowplan.config.types import API_VERSION, ATTRIBUTES, KIND
from stowplan.gocompat.quoting import quote
from stowplan.scheduler.framework.interface import MULTI_POINT, ExtensionPoint
from stowplan.scheduler.plugins.legacy.names import (
    MANDATORY,
    ORDER,
    PREDICATES,
    PRIORITIES,
    PROVIDERS,
    RELEASES,
    Meaning,
    OldName,
    Use,
)
from stowplan.scheduler.plugins.registry import LEGACY, catalog

DEFAULT_PROVIDER: Final = "DefaultProvider"
LATEST_POLICY_RELEASE: Final = "1.18"
PREEMPTION: Final = Use("DefaultPreemption", (ExtensionPoint.PRE_ENQUEUE, ExtensionPoint.POST_FILTER))
COMMON_PLUGINS: Final = (
    Use("SchedulingGates", (ExtensionPoint.PRE_ENQUEUE,)),
    Use("PrioritySort", (ExtensionPoint.QUEUE_SORT,)),
    Use("DefaultBinder", (ExtensionPoint.BIND,)),
)
"""Plugins that were neither predicate nor priority, and are always present."""

_ADDITIVE_ARGUMENTS: Final = {"labelPreference", "serviceAntiAffinity"}
"""Arguments of priorities of which several can be one plugin, with the sum of their weights."""


@dataclass(frozen=True, slots=True)
class LegacyOptions:
    """Settings of flags, or of the configuration that names a Policy or provider. None: not set.

    A weight in the Policy itself wins.
    """

    scheduler_name: str = "default-scheduler"
    hard_pod_affinity_weight: int | None = None
    bind_timeout_seconds: int | None = None
    preemption: bool = True


@dataclass(frozen=True, slots=True)
class LegacyProfile:
    """A profile, notes on what differs, and by plugin the name of the priority it stands for."""

    profile: dict[str, Any]
    notes: tuple[str, ...]
    old_names: Mapping[str, str]


def policy_document(
    text: str | bytes, options: LegacyOptions, release: str
) -> tuple[dict[str, Any], LegacySettings]:
    """A Policy as a v1 document."""
    policy = read_policy(text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text)
    return _with_extenders(_profile_of_policy(policy, options, release), policy)


def provider_document(
    name: str, options: LegacyOptions, release: str = LATEST_POLICY_RELEASE
) -> tuple[dict[str, Any], LegacySettings]:
    """An algorithm provider as a v1 document; `release` counts if the name does not say one."""
    provider, _, wanted = name.partition("@")
    wanted = wanted or release
    if provider not in PROVIDERS or wanted not in RELEASES:
        known = ", ".join(sorted(PROVIDERS))
        releases = " or ".join(f"@{one}" for one in RELEASES)
        detail = f"unknown algorithm provider {quote(name)}: there are {known}, each also with {releases}"
        raise ConfigError("flags", detail)
    return _with_extenders(_profile_of_provider(provider, options, wanted), Policy())


def _with_extenders(choice: LegacyProfile, policy: Policy) -> tuple[dict[str, Any], LegacySettings]:
    extenders = {"extenders": list(policy.extenders)} if policy.extenders else {}
    legacy = LegacySettings(choice.notes, choice.old_names, policy.check_all)
    return v1_document([choice.profile], **extenders), legacy


def v1_document(profiles: list[dict[str, Any]], **others: Any) -> dict[str, Any]:
    """A whole v1 configuration as plain data."""
    return {"apiVersion": API_VERSION, "kind": KIND, **others, "profiles": profiles}


class ProfileBuilder:
    """Says exactly which plugins run where: what is not in a list does not run."""

    def __init__(self) -> None:
        self._lists: dict[ExtensionPoint, dict[str, int]] = {}
        self._disabled: dict[ExtensionPoint, list[str]] = {}
        self._everywhere: dict[str, int] = {}
        self._args: dict[str, dict[str, Any]] = {}

    def enable(self, use: Use, weight: int = 0) -> None:
        """Have a plugin run at its points, after those that are there; the first mention counts."""
        for point in use.points:
            self._lists.setdefault(point, {}).setdefault(use.plugin, weight if point.is_weighted else 0)
        if use.args:
            self.configure(use.plugin, use.args)

    def enable_all(self, uses: Iterable[Use], weight: int = 0) -> None:
        for use in uses:
            self.enable(use, weight)

    def enable_everywhere(self, plugin: str, weight: int) -> None:
        """Have a plugin run at every point it knows."""
        self._everywhere.setdefault(plugin, weight)

    def disable(self, plugin: str, point: ExtensionPoint) -> None:
        """Have a plugin that runs everywhere not run at a point."""
        self._disabled.setdefault(point, []).append(plugin)

    def configure(self, plugin: str, args: Mapping[str, Any]) -> None:
        """Add to the arguments of a plugin; lists grow, other values are set."""
        known = self._args.setdefault(plugin, {})
        for name, value in args.items():
            earlier = known.get(name)
            known[name] = [*earlier, *value] if isinstance(earlier, list) else value

    def uses(self, plugin: str, point: ExtensionPoint) -> bool:
        return plugin in self._lists.get(point, {}) or plugin in self._everywhere

    @property
    def plugins(self) -> frozenset[str]:
        """Every plugin that runs somewhere."""
        return frozenset(name for names in (*self._lists.values(), self._everywhere) for name in names)

    def args_of(self, plugin: str) -> Mapping[str, Any]:
        return self._args.get(plugin, {})

    def profile(self, scheduler_name: str) -> dict[str, Any]:
        """The profile as plain data."""
        lists: dict[str, Any] = {
            section: plugin_set
            for section in ATTRIBUTES
            if section != MULTI_POINT and (plugin_set := self._section(ExtensionPoint(section)))
        }
        lists[MULTI_POINT] = {"disabled": [{"name": "*"}]}
        if self._everywhere:
            lists[MULTI_POINT]["enabled"] = [_plugin_entry(*one) for one in self._everywhere.items()]
        profile: dict[str, Any] = {"schedulerName": scheduler_name, "plugins": lists}
        if self._args:
            profile["pluginConfig"] = [
                {"name": name, "args": dict(self._args[name])} for name in sorted(self._args)
            ]
        return profile

    def _section(self, point: ExtensionPoint) -> dict[str, Any]:
        section: dict[str, Any] = {}
        if self._lists.get(point):
            section["enabled"] = [_plugin_entry(*one) for one in self._lists[point].items()]
        if self._disabled.get(point):
            section["disabled"] = [_plugin_entry(name, 0) for name in self._disabled[point]]
        return section


def _plugin_entry(name: str, weight: int) -> dict[str, Any]:
    return {"name": name, "weight": weight} if weight else {"name": name}


def _profile_of_policy(policy: Policy, options: LegacyOptions, release: str) -> LegacyProfile:
    """The profile of a Policy. Raises ConfigError.

    A list that is absent stands for the default provider's; in 1.9 it still stood for an empty one.
    """
    defaults = PROVIDERS[DEFAULT_PROVIDER][release]
    if release == "1.9":
        default_predicates: tuple[PolicyEntry, ...] = ()
        default_priorities: tuple[PolicyEntry, ...] = ()
    else:
        default_predicates = tuple(_default_entry(PREDICATES[name]) for name in defaults.predicates)
        default_priorities = tuple(
            _default_entry(PRIORITIES[name], weight) for name, weight in defaults.priorities.items()
        )
    predicates = default_predicates if policy.predicates is None else policy.predicates
    priorities = default_priorities if policy.priorities is None else policy.priorities
    return _build_profile(predicates, priorities, policy, options, release)


def _profile_of_provider(name: str, options: LegacyOptions, release: str) -> LegacyProfile:
    """The profile of an algorithm provider."""
    provider = PROVIDERS[name][release]
    predicates = [_default_entry(PREDICATES[one]) for one in provider.predicates]
    priorities = [_default_entry(PRIORITIES[one], weight) for one, weight in provider.priorities.items()]
    return _build_profile(predicates, priorities, Policy(), options, release)


def _default_entry(entry: OldName, weight: int = 0) -> PolicyEntry:
    return PolicyEntry(entry, entry.name, entry.name, weight)


def _build_profile(
    predicates: Sequence[PolicyEntry],
    priorities: Sequence[PolicyEntry],
    policy: Policy,
    options: LegacyOptions,
    release: str,
) -> LegacyProfile:
    builder = ProfileBuilder()
    builder.enable_all(COMMON_PLUGINS)
    if options.preemption:
        builder.enable(PREEMPTION)
    found = [*predicates, *_missing_mandatory(predicates, release)]
    found.sort(key=lambda one: ORDER.index(one.entry.name))
    for one in found:
        builder.enable_all(one.entry.as_of(release).uses)
    old_names: dict[str, str] = {}
    for one in priorities:
        meaning = one.entry.as_of(release)
        builder.enable_all(meaning.uses, _weight(one, priorities))
        old_names.update(dict.fromkeys((use.plugin for use in meaning.uses), one.entry.name))
    for one in (*found, *priorities):
        if one.args:
            builder.configure(one.entry.as_of(release).uses[0].plugin, one.args)
    _check_labels(builder)
    _apply_options(builder, policy, options)
    notes = tuple(
        dict.fromkeys(
            note for one in (*found, *priorities) for note in name_notes(one.entry, one.entry.as_of(release))
        )
    )
    return LegacyProfile(builder.profile(options.scheduler_name), notes, old_names)


def _missing_mandatory(predicates: Sequence[PolicyEntry], release: str) -> list[PolicyEntry]:
    chosen = {one.entry.name for one in predicates}
    return [_default_entry(PREDICATES[name]) for name in MANDATORY[release] if name not in chosen]


def _weight(one: PolicyEntry, priorities: Sequence[PolicyEntry]) -> int:
    """The weight of the plugin: several priorities that are one plugin weigh as much as all of them."""
    if one.entry.argument not in _ADDITIVE_ARGUMENTS:
        return one.weight
    return sum(other.weight for other in priorities if other.entry is one.entry)


def _check_labels(builder: ProfileBuilder) -> None:
    """A label cannot be both present and absent."""
    args = builder.args_of("NodeLabel")
    for present, absent in (
        ("presentLabels", "absentLabels"),
        ("presentLabelsPreference", "absentLabelsPreference"),
    ):
        for label in args.get(absent, ()):
            if label in args.get(present, ()):
                refuse(f"label {label}", "is to be both present and absent")


def _apply_options(builder: ProfileBuilder, policy: Policy, options: LegacyOptions) -> None:
    weight = policy.hard_pod_affinity_weight
    weight = options.hard_pod_affinity_weight if weight is None else weight
    if weight is not None and builder.uses("InterPodAffinity", ExtensionPoint.SCORE):
        builder.configure("InterPodAffinity", {"hardPodAffinityWeight": weight})
    timeout = options.bind_timeout_seconds
    if timeout is not None and builder.uses("VolumeBinding", ExtensionPoint.PRE_BIND):
        builder.configure("VolumeBinding", {"bindTimeoutSeconds": timeout})
    if any(_ignores_resources(extender) for extender in policy.extenders):
        builder.configure("NodeResourcesFit", {})


def _ignores_resources(extender: Mapping[str, Any]) -> bool:
    return any(resource.get("ignoredByScheduler") for resource in extender.get("managedResources") or ())


def is_stowplan_only(plugin: str) -> bool:
    """True if kube-scheduler does not have the plugin any more."""
    return plugin in LEGACY or (plugin in catalog() and catalog()[plugin].on_request)


def name_notes(entry: OldName, meaning: Meaning) -> list[str]:
    """At most one line about a predicate or priority."""
    foreign = any(is_stowplan_only(use.plugin) for use in meaning.uses)
    if not foreign and meaning.exact:
        return []
    line = f"{entry.name}: runs as {', '.join(use.plugin for use in meaning.uses)}"
    if foreign:
        line += f", which kube-scheduler does not have{_nearest_upstream(entry)}"
    if not meaning.exact:
        line += f"; it differs: {meaning.note}"
    return [line]


def plugin_notes(name: str, runs_as: str) -> list[str]:
    """At most one line about a plugin of an earlier version, which may have another name here."""
    if not is_stowplan_only(runs_as):
        return []
    renamed = f" runs as {runs_as}, which" if runs_as != name else ""
    nearest = next(
        (
            _nearest_upstream(entry)
            for entry in (*PREDICATES.values(), *PRIORITIES.values())
            if any(use.plugin == runs_as for use in entry.meaning.uses)
        ),
        "",
    )
    return [f"{name}:{renamed} kube-scheduler does not have{'' if renamed else ' this plugin'}{nearest}"]


def _nearest_upstream(entry: OldName) -> str:
    return f" (nearest to it there: {entry.today})" if entry.today else ""
