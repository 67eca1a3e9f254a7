"""Pod Security admission: namespaces' labels choose a standard that pods are held to.

`enforce` refuses pods, `warn` warns the client of a pod or a workload whose pods it would refuse, `audit`
annotates the request. A namespace that gets a stricter level is told of pods in it that violate the level.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from stowplan.api import status
from stowplan.api.catalogue import (
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    POD_TEMPLATES,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from stowplan.api.fielderrors import FieldError, aggregate, invalid
from stowplan.api.releases import DEFAULT, Release
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.admission.attributes import CREATE, UPDATE, AdmissionAttributes
from stowplan.localcluster.admission.podsecurity.checks import (
    BASELINE,
    RESTRICTED,
    CheckFunction,
    Violation,
    checks_of,
)
from stowplan.localcluster.admission.refusals import forbidden_write
from stowplan.localcluster.store import DELETED, Store, StoreChange
from stowplan.localcluster.store.registry import Lookup
from stowplan.localcluster.store.writer import WriteContext

PRIVILEGED: Final = "privileged"
_LEVELS: Final = (PRIVILEGED, BASELINE, RESTRICTED)
_LATEST: Final = "latest"
_VERSION: Final = re.compile(r"v1\.(0|[1-9][0-9]*)")
_LABEL: Final = "pod-security.kubernetes.io/"
_MAX_PODS: Final = 3000
"""Pods of a namespace that are checked when it gets another level."""

_WITHOUT_PODS: Final = frozenset(
    ("exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status")
)
_TEMPLATES: Final[Mapping[Resource, tuple[str, ...]]] = {
    REPLICATION_CONTROLLERS: ("spec", "template"),
    POD_TEMPLATES: ("template",),
    REPLICA_SETS: ("spec", "template"),
    DEPLOYMENTS: ("spec", "template"),
    STATEFUL_SETS: ("spec", "template"),
    DAEMON_SETS: ("spec", "template"),
    JOBS: ("spec", "template"),
    CRON_JOBS: ("spec", "jobTemplate", "spec", "template"),
}


class Standard(NamedTuple):
    """A level and the version of its definition: `restricted:latest`."""

    level: str = PRIVILEGED
    version: str = _LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


class NamespacePolicy(NamedTuple):
    """Standards of a namespace by mode, and errors in its labels."""

    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()
    errors: tuple[FieldError, ...] = ()


_UNLABELLED: Final = NamespacePolicy()


def policy_of(labels: Mapping[str, str] | None) -> NamespacePolicy:
    """Policy of a namespace with these labels. A wrong level is `restricted` to those that are enforced."""
    if labels is None or not _is_labelled(labels):
        return _UNLABELLED
    errors: list[FieldError] = []
    enforce = _standard(labels, "enforce", RESTRICTED, errors)
    audit = _standard(labels, "audit", PRIVILEGED, errors)
    warn = _standard(labels, "warn", PRIVILEGED, errors)
    if f"{_LABEL}warn" not in labels and labels.get(f"{_LABEL}enforce") in (BASELINE, RESTRICTED):
        warn = warn._replace(level=enforce.level)
        if f"{_LABEL}warn-version" not in labels:
            warn = warn._replace(version=enforce.version)
    return NamespacePolicy(enforce, audit, warn, tuple(errors))


def _is_labelled(labels: Mapping[str, str] | None) -> bool:
    return any(label.startswith(_LABEL) for label in labels or ())


def _standard(labels: Mapping[str, str], mode: str, if_wrong: str, errors: list[FieldError]) -> Standard:
    level, version = labels.get(f"{_LABEL}{mode}", PRIVILEGED), labels.get(f"{_LABEL}{mode}-version", _LATEST)
    if level not in _LEVELS:
        errors.append(_wrong(f"{_LABEL}{mode}", level, f"must be one of {', '.join(_LEVELS)}"))
        level = if_wrong
    if version != _LATEST and not _VERSION.fullmatch(version):
        errors.append(_wrong(f"{_LABEL}{mode}-version", version, 'must be "latest" or "v1.x"'))
        version = _LATEST
    return Standard(level, version)


def _wrong(label: str, value: str, why: str) -> FieldError:
    return invalid(f"metadata.labels[{label}]", value, why)


class PodSecurity:
    """The admission plugin. `release` has the newest checks that there are."""

    def __init__(self, release: Release = DEFAULT) -> None:
        self._newest = int(release.version.split(".")[1])
        self._labelled: set[str] = set()
        """Namespaces with labels for it."""
        self.is_active = False

    def follow(self, store: Store) -> None:
        """Watch the namespaces of a store, in order to do nothing while none has labels."""
        if NAMESPACES in store.catalogue:
            store.watch(NAMESPACES, self._namespace_changed)
            metadata = (namespace["metadata"] for namespace in store.all(NAMESPACES))
            self._labelled = {one["name"] for one in metadata if _is_labelled(one.get("labels"))}
            self.is_active = bool(self._labelled)

    def _namespace_changed(self, change: StoreChange) -> None:
        metadata = change.object["metadata"]
        if change.type != DELETED and _is_labelled(metadata.get("labels")):
            self._labelled.add(metadata["name"])
        else:
            self._labelled.discard(metadata["name"])
        self.is_active = bool(self._labelled)

    def mutate(self, write: AdmissionAttributes) -> bool:
        return False

    def validate(self, write: AdmissionAttributes) -> None:
        """Raises `ApiError` 403 for a pod that its namespace does not admit."""
        if write.operation not in (CREATE, UPDATE):
            return
        resource = write.resource
        if resource == PODS:
            if write.subresource not in _WITHOUT_PODS:
                self._pod(write)
        elif not write.subresource and resource in _TEMPLATES:
            self._workload(write)

    def violations(self, standard: Standard, annotations: Json, spec: Json) -> list[Violation]:
        """Violations of a standard by a pod."""
        if standard.level == PRIVILEGED:
            return []
        found = _VERSION.fullmatch(standard.version)
        minor = self._newest if found is None else min(int(found[1]), self._newest)
        checks: Sequence[CheckFunction] = _checks(standard.level, minor)
        return [one for one in (check(annotations, spec) for check in checks) if one is not None]

    def _policy(self, write: AdmissionAttributes) -> NamespacePolicy:
        namespace = write.lookup.find(NAMESPACES, "", write.namespace)
        return _UNLABELLED if namespace is None else policy_of(namespace["metadata"].get("labels"))

    def _pod(self, write: AdmissionAttributes) -> None:
        policy, pod = self._policy(write), write.object
        if policy == _UNLABELLED or pod is None:
            return
        if write.operation == UPDATE and write.old is not None and not _is_significant(pod, write.old):
            return
        self._evaluate(write, policy, pod, enforce=True)

    def _workload(self, write: AdmissionAttributes) -> None:
        policy = self._policy(write)
        if policy.warn.level == policy.audit.level == PRIVILEGED and not policy.errors:
            return
        template = write.object
        for step in _TEMPLATES[write.resource]:
            template = (template or {}).get(step)
        if template is not None:
            self._evaluate(write, policy, template, enforce=False)

    def _evaluate(
        self, write: AdmissionAttributes, policy: NamespacePolicy, pod: Json, *, enforce: bool
    ) -> None:
        by = write.by
        annotations = (pod.get("metadata") or {}).get("annotations") or {}
        spec = pod.get("spec") or {}
        found: dict[Standard, str] = {}

        def detail(standard: Standard) -> str:
            if standard not in found:
                found[standard] = ", ".join(map(str, self.violations(standard, annotations, spec)))
            return found[standard]

        if policy.errors:
            by.annotate(f"{_LABEL}error", f"Failed to parse policy: {aggregate(policy.errors)}")
        if enforce:
            by.annotate(f"{_LABEL}enforce-policy", str(policy.enforce))
        if detail(policy.audit):
            text = f"would violate PodSecurity {quote(str(policy.audit))}: {detail(policy.audit)}"
            by.annotate(f"{_LABEL}audit-violations", text)
        if enforce and detail(policy.enforce):
            text = f"violates PodSecurity {quote(str(policy.enforce))}: {detail(policy.enforce)}"
            raise forbidden_write(write, text)
        if detail(policy.warn):
            by.warn(f"would violate PodSecurity {quote(str(policy.warn))}: {detail(policy.warn)}")

    def check_namespace(self, lookup: Lookup, old: Json | None, namespace: Json, by: WriteContext) -> None:
        """Raises `ApiError` 422 for wrong labels; warns about pods that violate a stricter level."""
        new = policy_of(namespace["metadata"].get("labels"))
        name = namespace["metadata"]["name"]
        if old is None:
            if new.errors:
                raise status.invalid(NAMESPACES, name, new.errors)
            return
        before = policy_of(old["metadata"].get("labels"))
        if new.errors and new.errors != before.errors:
            raise status.invalid(NAMESPACES, name, new.errors)
        if new.enforce == before.enforce or new.enforce.level == PRIVILEGED:
            return
        stricter = _LEVELS.index(new.enforce.level) > _LEVELS.index(before.enforce.level)
        if stricter or new.enforce.version != before.enforce.version:
            for warning in self._existing(lookup.within(PODS, name), name, new.enforce):
                by.warn(warning)

    def _existing(self, pods: Sequence[Json], namespace: str, standard: Standard) -> Iterator[str]:
        """Warnings about pods that are there and violate a new level."""
        chosen = _one_per_controller(pods)
        by_reason: dict[str, list[str]] = {}
        for pod in chosen[:_MAX_PODS]:
            annotations = pod["metadata"].get("annotations") or {}
            found = self.violations(standard, annotations, pod.get("spec") or {})
            if found:
                reason = ", ".join(one.reason for one in found)
                by_reason.setdefault(reason, []).append(pod["metadata"]["name"])
        if len(chosen) > _MAX_PODS:
            yield (
                "new PodSecurity enforce level only checked against the first "
                f"{_MAX_PODS} of {len(chosen)} existing pods"
            )
        if by_reason:
            yield (
                f"existing pods in namespace {quote(namespace)} violate the new PodSecurity enforce level "
                f"{quote(str(standard))}"
            )
        yield from sorted(f"{_some(names)}: {reason}" for reason, names in by_reason.items())


@lru_cache(maxsize=128)
def _checks(level: str, minor: int) -> tuple[CheckFunction, ...]:
    return checks_of(level, minor)


def _some(names: Sequence[str]) -> str:
    """The first of some pods by name, and how many others there are."""
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other {'pod' if others == 1 else 'pods'})"


def _one_per_controller(pods: Iterable[Json]) -> list[Json]:
    """The pods, those first that are no replicas of one before them."""
    first: list[Json] = []
    replicas: list[Json] = []
    seen: set[str] = set()
    for pod in pods:
        owners = pod["metadata"].get("ownerReferences") or ()
        owner = next((one.get("uid", "") for one in owners if one.get("controller")), "")
        if owner and owner in seen:
            replicas.append(pod)
        else:
            seen.add(owner)
            first.append(pod)
    return first + replicas


def _is_significant(pod: Json, old: Json) -> bool:
    """True if an update changes containers or their images."""
    new_spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    for field in ("containers", "initContainers"):
        images = [one.get("image") for one in new_spec.get(field) or ()]
        if images != [one.get("image") for one in old_spec.get(field) or ()]:
            return True
    before = {one["name"]: one.get("image") for one in old_spec.get("ephemeralContainers") or ()}
    return any(
        before.get(one["name"], _ABSENT) != one.get("image")
        for one in new_spec.get("ephemeralContainers") or ()
    )


_ABSENT: Final = object()
