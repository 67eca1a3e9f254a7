"""A KubeSchedulerConfiguration of a version before v1 as a v1 document."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stowplan.config.legacy.fields import LegacyFields, refuse
from stowplan.config.legacy.plugins import LEAST_ALLOCATED, add_plugins, read_arguments, read_sections
from stowplan.config.legacy.policy import read_extender
from stowplan.config.legacy.profiles import (
    DEFAULT_PROVIDER,
    PREEMPTION,
    LegacyOptions,
    ProfileBuilder,
    policy_document,
    provider_document,
    v1_document,
)
from stowplan.config.legacy.versions import LEGACY_LOCKS, VERSIONS, LegacyVersion, Lists
from stowplan.config.load import ConfigError, LegacySettings
from stowplan.gocompat.jsontext import ObjectNode, to_python
from stowplan.gocompat.quoting import quote
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.plugins.legacy.names import PROVIDERS

_UNCHANGED_FIELDS: Final = (
    "parallelism",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
)
"""Fields that are what they were; their values are checked when the document is read."""

_COMMON_FIELDS: Final = ("clientConnection", "enableProfiling", "enableContentionProfiling")
_ADDRESS_FIELDS: Final = ("healthzBindAddress", "metricsBindAddress")
_UNCHANGED_ELECTION_FIELDS: Final = ("leaderElect", "leaseDuration", "renewDeadline", "retryPeriod")
_RENAMED_ELECTION_FIELDS: Final = {
    "resourceName": "lockObjectName",
    "resourceNamespace": "lockObjectNamespace",
}
"""Names of fields in configurations of one profile."""


@dataclass(frozen=True, slots=True)
class PolicyReference:
    """A file by its path, or a ConfigMap by namespace and name.

    `connection` is how the configuration says the API server is reached, as plain data.
    """

    path: str = ""
    namespace: str = ""
    name: str = ""
    connection: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return self.path or f"ConfigMap {self.namespace}/{self.name}"


PolicyText = Callable[[PolicyReference], bytes]
"""Gets the text of a Policy."""


class LegacyConfiguration:
    """Converts a document of an earlier version to v1."""

    def __init__(self, fields: LegacyFields, api_version: str, policy_text: PolicyText) -> None:
        self._fields = fields
        self._version: LegacyVersion = VERSIONS[api_version]
        self._policy_text = policy_text
        self._notes: list[str] = []
        self._legacy = LegacySettings()
        self._policy_file = ""

    def convert(self) -> tuple[dict[str, Any], LegacySettings]:
        """The v1 document, and what v1 cannot say. Raises ConfigError."""
        fields, version = self._fields, self._version
        kept = [name for name in _UNCHANGED_FIELDS if name in version.fields] + list(_COMMON_FIELDS)
        others: dict[str, Any] = {name: fields.data(name) for name in kept if fields.has(name)}
        election, lock = _leader_election(fields.object("leaderElection"), version)
        if election:
            others["leaderElection"] = election
        self._note_removed_fields()
        options = self._options()
        if "profiles" in version.fields:
            document = self._with_profiles(options, others)
        else:
            document = self._with_algorithm(options, others)
        fields.done("this version of KubeSchedulerConfiguration")
        earlier = self._legacy
        notes = (*self._notes, *earlier.notes)
        return document, LegacySettings(
            notes, earlier.old_names, earlier.all_reasons, lock, self._policy_file
        )

    def _note_removed_fields(self) -> None:
        for name in _ADDRESS_FIELDS:
            if name in self._version.fields:
                address = self._fields.text(name)
                if address and not address.endswith(":0") and address != "0":
                    detail = "is not served; health and metrics are on the secure port (--secure-port)"
                    self._notes.append(f"{name}: {address} {detail}")
        if "failureDomains" in self._version.fields and self._fields.text("failureDomains"):
            detail = "has no effect; every term of pod affinity names its topology key"
            self._notes.append(f"failureDomains: {detail}")

    def _options(self) -> LegacyOptions:
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
        return LegacyOptions(scheduler_name or "default-scheduler", weight, timeout, preemption)

    def _with_algorithm(self, options: LegacyOptions, others: dict[str, Any]) -> dict[str, Any]:
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
            reference = _policy_reference(policy, others.get("clientConnection"))
            self._policy_file = reference.path
            text = self._policy_text(reference)
            try:
                document, self._legacy = policy_document(text, options, self._version.release)
            except ConfigError as error:
                raise error.located(str(reference)) from None
            return {**document, **others}
        adapted = plugins is not None or bool(args)
        if self._version.defaults and (not provider or (adapted and provider in PROVIDERS)):
            provider = provider or DEFAULT_PROVIDER
            profile = self._profile(options, plugins, args, _provider_lists(provider, self._version))
            return v1_document([profile], **others)
        if adapted:
            refuse("algorithmSource.provider", f"plugins cannot be used together with {provider}")
        document, self._legacy = provider_document(
            provider or DEFAULT_PROVIDER, options, self._version.release
        )
        return {**document, **others}

    def _with_profiles(self, options: LegacyOptions, others: dict[str, Any]) -> dict[str, Any]:
        extenders = self._fields.elements("extenders")
        if extenders and self._version.release == "1.18":
            others["extenders"] = [read_extender(tree, path) for path, tree in extenders]
        elif extenders:
            others["extenders"] = [to_python(tree) for _, tree in extenders]
        given = self._fields.objects("profiles") or [LegacyFields(ObjectNode(), "profiles[0]")]
        profiles = []
        for fields in given:
            name = fields.text("schedulerName")
            if not name and len(given) > 1:
                refuse(fields.at("schedulerName"), "missing, expected a name for each of several profiles")
            plugins, args = fields.object("plugins"), fields.objects("pluginConfig")
            fields.done("a profile in this version")
            own = LegacyOptions(
                name or "default-scheduler", None, options.bind_timeout_seconds, options.preemption
            )
            profiles.append(self._profile(own, plugins, args, self._version.defaults))
        return v1_document(profiles, **others)

    def _profile(
        self,
        options: LegacyOptions,
        plugins: LegacyFields | None,
        args: list[LegacyFields] | None,
        defaults: Lists,
    ) -> dict[str, Any]:
        version = self._version
        builder = ProfileBuilder()
        if version.release == "1.18" and options.preemption:
            builder.enable(PREEMPTION)
        notes = add_plugins(builder, read_sections(plugins, version), defaults, version)
        self._notes += [note for note in notes if note not in self._notes]
        given = read_arguments(args, builder.plugins, version)
        for plugin, values in given.items():
            builder.configure(plugin, values)
        if options.hard_pod_affinity_weight is not None:
            if "InterPodAffinity" in given:
                refuse(
                    "hardPodAffinitySymmetricWeight", "InterPodAffinity has arguments in pluginConfig, too"
                )
            builder.configure("InterPodAffinity", {"hardPodAffinityWeight": options.hard_pod_affinity_weight})
        if options.bind_timeout_seconds is not None and builder.uses(
            "VolumeBinding", ExtensionPoint.PRE_BIND
        ):
            builder.configure("VolumeBinding", {"bindTimeoutSeconds": options.bind_timeout_seconds})
        return builder.profile(options.scheduler_name)


def _provider_lists(provider: str, version: LegacyVersion) -> Lists:
    if provider == DEFAULT_PROVIDER:
        return version.defaults
    packing = {LEAST_ALLOCATED: "NodeResourcesMostAllocated"}
    return {
        section: tuple((packing.get(name, name), weight) for name, weight in plugins)
        for section, plugins in version.defaults.items()
    }


def _policy_reference(policy: LegacyFields, connection: Any) -> PolicyReference:
    """Source of the Policy in `algorithmSource.policy`. Raises ConfigError."""
    file, configmap = policy.object("file"), policy.object("configMap")
    policy.done("the source of a Policy")
    if (file is None) == (configmap is None):
        refuse(policy.path, "expected one of file, configMap")
    if file is not None:
        path = file.text("path")
        file.done("a file")
        if not path:
            refuse(file.at("path"), "missing, expected the path of a Policy")
        return PolicyReference(path=path)
    assert configmap is not None
    namespace, name = configmap.text("namespace") or "kube-system", configmap.text("name")
    configmap.done("a ConfigMap")
    if not name:
        refuse(configmap.at("name"), "missing, expected the name of a ConfigMap")
    return PolicyReference(namespace=namespace, name=name, connection=connection)


def _leader_election(given: LegacyFields | None, version: LegacyVersion) -> tuple[dict[str, Any], str]:
    """The section as in v1, and the lock if it is one that v1 does not have.

    Raises ConfigError.
    """
    if given is None:
        return {}, _legacy_lock(version.lock)
    election: dict[str, Any] = {
        name: given.data(name) for name in _UNCHANGED_ELECTION_FIELDS if given.has(name)
    }
    lock = given.text("resourceLock") or version.lock
    if lock != "leases" and not _legacy_lock(lock):
        refuse(given.at("resourceLock"), f"unknown lock {quote(lock)}")
    for name, earlier in _RENAMED_ELECTION_FIELDS.items():
        value = given.text(name)
        if "schedulerName" in version.fields:
            older = given.text(earlier)
            if value and older and value != older:
                refuse(given.at(earlier), f"{quote(older)} contradicts {name}, {quote(value)}")
            value = value or older
        if value:
            election[name] = value
    given.done("leader election in this version")
    return election, _legacy_lock(lock)


def _legacy_lock(lock: str) -> str:
    return lock if lock in LEGACY_LOCKS else ""
