"""A configuration of an earlier version as a document of today."""

from collections.abc import Callable
from typing import Any, Final

from stowplan.config.errors import ConfigError
from stowplan.config.fields import Fields, refuse
from stowplan.config.heritage import Heritage
from stowplan.config.old.arguments import read_arguments
from stowplan.config.old.election import read_election
from stowplan.config.old.plugins import LEAST_ALLOCATED, fill, read_sections
from stowplan.config.old.source import PolicyReference, read_reference
from stowplan.config.old.versions import VERSIONS, Lists, Version
from stowplan.config.policy.choice import DEFAULT_PROVIDER, Around
from stowplan.config.policy.configs import at_place, policy_document, provider_document
from stowplan.config.policy.document import PREEMPTION, ProfileDocument, configuration
from stowplan.config.policy.extenders import read_extender
from stowplan.framework.points import Point
from stowplan.gocompat.jsontext import ObjectNode, to_python
from stowplan.plugins.legacy.names import PROVIDERS

PolicyText = Callable[[PolicyReference], bytes]
"""Gets the text of a Policy."""

_KEPT: Final = (
    "parallelism",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
)
"""Fields that are what they were; their values are checked when the document is read."""

_EVERYWHERE: Final = ("clientConnection", "enableProfiling", "enableContentionProfiling")
_ADDRESSES: Final = ("healthzBindAddress", "metricsBindAddress")


class OldConfiguration:
    """A document of an earlier version on its way to one of today."""

    def __init__(self, fields: Fields, api_version: str, policy_text: PolicyText) -> None:
        self._fields = fields
        self._version: Version = VERSIONS[api_version]
        self._policy_text = policy_text
        self._notes: list[str] = []
        self._heritage = Heritage()
        self._policy_file = ""

    def convert(self) -> tuple[dict[str, Any], Heritage]:
        """The document of today, and what it cannot say. Raises ConfigError."""
        fields, version = self._fields, self._version
        kept = [name for name in _KEPT if name in version.fields] + list(_EVERYWHERE)
        others: dict[str, Any] = {name: fields.data(name) for name in kept if fields.has(name)}
        election, lock = read_election(fields.object("leaderElection"), version)
        if election:
            others["leaderElection"] = election
        self._what_is_gone()
        around = self._around()
        if "profiles" in version.fields:
            document = self._with_profiles(around, others)
        else:
            document = self._with_algorithm(around, others)
        fields.done("this version of KubeSchedulerConfiguration")
        earlier = self._heritage
        notes = (*self._notes, *earlier.notes)
        return document, Heritage(notes, earlier.old_names, earlier.all_reasons, lock, self._policy_file)

    def _what_is_gone(self) -> None:
        for name in _ADDRESSES:
            if name in self._version.fields:
                address = self._fields.text(name)
                if address and not address.endswith(":0") and address != "0":
                    detail = "is not served; health and metrics are on the secure port (--secure-port)"
                    self._notes.append(f"{name}: {address} {detail}")
        if "failureDomains" in self._version.fields and self._fields.text("failureDomains"):
            detail = "has no effect; every term of pod affinity names its topology key"
            self._notes.append(f"failureDomains: {detail}")

    def _around(self) -> Around:
        fields, version = self._fields, self._version
        weight = timeout = None
        scheduler_name = ""
        preemption = True
        if "schedulerName" in version.fields:
            scheduler_name = fields.text("schedulerName")
            weight = fields.number("hardPodAffinitySymmetricWeight", 0, 100)
            if version.release == "1.9":
                weight = weight or None
        if "bindTimeoutSeconds" in version.fields:
            timeout = fields.number("bindTimeoutSeconds", 0)
        if "disablePreemption" in version.fields:
            preemption = not fields.flag("disablePreemption")
        return Around(scheduler_name or "default-scheduler", weight, timeout, preemption)

    def _with_algorithm(self, around: Around, others: dict[str, Any]) -> dict[str, Any]:
        """One profile, by a provider or by a Policy."""
        source = self._fields.object("algorithmSource")
        policy = source.object("policy") if source is not None else None
        provider = source.text("provider") if source is not None else ""
        if source is not None:
            source.done("an algorithm source")
        plugins, args = None, None
        if "plugins" in self._version.fields:
            plugins, args = self._fields.object("plugins"), self._fields.objects("pluginConfig")
        if policy is not None:
            if provider:
                refuse(policy.path, f"there is a provider, too ({provider}); expected one of them")
            if plugins is not None or args:
                refuse(policy.path, "a Policy and plugins or pluginConfig cannot be used together")
            reference = read_reference(policy, others.get("clientConnection"))
            self._policy_file = reference.path
            text = self._policy_text(reference)
            try:
                document, self._heritage = policy_document(text, around, self._version.release)
            except ConfigError as error:
                raise at_place(str(reference), error) from None
            return {**document, **others}
        adapted = plugins is not None or bool(args)
        if self._version.defaults and (not provider or (adapted and provider in PROVIDERS)):
            provider = provider or DEFAULT_PROVIDER
            profile = self._profile(around, plugins, args, _lists_of(provider, self._version))
            return configuration([profile], **others)
        if adapted:
            refuse("algorithmSource.provider", f"plugins cannot be used together with {provider}")
        document, self._heritage = provider_document(
            provider or DEFAULT_PROVIDER, around, self._version.release
        )
        return {**document, **others}

    def _with_profiles(self, around: Around, others: dict[str, Any]) -> dict[str, Any]:
        extenders = self._fields.elements("extenders")
        if extenders and self._version.release == "1.18":
            others["extenders"] = [read_extender(tree, path) for path, tree in extenders]
        elif extenders:
            others["extenders"] = [to_python(tree) for _, tree in extenders]
        given = self._fields.objects("profiles") or [Fields(ObjectNode(), "profiles[0]")]
        profiles = []
        for fields in given:
            name = fields.text("schedulerName")
            if not name and len(given) > 1:
                refuse(fields.at("schedulerName"), "missing, expected a name for each of several profiles")
            plugins, args = fields.object("plugins"), fields.objects("pluginConfig")
            fields.done("a profile in this version")
            own = Around(name or "default-scheduler", None, around.bind_timeout_seconds, around.preemption)
            profiles.append(self._profile(own, plugins, args, self._version.defaults))
        return configuration(profiles, **others)

    def _profile(
        self, around: Around, plugins: Fields | None, args: list[Fields] | None, defaults: Lists
    ) -> dict[str, Any]:
        version = self._version
        made = ProfileDocument()
        if version.release == "1.18" and around.preemption:
            made.enable(PREEMPTION)
        notes = fill(made, read_sections(plugins, version), defaults, version)
        self._notes += [note for note in notes if note not in self._notes]
        given = read_arguments(args, made.plugins, version)
        for plugin, values in given.items():
            made.configure(plugin, values)
        if around.hard_pod_affinity_weight is not None:
            if "InterPodAffinity" in given:
                refuse(
                    "hardPodAffinitySymmetricWeight", "InterPodAffinity has arguments in pluginConfig, too"
                )
            made.configure("InterPodAffinity", {"hardPodAffinityWeight": around.hard_pod_affinity_weight})
        if around.bind_timeout_seconds is not None and made.uses("VolumeBinding", Point.PRE_BIND):
            made.configure("VolumeBinding", {"bindTimeoutSeconds": around.bind_timeout_seconds})
        return made.profile(around.scheduler_name)


def _lists_of(provider: str, version: Version) -> Lists:
    if provider == DEFAULT_PROVIDER:
        return version.defaults
    packing = {LEAST_ALLOCATED: "NodeResourcesMostAllocated"}
    return {
        section: tuple((packing.get(name, name), weight) for name, weight in plugins)
        for section, plugins in version.defaults.items()
    }
