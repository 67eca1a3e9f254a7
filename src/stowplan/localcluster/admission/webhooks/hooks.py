"""The webhooks of a store, compiled when their configuration is written."""

from collections.abc import Iterator
from typing import Final

from stowplan.api.catalogue import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from stowplan.api.cel.admission import Declared, ExpressionCompiler
from stowplan.api.requests import Json
from stowplan.localcluster.admission.expressions import MatchConditions
from stowplan.localcluster.admission.matching import Constraints
from stowplan.localcluster.store import Store, StoreChange

_SECONDS: Final = 10


class Webhook:
    """One webhook of a configuration.

    `uid` is unique among all webhooks of its kind, `configuration` the name of the object it is in.
    """

    def __init__(self, configuration: Json, number: int, given: Json) -> None:
        self.configuration: str = configuration["metadata"]["name"]
        self.name: str = given.get("name") or ""
        self.uid = f"{self.configuration}/{self.name}/{number}"
        self.fails = given.get("failurePolicy", "Fail") == "Fail"
        self.seconds: int = given.get("timeoutSeconds") or _SECONDS
        self.side_effects: str = given.get("sideEffects") or ""
        self.reinvoked = given.get("reinvocationPolicy") == "IfNeeded"
        self.review_versions: list[str] = given.get("admissionReviewVersions") or []
        self.client: Json = given.get("clientConfig") or {}
        self.constraints = Constraints({**given, "resourceRules": given.get("rules")}, needs_rules=True)
        conditions = given.get("matchConditions") or ()
        self.conditions: MatchConditions | None = None
        if conditions:
            self.conditions = MatchConditions(conditions, ExpressionCompiler(), Declared(params=False))


class Configurations:
    """The webhooks of one kind, in the order in which they are called: by the names of configurations."""

    def __init__(self, store: Store, resource: Resource) -> None:
        self._store = store
        self._resource = resource
        self.webhooks: tuple[Webhook, ...] = ()
        if resource in store.catalogue:
            self._read()
            store.watch(resource, self._changed)

    def _changed(self, change: StoreChange) -> None:
        self._read()

    def _read(self) -> None:
        found = self._store.all(self._resource)
        found.sort(key=lambda one: str(one["metadata"]["name"]))
        self.webhooks = tuple(hook for one in found for hook in webhooks_of(one))


def webhooks_of(configuration: Json) -> Iterator[Webhook]:
    """The webhooks of a configuration; those of the same name are numbered."""
    seen: dict[str, int] = {}
    for given in configuration.get("webhooks") or ():
        name = given.get("name") or ""
        yield Webhook(configuration, seen.get(name, 0), given)
        seen[name] = seen.get(name, 0) + 1


def mutating(store: Store) -> Configurations:
    return Configurations(store, MUTATING_WEBHOOK_CONFIGURATIONS)


def validating(store: Store) -> Configurations:
    return Configurations(store, VALIDATING_WEBHOOK_CONFIGURATIONS)
