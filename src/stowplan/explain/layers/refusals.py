"""Pods that the API server refuses: the reason, with today's figures, and what helps.

A controller that may not create a pod says so in events and conditions, in the words of the API server. These
are as old as the first refusal; quotas are read again.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from stowplan.api.admission import LimitRange, ResourceQuota
from stowplan.api.catalogue import LIMIT_RANGES, PRIORITY_CLASSES, RESOURCE_QUOTAS
from stowplan.api.names import closest
from stowplan.api.quantity import Quantity, QuantityError, quantity_of
from stowplan.api.workloads import PriorityClass
from stowplan.explain.commands import kubectl, patching
from stowplan.explain.document.workload import WorkloadChange
from stowplan.explain.layers.reads import ObjectReads


class Refusal(NamedTuple):
    """A refusal in words, and what helps: in words, and as changes with commands."""

    text: str
    remedy: str = ""
    changes: tuple[WorkloadChange, ...] = ()


class _Context(NamedTuple):
    """Where a pod is refused, and how many pods are missing."""

    namespace: str
    missing: int
    thing: str
    reads: ObjectReads


_LEAD: Final = re.compile(
    r"^(?:\(combined from similar events\): |Error creating: |"
    r"create (?:Pod|Claim) \S+ (?:for Pod \S+ )?in StatefulSet \S+ failed error: |"
    r"failed to create PVC \S+: )*"
    r'(?:(?P<kind>[\w.]+) "[^"]*" is forbidden: )?',
    re.IGNORECASE,
)


async def refusal_of(message: str, namespace: str, missing: int, reads: ObjectReads) -> Refusal:
    """The refusal that a controller's message is about; `missing` is how many pods it has not created."""
    lead = _LEAD.match(message)
    kind = "" if lead is None else lead["kind"] or ""
    text = message if lead is None else message[lead.end() :]
    context = _Context(namespace, missing, "claim" if kind == "persistentvolumeclaims" else "pod", reads)
    for pattern, explain in _KNOWN:
        found = pattern.search(text)
        if found is not None:
            return await explain(found, text, context)
    return Refusal(text)


# Quotas


async def _of_quota(found: re.Match[str], text: str, context: _Context) -> Refusal:
    name, asked = found["name"], _amounts(found["requested"])
    quota = await context.reads.get(RESOURCE_QUOTAS, ResourceQuota, context.namespace, name)
    used, hard = _amounts(found["used"]), _amounts(found["limited"])
    if quota is not None:
        used = {**used, **{key: str(value) for key, value in quota.status.used.items() if key in asked}}
        hard = {**hard, **{key: str(value) for key, value in quota.spec.hard.items() if key in asked}}
    figures = "; ".join(
        f"{key}: used {used.get(key, '?')} of {hard.get(key, '?')}, a {context.thing} needs {amount}"
        for key, amount in asked.items()
    )
    said = f"quota {name}: {figures}"
    needed = _needed(asked, used, context.missing)
    short = _short(needed, hard)
    if not short:
        return Refusal(f"{said}; there is room now", "wait: the controller tries again by itself")
    raised = {name: short}
    for other in await context.reads.list(RESOURCE_QUOTAS, ResourceQuota, context.namespace):
        if other.name != name and not other.spec.scopes and other.spec.scope_selector is None:
            theirs = _needed(
                {key: amount for key, amount in asked.items() if key in other.spec.hard},
                {key: str(value) for key, value in other.status.used.items()},
                context.missing,
            )
            more = _short(theirs, {key: str(value) for key, value in other.spec.hard.items()})
            raised.update({other.name: more} if more else {})
    change = _raise(raised, hard, context.namespace)
    return Refusal(said, f"{change.text}, or ask for less in the template, or fewer replicas", (change,))


def _raise(
    raised: Mapping[str, Mapping[str, str]], hard: Mapping[str, str], namespace: str
) -> WorkloadChange:
    texts = [
        f"raise quota {name}: "
        + ", ".join(f"{key} {amount} (now {hard.get(key, '?')})" for key, amount in amounts.items())
        for name, amounts in raised.items()
    ]
    commands = [
        patching(f"resourcequota/{name}", namespace, {"spec": {"hard": dict(amounts)}})
        for name, amounts in raised.items()
    ]
    return WorkloadChange("quota", " and ".join(texts), " && ".join(commands))


def _amounts(text: str) -> dict[str, str]:
    """`requests.cpu=1,pods=2` as a mapping."""
    pairs = (one.partition("=") for one in text.split(","))
    return {key: value for key, equals, value in pairs if equals}


def _needed(asked: Mapping[str, str], used: Mapping[str, str], missing: int) -> dict[str, Quantity]:
    """The amounts that a quota has to allow for all missing pods."""
    count = quantity_of(max(missing, 1))
    try:
        return {
            key: quantity_of(used.get(key, "0")).add(quantity_of(amount).times(count))
            for key, amount in asked.items()
        }
    except QuantityError:
        return {}


def _short(needed: Mapping[str, Quantity], hard: Mapping[str, str]) -> dict[str, str]:
    """The amounts that are more than a quota allows."""
    try:
        return {
            key: amount.canonical()
            for key, amount in needed.items()
            if amount.cmp(quantity_of(hard.get(key, "0"))) > 0
        }
    except QuantityError:
        return {}


async def _wants_requests(found: re.Match[str], text: str, context: _Context) -> Refusal:
    resources = sorted({one.partition(".")[2] or one for one in re.findall(r"(\S+) for: ", found["rest"])})
    named = " and ".join(resources) or "resources"
    remedy = f"request {named} in the template, or set a default for it with a LimitRange"
    return Refusal(f"quota {found['name']}: must specify {found['rest']}", remedy)


# Limits


async def _of_limits(found: re.Match[str], text: str, context: _Context) -> Refusal:
    bound, resource, kind = found["bound"], found["resource"], found["kind"]
    ranges = await context.reads.list(LIMIT_RANGES, LimitRange, context.namespace)
    names = [
        one.name
        for one in ranges
        for item in one.spec.limits
        if item.type == kind and resource in (item.max if bound == "maximum" else item.min)
    ]
    of = f"LimitRange {names[0]}" if names else "the LimitRange"
    if bound == "maximum":
        remedy = f"limit {resource} to {found['value']} per {kind.lower()}, or raise the maximum of {of}"
    else:
        remedy = (
            f"request at least {found['value']} {resource} per {kind.lower()}, or lower the minimum of {of}"
        )
    return Refusal(text, remedy)


# Objects that a pod names and that do not exist


async def _no_priority_class(found: re.Match[str], text: str, context: _Context) -> Refusal:
    name = found["name"]
    classes = await context.reads.list(PRIORITY_CLASSES, PriorityClass)
    near = closest(name, (one.name for one in classes))
    remedy = f"create PriorityClass {name}"
    return Refusal(
        f"PriorityClass {name} does not exist",
        f"name PriorityClass {near} in the template, or {remedy}" if near else remedy,
    )


async def _no_service_account(found: re.Match[str], text: str, context: _Context) -> Refusal:
    name = found["name"]
    command = kubectl("create", "serviceaccount", name, "-n", context.namespace)
    change = WorkloadChange("create", f"create ServiceAccount {name}", command)
    return Refusal(f"serviceaccount {name} does not exist", change.text, (change,))


async def _no_runtime_class(found: re.Match[str], text: str, context: _Context) -> Refusal:
    name = found["name"]
    remedy = f"create RuntimeClass {name}, or remove runtimeClassName from the template"
    return Refusal(f"RuntimeClass {name} does not exist", remedy)


# Others who refuse


async def _of_webhook(found: re.Match[str], text: str, context: _Context) -> Refusal:
    name = found["name"]
    return Refusal(text, f"what admission webhook {name} asks for; its configuration says who runs it")


async def _silent_webhook(found: re.Match[str], text: str, context: _Context) -> Refusal:
    name = found["name"]
    return Refusal(text, f"recover the service behind admission webhook {name}: it does not answer")


async def _of_policy(found: re.Match[str], text: str, context: _Context) -> Refusal:
    kind, name, why = found["kind"] or "MutatingAdmissionPolicy", found["name"], found["why"]
    bound = f", or change its binding {found['binding']}" if found["binding"] else ""
    if "no params found" in why:
        return Refusal(text, f"create the params that binding {found['binding']} of {kind} {name} names")
    if "failed to configure" in why or "resulted in error" in why or "error applying patch" in why:
        return Refusal(text, f"repair {kind} {name}: it cannot be evaluated for these pods{bound}")
    return Refusal(text, f"a template that {kind} {name} admits{bound}")


async def _of_pod_security(found: re.Match[str], text: str, context: _Context) -> Refusal:
    level = found["level"]
    return Refusal(
        text,
        f"a template that meets PodSecurity {level}, or another level in the labels of "
        f"namespace {context.namespace}",
    )


_Explain = Callable[[re.Match[str], str, _Context], Awaitable[Refusal]]
_KNOWN: Final[tuple[tuple[re.Pattern[str], _Explain], ...]] = tuple(
    (re.compile(pattern), explain)
    for pattern, explain in (
        (
            r"exceeded quota: (?P<name>[^,]+), requested: (?P<requested>\S+), used: (?P<used>\S+), "
            r"limited: (?P<limited>\S+)",
            _of_quota,
        ),
        (r"failed quota: (?P<name>[^:]+): must specify (?P<rest>.+)", _wants_requests),
        (
            r"(?P<bound>maximum|minimum) (?P<resource>\S+) usage per (?P<kind>\w+) is "
            r"(?P<value>[\w.]*\w)",
            _of_limits,
        ),
        (r"no PriorityClass with name (?P<name>\S+) was found", _no_priority_class),
        (r'serviceaccount "(?P<name>[^"]+)" not found', _no_service_account),
        (r'RuntimeClass "(?P<name>[^"]+)" not found', _no_runtime_class),
        (r'admission webhook "(?P<name>[^"]+)" denied', _of_webhook),
        (r'failed calling webhook "(?P<name>[^"]+)"', _silent_webhook),
        (
            r"(?:(?P<kind>ValidatingAdmissionPolicy)|policy) '(?P<name>[^']+)'"
            r"(?: with binding '(?P<binding>[^']+)')? denied request: (?P<why>.+)",
            _of_policy,
        ),
        (r'violates PodSecurity "(?P<level>[^":]+)', _of_pod_security),
    )
)
