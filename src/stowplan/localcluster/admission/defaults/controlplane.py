"""Defaults of webhooks, admission policies, API services and flow control."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json

_PORT: Final = 443
_TIMEOUT: Final = 10
_PRECEDENCE: Final = 1000
_SHARES: Final = 30
_QUEUING: Final = {"handSize": 8, "queues": 64, "queueLengthLimit": 50}


def default_webhooks(obj: Json) -> None:
    for hook in obj.get("webhooks") or ():
        hook.setdefault("failurePolicy", "Fail")
        hook.setdefault("timeoutSeconds", _TIMEOUT)
        _default_matching(hook)
        for rule in hook.get("rules") or ():
            rule.setdefault("scope", "*")
        _default_port((hook.get("clientConfig") or {}).get("service"))


def default_mutating_webhooks(obj: Json) -> None:
    default_webhooks(obj)
    for hook in obj.get("webhooks") or ():
        hook.setdefault("reinvocationPolicy", "Never")


def default_policy(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("failurePolicy", "Fail")
    _default_match_resources(spec.get("matchConstraints"))


def default_policy_binding(obj: Json) -> None:
    _default_match_resources(obj.setdefault("spec", {}).get("matchResources"))


def _default_match_resources(match: Any) -> None:
    if match is None:
        return
    _default_matching(match)
    for rule in (*(match.get("resourceRules") or ()), *(match.get("excludeResourceRules") or ())):
        rule.setdefault("scope", "*")


def _default_matching(match: Json) -> None:
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})


def default_api_service(obj: Json) -> None:
    _default_port(obj.setdefault("spec", {}).get("service"))


def _default_port(service: Any) -> None:
    if service is not None:
        service.setdefault("port", _PORT)


def default_flow_schema(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or _PRECEDENCE


def default_priority_level(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    exempt, limited = spec.get("exempt"), spec.get("limited")
    if exempt is not None:
        exempt.setdefault("nominalConcurrencyShares", 0)
        exempt.setdefault("lendablePercent", 0)
    if limited is not None:
        limited.setdefault("nominalConcurrencyShares", _SHARES)
        limited.setdefault("lendablePercent", 0)
        queuing = (limited.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            queuing |= {field: queuing.get(field) or value for field, value in _QUEUING.items()}


DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    catalogue.VALIDATING_WEBHOOK_CONFIGURATIONS: default_webhooks,
    catalogue.MUTATING_WEBHOOK_CONFIGURATIONS: default_mutating_webhooks,
    catalogue.VALIDATING_ADMISSION_POLICIES: default_policy,
    catalogue.MUTATING_ADMISSION_POLICIES: default_policy,
    catalogue.VALIDATING_ADMISSION_POLICY_BINDINGS: default_policy_binding,
    catalogue.MUTATING_ADMISSION_POLICY_BINDINGS: default_policy_binding,
    catalogue.API_SERVICES: default_api_service,
    catalogue.FLOW_SCHEMAS: default_flow_schema,
    catalogue.PRIORITY_LEVEL_CONFIGURATIONS: default_priority_level,
}
