"""Checks if a scheduler with given credentials could schedule a cluster: read-only.

Access reviews are POST requests, but the API server stores none of them.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from stowplan.api.catalogue import LEASES, PODS, Resource, in_version
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.pod import Pod
from stowplan.api.releases import NEWEST, OLDEST_EMULATED, Version
from stowplan.api.requests import FieldTerm, Json, Selection
from stowplan.api.status import ApiError
from stowplan.client import Unreadable
from stowplan.client.election.locks import LEASES_LOCK
from stowplan.client.election.record import Record, UnreadableRecordError, of_lease_spec
from stowplan.client.http import HttpClient
from stowplan.client.interface import ANY_VERSION
from stowplan.config.types import SchedulerConfig
from stowplan.scheduler.watched import (
    AROUND_PODS,
    COMPOSITE_POD_GROUPS,
    COSCHEDULING_GROUPS,
    DEVICE_TAINT_RULES,
    DEVICES,
    NODES,
    POD_GROUPS,
    STORAGE,
    Watched,
)
from stowplan.scheduler.watched import PODS as PODS_WATCHED

SKEW_SECONDS: Final = 5.0
"""A difference of clocks that is worth a warning: a date has whole seconds, and the answer takes a while."""

_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_WHO: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
_BINDINGS: Final = "/apis/events.k8s.io/v1/events?fieldSelector=reason%3DScheduled&limit=200"
_SHOWN: Final = 20
"""Objects that are named."""
_UNBOUND: Final = Selection(fields=(FieldTerm("spec.nodeName", ""),))


class Level(StrEnum):
    """How a check went. After a failure pods would not be scheduled; a warning costs some feature.

    What is unknown could not be checked, and a scheduler does without.
    """

    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PreflightFinding:
    """Finding of a check: its subject, the facts, and what would not work because of them."""

    check: str
    level: Level
    message: str
    effect: str = ""
    facts: Json = field(default_factory=dict)

    def document(self) -> Json:
        return {
            "check": self.check,
            "level": str(self.level),
            "message": self.message,
            **({"effect": self.effect} if self.effect else {}),
            **self.facts,
        }


class Right(NamedTuple):
    """Something that a scheduler has to be allowed to do, and what suffers otherwise; "" if all does."""

    verbs: tuple[str, ...]
    group: str
    resource: str
    effect: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def shown(self) -> str:
        group = f".{self.group}" if self.group else ""
        name = f" {self.name}" if self.name else ""
        return f"{self.resource}{group}{name}" + (f" in {self.namespace}" if self.namespace else "")


_NO_REVIEWS: Final = "the secure port cannot tell who asks: /metrics and /configz are refused"
_NO_VOLUMES: Final = "pods with unbound volume claims wait"
_NO_DEVICES: Final = "pods with resource claims wait"
WRITES: Final = (
    Right(("create",), "", "pods/binding"),
    Right(
        ("patch",),
        "",
        "pods/status",
        "pods do not say why they are pending, and preemption nominates no node",
    ),
    Right(("delete",), "", "pods", "preemption evicts nothing"),
    Right(("create", "patch"), "events.k8s.io", "events", "there are no events of scheduling"),
    Right(("update", "patch"), "", "persistentvolumes", _NO_VOLUMES),
    Right(("update", "patch"), "", "persistentvolumeclaims", _NO_VOLUMES),
    Right(("update", "patch"), "resource.k8s.io", "resourceclaims", _NO_DEVICES),
    Right(("update", "patch"), "resource.k8s.io", "resourceclaims/status", _NO_DEVICES),
    Right(("create",), "authentication.k8s.io", "tokenreviews", _NO_REVIEWS),
    Right(("create",), "authorization.k8s.io", "subjectaccessreviews", _NO_REVIEWS),
    Right(
        ("get",),
        "",
        "configmaps",
        "client certificates are not accepted on the secure port",
        "kube-system",
        "extension-apiserver-authentication",
    ),
)


def watched_kinds(gates: FeatureGates) -> list[Watched]:
    """All that a scheduler of a release may watch."""
    optional = [DEVICE_TAINT_RULES] if gates["DRADeviceTaintRules"] else []
    if gates.coscheduling:
        optional.append(COSCHEDULING_GROUPS)
    if gates.built_in_pod_groups:
        optional += [POD_GROUPS, COMPOSITE_POD_GROUPS] if gates["CompositePodGroup"] else [POD_GROUPS]
    return [
        kind._replace(served=in_version(kind.served, gates.release.apis.get(kind.served.plural, "")))
        for kind in (PODS_WATCHED, NODES, *AROUND_PODS, *STORAGE, *DEVICES, *optional)
    ]


class Preflight:
    """The checks, in the order in which they are reported. Raises ApiError if the server does not answer."""

    def __init__(
        self,
        client: HttpClient,
        config: SchedulerConfig,
        gates: FeatureGates,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._config = config
        self._gates = gates
        self._now = now

    async def findings(self) -> AsyncIterator[PreflightFinding]:
        """Everything that is found, good or bad."""
        yield await self.server()
        yield await self._identity()
        yield await self.clock()
        missing: set[str] = set()
        for finding in await self._apis():
            missing.update(finding.facts.get("missing", ()))
            yield finding
        for finding in await self._rights(missing):
            yield finding
        yield await self._lease()
        yield await self._schedulers()
        yield await self._waiting()
        for finding in await self._objects(missing):
            yield finding

    # The server

    async def server(self) -> PreflightFinding:
        found = await self._client.get_path("/version")
        text = str(found.get("gitVersion", ""))
        facts = {"version": text, "emulated": self._gates.release.name}
        try:
            theirs = Version.parse(text.partition("+")[0])
        except ValueError:
            return PreflightFinding(
                "server", Level.WARNING, f"version {text!r} is not one of Kubernetes", facts=facts
            )
        ours = self._gates.release.minor
        if _go_together(ours, theirs):
            return PreflightFinding(
                "server", Level.OK, f"Kubernetes {text}, and stowplan is {ours}", facts=facts
            )
        best = min(max(theirs, OLDEST_EMULATED), NEWEST.minor)
        effect = "a scheduler may be one minor version older than the API server, not newer"
        if best != ours and _go_together(best, theirs):
            effect += f": use --emulated-version {best}"
        return PreflightFinding(
            "server", Level.WARNING, f"Kubernetes {text}, but stowplan is {ours}", effect, facts
        )

    async def _identity(self) -> PreflightFinding:
        try:
            review = await self._client.create(_WHO, {})
        except ApiError as error:
            if error.code == 401:
                return PreflightFinding(
                    "identity", Level.FAILED, error.message, "nothing works without credentials"
                )
            return PreflightFinding("identity", Level.WARNING, f"not known: {error.message}")
        user = review.get("status", {}).get("userInfo", {})
        name, groups = str(user.get("username", "")), list(user.get("groups") or [])
        return PreflightFinding("identity", Level.OK, name, facts={"user": name, "groups": groups})

    async def clock(self) -> PreflightFinding:
        before = self._now()
        theirs = await self._client.server_time()
        after = self._now()
        if theirs is None:
            return PreflightFinding("clock", Level.WARNING, "the API server does not tell its time")
        # A date has its fraction cut off.
        skew = round((before + after) / 2 - (theirs + 0.5), 1)
        facts = {"skewSeconds": skew}
        if abs(skew) <= SKEW_SECONDS:
            return PreflightFinding(
                "clock", Level.OK, "as that of the API server, to a few seconds", facts=facts
            )
        side = "ahead of" if skew > 0 else "behind"
        return PreflightFinding(
            "clock",
            Level.WARNING,
            f"this machine is {abs(skew):.0f} s {side} the API server",
            "times in leases, events and conditions are wrong; tokens and certificates may be refused",
            facts,
        )

    # Served APIs

    async def _apis(self) -> list[PreflightFinding]:
        """Kinds the server does not have, by API version."""
        kinds = watched_kinds(self._gates)
        versions = dict.fromkeys(kind.served.api_version for kind in kinds)
        served: dict[str, set[str]] = {}
        for version in versions:
            prefix = "/apis" if "/" in version else "/api"
            try:
                listed = await self._client.get_path(f"{prefix}/{version}")
            except ApiError as error:
                if error.code not in (403, 404):
                    raise
                listed = {}
            served[version] = {str(entry.get("name")) for entry in listed.get("resources") or ()}
        absent = [kind for kind in kinds if kind.served.plural not in served[kind.served.api_version]]
        if not absent:
            message = f"all {len(kinds)} kinds of {len(versions)} API versions are served"
            return [PreflightFinding("apis", Level.OK, message)]
        return [
            PreflightFinding(
                "apis",
                Level.WARNING if kind.without else Level.FAILED,
                f"{kind.served.plural} of {kind.served.api_version} are not served",
                kind.without or "no pod is scheduled",
                {"missing": [_name(kind.served)]},
            )
            for kind in absent
        ]

    # Permissions

    def needed_rights(self) -> list[Right]:
        """Permissions a scheduler needs on an API server."""
        reads = [
            Right(("list", "watch"), kind.served.group, kind.served.plural, kind.without)
            for kind in watched_kinds(self._gates)
        ]
        election = self._config.leader_election
        leases = []
        if election.leader_elect and election.resource_lock.endswith(LEASES_LOCK):
            place = ("", election.resource_namespace)
            leases = [
                Right(("get", "update"), LEASES.group, LEASES.plural, *place, election.resource_name),
                Right(("create",), LEASES.group, LEASES.plural, *place),
            ]
        return [*reads, *WRITES, *leases]

    async def _rights(self, missing: set[str]) -> list[PreflightFinding]:
        rights = [right for right in self.needed_rights() if _served_name(right) not in missing]
        asked = [(right, verb) for right in rights for verb in right.verbs]
        try:
            answers = await asyncio.gather(*(self._may(right, verb) for right, verb in asked))
        except ApiError as error:
            return [PreflightFinding("rights", Level.WARNING, f"cannot be checked: {error.message}")]
        denied: dict[Right, list[str]] = {}
        for (right, verb), allowed in zip(asked, answers, strict=True):
            if not allowed:
                denied.setdefault(right, []).append(verb)
        if not denied:
            return [PreflightFinding("rights", Level.OK, f"all {len(asked)} that are needed")]
        return [
            PreflightFinding(
                "rights",
                Level.WARNING if right.effect else Level.FAILED,
                f"may not {' or '.join(verbs)} {right.shown}",
                right.effect or _without(right),
                {"verbs": verbs, "group": right.group, "resource": right.resource},
            )
            for right, verbs in denied.items()
        ]

    async def _may(self, right: Right, verb: str) -> bool:
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "verb": verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "namespace": right.namespace,
            "name": right.name,
        }
        review = await self._client.create(_REVIEWS, {"spec": {"resourceAttributes": attributes}})
        return bool(review.get("status", {}).get("allowed"))

    # Current scheduler

    async def _lease(self) -> PreflightFinding:
        election = self._config.leader_election
        where = f"{election.resource_namespace}/{election.resource_name}"
        if not election.leader_elect:
            return PreflightFinding("lease", Level.OK, "leader election is off")
        if not election.resource_lock.endswith(LEASES_LOCK):
            return PreflightFinding(
                "lease", Level.WARNING, f"locks of kind {election.resource_lock} are not checked"
            )
        try:
            lease = await self._client.get(LEASES, election.resource_namespace, election.resource_name)
            record = of_lease_spec(lease.get("spec") or {})
        except UnreadableRecordError as error:
            return PreflightFinding(
                "lease", Level.WARNING, f"{where}: {error}", "it is taken over when it expires"
            )
        except ApiError as error:
            if error.is_not_found:
                return PreflightFinding("lease", Level.OK, f"{where} does not exist: nobody schedules by it")
            return PreflightFinding(
                "lease", Level.WARNING, f"{where}: {error.message}", "who schedules is not known"
            )
        return self._holder(where, record)

    def _holder(self, where: str, record: Record) -> PreflightFinding:
        age = None if record.renewed is None else round(self._now() - record.renewed, 1)
        facts = {
            "lease": where,
            "holder": record.holder,
            "renewedSecondsAgo": age,
            "leaseDurationSeconds": record.seconds,
            "transitions": record.transitions,
        }
        if not record.holder:
            return PreflightFinding("lease", Level.OK, f"{where} is free", facts=facts)
        if age is None or age > record.seconds:
            ended = "never renewed" if age is None else f"expired {age - record.seconds:.0f} s ago"
            return PreflightFinding(
                "lease", Level.OK, f"{where} was held by {record.holder}, {ended}", facts=facts
            )
        return PreflightFinding(
            "lease",
            Level.OK,
            f"{where} is held by {record.holder}, renewed {max(age, 0.0):.0f} s ago",
            "stowplan run would wait until the lease is released or expires",
            facts,
        )

    async def _schedulers(self) -> PreflightFinding:
        """Recent binders of pods. Schedulers themselves need not be allowed to read events."""
        try:
            listed = await self._client.get_path(_BINDINGS)
        except ApiError as error:
            return PreflightFinding("bound", Level.UNKNOWN, f"which schedulers bound pods: {error.message}")
        found = Counter(str(one.get("reportingController", "")) for one in listed.get("items") or ())
        named = ", ".join(f"{count} by {name or 'unknown'}" for name, count in found.most_common())
        return PreflightFinding(
            "bound", Level.OK, f"pods lately: {named or 'none'}", facts={"bound": dict(found)}
        )

    async def _waiting(self) -> PreflightFinding:
        """Pods without a node, by schedulerName: some may name a scheduler that does not run."""
        try:
            found = await self._client.list(PODS, Pod, selection=_UNBOUND)
        except ApiError as error:
            message = f"pods cannot be listed: {error.message}"
            return PreflightFinding("pending", Level.FAILED, message, "no pod is scheduled")
        ours = [profile.scheduler_name or "" for profile in self._config.profiles]
        waiting = Counter(pod.spec.scheduler_name for pod in found.items if not pod.is_finished)
        named = ", ".join(f"{count} for {name}" for name, count in sorted(waiting.items()))
        facts = {"pending": dict(waiting), "profiles": ours}
        mine = f"stowplan would schedule those for {' and '.join(ours)}"
        return PreflightFinding(
            "pending", Level.OK, f"pods without a node: {named or 'none'}; {mine}", facts=facts
        )

    # Objects in the cluster

    async def _objects(self, missing: set[str]) -> list[PreflightFinding]:
        """Objects that a scheduler would leave out because it cannot decode them. Kinds it may not list are
        found elsewhere.
        """
        read, found, forbidden = 0, list[PreflightFinding](), list[str]()
        for kind in watched_kinds(self._gates):
            if _name(kind.served) in missing:
                continue
            unreadable: dict[str, Unreadable] = {}
            try:
                parts = self._client.parts(kind.served, kind.cls, not_older_than=ANY_VERSION)
                async with aclosing(parts):
                    async for part in parts:
                        read += len(part.items)
                        unreadable.update((one.key, one) for one in part.unreadable)
            except ApiError as error:
                if error.code in (401, 403):
                    forbidden.append(kind.served.plural)
                elif error.code not in (404, 405):
                    message = f"{kind.served.qualified} cannot be listed: {error.message}"
                    level = Level.WARNING if kind.without else Level.FAILED
                    effect = kind.without or "no pod is scheduled"
                    found.append(PreflightFinding("objects", level, message, effect))
            found += [_left_out(kind, one) for one in unreadable.values()]
        if not found and forbidden:
            message = f"{read:,} can be read; {', '.join(forbidden)} may not be listed"
            return [PreflightFinding("objects", Level.UNKNOWN, message)]
        if not found:
            return [PreflightFinding("objects", Level.OK, f"all {read:,} can be read")]
        shown, others = found[:_SHOWN], len(found) - _SHOWN
        if others > 0:
            shown.append(PreflightFinding("objects", Level.WARNING, f"{others:,} more cannot be read"))
        return shown


def _left_out(kind: Watched, one: Unreadable) -> PreflightFinding:
    name = f"{kind.served.qualified} {one.key}"
    effect = "it is left out until it can be read" + (
        ": the pod is not scheduled, and does not count where it runs" if kind.served == PODS else ""
    )
    facts = {"resource": kind.served.qualified, "object": one.key}
    return PreflightFinding("objects", Level.WARNING, f"{name} cannot be read: {one.problem}", effect, facts)


def worst(findings: Sequence[PreflightFinding]) -> Level:
    """The level of all findings together."""
    return max((one.level for one in findings), key=list(Level).index, default=Level.OK)


def _go_together(scheduler: Version, server: Version) -> bool:
    return scheduler.major == server.major and 0 <= server.minor - scheduler.minor <= 1


def _name(served: Any) -> str:
    return f"{served.plural}.{served.group}"


def _served_name(right: Right) -> str:
    return f"{right.resource.partition('/')[0]}.{right.group}"


def _without(right: Right) -> str:
    return "it never becomes leader" if right.resource == LEASES.plural else "no pod is scheduled"
