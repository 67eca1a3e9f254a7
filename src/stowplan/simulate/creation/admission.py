"""The API server of a simulated cluster: its admission, and what quotas still allow.

Rules are those of `localcluster.admission`, in a store that has what they read of a cluster. Objects are
admitted there as in a dry run; the caller adds them to the simulated cluster. Quotas are charged separately,
because a charge is undone when a fork of the cluster ends.
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from random import Random
from typing import Final, NamedTuple

import msgspec

from stowplan.api import catalogue
from stowplan.api.admission import READ, ResourceQuota
from stowplan.api.catalogue import Resource
from stowplan.api.gates.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.api.meta import Object
from stowplan.api.quantity import Quantity
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.admission import ClusterAdmission, create_default_account
from stowplan.localcluster.admission.bootstrap import SYSTEM_PRIORITIES
from stowplan.localcluster.admission.plugins import PLUGIN_NAMES
from stowplan.localcluster.admission.plugins.resourcequota import charge_quotas
from stowplan.localcluster.objects.groupfeatures import GroupFeatures
from stowplan.localcluster.quota import amounts_of, as_text, evaluator_for, total_usage
from stowplan.localcluster.quota.usage import in_scopes
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.writer import API_SERVER
from stowplan.runtime.clock import DEFAULT_START
from stowplan.simulate.snapshot.files import SnapshotError

_DRY_RUN: Final = API_SERVER._replace(dry_run=True)
_ELSEWHERE: Final = ("ResourceQuota", "TaintNodesByCondition")
"""Left out: `Quotas` charges quotas, and a node of a manifest is one that is ready."""


class _StandingClock:
    """A clock that stands still: nothing that is asked here depends on the time."""

    def now(self) -> float:
        return DEFAULT_START

    def monotonic(self) -> float:
        return DEFAULT_START


class AdmissionStore:
    """The chain of defaults, plugins and validation over the objects of a cluster that it reads.

    Without `plugins` there are defaults and validation alone, which need no cluster.
    """

    def __init__(
        self,
        objects: Iterable[Object] = (),
        gates: FeatureGates = DEFAULT_GATES,
        *,
        plugins: bool = True,
    ) -> None:
        groups = GroupFeatures.of(gates) if plugins else GroupFeatures()
        self._served = frozenset(groups.catalogue())
        self._rng = Random(0)
        self._store = Store(
            _StandingClock(),
            self._rng,
            admission=ClusterAdmission(
                disabled=_ELSEWHERE if plugins else PLUGIN_NAMES, groups=groups, gates=gates
            ),
        )
        for obj in objects:
            resource = READ.get(type(obj))
            if resource is not None:
                self._load(resource, obj)
        for name, (value, _) in SYSTEM_PRIORITIES.items():
            if self._store.find(catalogue.PRIORITY_CLASSES, "", name) is None:
                self._store.create(catalogue.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})

    def _load(self, resource: Resource, obj: Object) -> None:
        """Take in an object of the cluster; what somebody wrote by hand gets what the server sets."""
        body: Json = msgspec.to_builtins(obj)
        body |= {"apiVersion": resource.api_version, "kind": resource.kind}
        try:
            if resource.namespaced:
                self._ensure_namespace(body["metadata"].setdefault("namespace", "default"))
            if "uid" in body["metadata"]:
                body["metadata"].setdefault("creationTimestamp", self._store.stamp())
                self._store.load(resource, body, handed_over=True)
            else:
                self._store.create(resource, body, handed_over=True)
        except ApiError as error:
            raise SnapshotError(f"{resource.kind} {obj.key}: {error.message}") from None

    def admitted(self, resource: Resource, body: Json) -> Json:
        """The object as the API server would store it. Raises ApiError if it refuses it.

        Namespaces and service accounts that are not known are taken to exist. The uid follows from the name.
        """
        metadata = body["metadata"]
        if resource.namespaced:
            self._ensure_namespace(metadata["namespace"])
        if resource == catalogue.PODS:
            self._ensure_account(body)
        self._rng.seed(f"{resource.plural} {metadata.get('namespace')}/{metadata.get('name')}")
        return self._store.create(resource, body, by=_DRY_RUN)

    def serves(self, resource: Resource) -> bool:
        """True if there is such a kind: some belong to feature gates."""
        return resource in self._served

    def _ensure_namespace(self, name: str) -> None:
        if self._store.find(catalogue.NAMESPACES, "", name) is None:
            self._store.create(catalogue.NAMESPACES, {"metadata": {"name": name}})
        create_default_account(self._store, name)

    def _ensure_account(self, pod: Json) -> None:
        spec, namespace = pod.get("spec") or {}, pod["metadata"]["namespace"]
        name = spec.get("serviceAccountName") or spec.get("serviceAccount")
        if name and self._store.find(catalogue.SERVICE_ACCOUNTS, namespace, name) is None:
            self._store.create(
                catalogue.SERVICE_ACCOUNTS, {"metadata": {"name": name, "namespace": namespace}}
            )


class Charged(NamedTuple):
    """Number of objects that quotas allow, and the reason why no more."""

    allowed: int
    refusal: str = ""


_COUNTED: Final = (
    catalogue.PODS,
    catalogue.PERSISTENT_VOLUME_CLAIMS,
    catalogue.RESOURCE_CLAIMS,
    catalogue.RESOURCE_CLAIM_TEMPLATES,
    catalogue.SERVICES,
    catalogue.REPLICATION_CONTROLLERS,
    catalogue.REPLICA_SETS,
    catalogue.STATEFUL_SETS,
    catalogue.RESOURCE_QUOTAS,
)
"""Kinds of which a snapshot has all objects."""


class Quotas:
    """Quotas of a cluster and what is used of them.

    `quotas` has them as they were read, by `namespace/name`, and `used` what has been charged since; `keep`
    writes there, so that a fork can undo it. `objects` gives the objects of a kind in a namespace.
    """

    def __init__(
        self,
        quotas: Callable[[], Iterable[ResourceQuota]],
        objects: Callable[[Resource, str], Iterable[Object]],
        used: Mapping[str, Json],
        keep: Callable[[str, Json], None],
    ) -> None:
        self._quotas = quotas
        self._objects = objects
        self._used = used
        self._keep = keep

    def within(self, resource: Resource, namespace: str) -> list[Json]:
        """The quotas of a namespace, as admission reads them."""
        return [self._known(one) for one in self._quotas() if one.namespace == namespace]

    def rewrite(self, resource: Resource, old: Json, new: Json) -> None:
        """Keep a quota that was charged."""
        metadata = new["metadata"]
        self._keep(f"{metadata['namespace']}/{metadata['name']}", new)

    def _known(self, quota: ResourceQuota) -> Json:
        known = self._used.get(quota.key)
        if known is not None:
            return known
        body: Json = msgspec.to_builtins(quota)
        if not quota.status.hard and quota.spec.hard:
            body["status"] = self._counted(body)
        return body

    def _counted(self, quota: Json) -> Json:
        """The status that the quota controller would write for a quota that has none.

        Objects of kinds that a snapshot does not contain, such as Jobs, count from 0: a quota without status
        is a new one, and without a figure every object of such a kind would be refused.
        """

        def bodies(resource: Resource) -> Iterable[Json]:
            for obj in self._objects(resource, quota["metadata"]["namespace"]):
                yield msgspec.to_builtins(obj)

        hard = quota["spec"]["hard"]
        used = {**dict.fromkeys(hard, "0"), **total_usage(quota, _COUNTED, bodies, 0.0)}
        return {"hard": dict(hard), "used": used}

    def charge(
        self, resource: Resource, obj: Json, count: int = 1, name: Callable[[int], str] | None = None
    ) -> Charged:
        """Charge for objects that are equal but for their names, as many of them as quotas allow.

        After the first of them the rest is arithmetic: each uses the same amounts. What ends it is in the
        words of the API server.
        """
        namespace = obj["metadata"].get("namespace", "")
        done = 0
        while done < count:
            before = {one["metadata"]["name"]: one for one in self.within(resource, namespace)}
            if name is not None:
                obj = {**obj, "metadata": {**obj["metadata"], "name": name(done)}}
            try:
                commit = charge_quotas(self, resource, None, obj, "")
            except ApiError as error:
                return Charged(done, error.message)
            if commit is None:
                return Charged(count)
            commit()
            done += 1
            done += self._charge_more(before, self.within(resource, namespace), count - done)
        return Charged(done)

    def _charge_more(self, before: Mapping[str, Json], after: Iterable[Json], most: int) -> int:
        """Charge what was charged last up to `most` times more; how often that was possible."""
        steps: list[tuple[Json, dict[str, Quantity]]] = []
        for quota in after:
            if "status" not in quota:
                continue
            old = amounts_of(before[quota["metadata"]["name"]]["status"].get("used"))
            new, hard = amounts_of(quota["status"].get("used")), amounts_of(quota["status"]["hard"])
            step = {name: used.sub(old[name]) for name, used in new.items() if used != old.get(name)}
            for name, amount in step.items():
                most = min(most, _exact(hard[name].sub(new[name])) // _exact(amount))
            steps.append((quota, step))
        for quota, step in steps if most else ():
            used = amounts_of(quota["status"]["used"])
            used |= {name: used[name].add(one.times(Quantity(most))) for name, one in step.items()}
            self.rewrite(catalogue.RESOURCE_QUOTAS, quota, _with_used(quota, used))
        return most

    def release(self, resource: Resource, obj: Object) -> None:
        """Give back what an object was charged for."""
        quotas = self.within(resource, obj.namespace)
        if not quotas:
            return
        evaluator, body = evaluator_for(resource), msgspec.to_builtins(obj)
        given = evaluator.usage(body, 0.0)
        for quota in quotas:
            used = amounts_of((quota.get("status") or {}).get("used"))
            back = {name: amount for name, amount in given.items() if name in used}
            if back and in_scopes(quota, evaluator, body):
                less = {name: used[name].sub(amount) for name, amount in back.items()}
                left = {name: amount if amount.sign >= 0 else Quantity(0) for name, amount in less.items()}
                self.rewrite(catalogue.RESOURCE_QUOTAS, quota, _with_used(quota, {**used, **left}))


def _exact(amount: Quantity) -> Fraction:
    return amount.mantissa * Fraction(10) ** amount.scale


def _with_used(quota: Json, used: Mapping[str, Quantity]) -> Json:
    return {**quota, "status": {**quota["status"], "used": as_text(used)}}
