"""Admission of LeaderWorkerSets and their pods, as the webhooks of kubernetes-sigs/lws do it.

The pods come from stateful sets, which know nothing of groups: here they get the labels of their group and
subgroup, the affinity of exclusive placement and the environment that tells them of their leader.
"""

from collections.abc import Iterator
from typing import Any, Final

from stowplan.api import fielderrors
from stowplan.api.fielderrors import FieldError
from stowplan.api.names import service_name_problems
from stowplan.api.requests import Json
from stowplan.gocompat.numbers import parse_count
from stowplan.localcluster.admission.refusals import refused_by_webhook
from stowplan.localcluster.objects import leaderworkersets as lws
from stowplan.localcluster.objects.fields import (
    annotations_of,
    count_in,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
)
from stowplan.localcluster.objects.leaderworkersets import (
    GROUP_INDEX,
    GROUP_KEY,
    SUBGROUP_INDEX,
    SUBGROUP_KEY,
    WORKER_INDEX,
)
from stowplan.localcluster.store.registry import Lookup

_SET_WEBHOOK: Final = "vleaderworkerset.kb.io"
_POD_WEBHOOK: Final = "mpod.kb.io"
_MOST: Final = 2**31 - 1
_TEMPLATE: Final = "spec.leaderWorkerTemplate"
_SUBGROUP_SIZE: Final = f"{_TEMPLATE}.SubGroupPolicy.subGroupSize"
_ROLLING: Final = "spec.rolloutStrategy.rollingUpdateConfiguration"


def default_set(lookup: Lookup, obj: Json) -> None:
    obj["spec"] = lws.with_defaults(obj)["spec"]


def check_set(lookup: Lookup, obj: Json) -> None:
    _refuse([*_set_errors(obj)])


def check_set_update(lookup: Lookup, old: Json, new: Json) -> None:
    _refuse([*_set_errors(new), *_changed_subgroup_errors(old, new)])


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        raise refused_by_webhook(_SET_WEBHOOK, fielderrors.aggregate(errors))


def _set_errors(obj: Json) -> Iterator[FieldError]:
    name, spec = name_of(obj), spec_of(lws.with_defaults(obj))
    for problem in service_name_problems(name):
        yield fielderrors.invalid("metadata.name", name, problem)
    replicas, size = count_in(spec, "replicas", 1), lws.size_of(obj)
    if replicas < 0:
        yield fielderrors.invalid("spec.replicas", replicas, "replicas must be equal or greater than 0")
    if replicas > 1_000_000:
        yield fielderrors.invalid("spec.replicas", replicas, "replicas must be equal or less than 1000000")
    if size < 1:
        yield fielderrors.invalid(f"{_TEMPLATE}.size", size, "size must be equal or greater than 1")
    if replicas * size > _MOST:
        why = f"the product of replicas and worker replicas must not exceed {_MOST}"
        yield fielderrors.invalid("spec.replicas", replicas, why)
    yield from _rollout_errors(spec["rolloutStrategy"]["rollingUpdateConfiguration"], replicas)
    yield from _subgroup_errors(obj, size)


def _rollout_errors(rolling: Json, replicas: int) -> Iterator[FieldError]:
    limits: dict[str, int] = {}
    for field in ("maxUnavailable", "maxSurge"):
        path, value = f"{_ROLLING}.{field}", rolling[field]
        percent = _percent(value)
        if isinstance(value, int):
            limits[field] = value
            if value < 0:
                yield fielderrors.invalid(path, value, "must be greater than or equal to 0")
        elif percent is None:
            yield fielderrors.invalid(
                path,
                value,
                "a valid percent string must be a numeric string followed by "
                "an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
            )
        else:
            exact = percent * replicas
            limits[field] = -(-exact // 100) if field == "maxSurge" else exact // 100
            if percent > 100:
                yield fielderrors.invalid(path, value, "must not be greater than 100%")
    if count_in(rolling, "partition") < 0:
        path = f"{_ROLLING}.partition"
        yield fielderrors.invalid(path, rolling["partition"], "must be greater than or equal to 0")
    if replicas and limits == {"maxUnavailable": 0, "maxSurge": 0}:
        path = f"{_ROLLING}.maxUnavailable"
        yield fielderrors.invalid(path, rolling["maxUnavailable"], "must not be 0 when `maxSurge` is 0")


def _percent(value: Any) -> int | None:
    text = value if isinstance(value, str) else ""
    return parse_count(text.removesuffix("%")) if text.endswith("%") else None


def _subgroup_errors(obj: Json, size: int) -> Iterator[FieldError]:
    policy = lws.template_in(obj).get("subGroupPolicy")
    if not policy:
        given = annotations_of(obj).get(lws.SUBGROUP_EXCLUSIVE)
        if given is not None:
            why = "cannot have subgroup-exclusive-topology without subGroupSize set"
            yield fielderrors.invalid(f"metadata.annotations.{lws.SUBGROUP_EXCLUSIVE}", given, why)
        return
    part = count_in(policy, "subGroupSize")
    if part < 1:
        yield fielderrors.invalid(_SUBGROUP_SIZE, part, "subGroupSize must be equal or greater than 1")
        return
    if size % part and (size - 1) % part:
        yield fielderrors.invalid(_SUBGROUP_SIZE, part, "size or size - 1 must be divisible by subGroupSize")
    if size < part:
        yield fielderrors.invalid(_SUBGROUP_SIZE, part, "subGroupSize cannot be larger than size")
    if policy.get("subGroupPolicyType") == lws.LEADER_EXCLUDED and (size - 1) % part:
        why = "size-1 must be divisible by subGroupSize when using LeaderExcluded"
        yield fielderrors.invalid(_SUBGROUP_SIZE, part, why)


def _changed_subgroup_errors(old: Json, new: Json) -> Iterator[FieldError]:
    before = (lws.template_in(old).get("subGroupPolicy") or {}).get("subGroupSize")
    after = (lws.template_in(new).get("subGroupPolicy") or {}).get("subGroupSize")
    if before == after:
        return
    if before is None:
        why = "cannot enable subGroupSize after the lws is already created"
        yield fielderrors.invalid(_SUBGROUP_SIZE, after, why)
    elif after is None:
        yield fielderrors.invalid(_SUBGROUP_SIZE, before, "cannot remove subGroupSize after enabled")
    else:
        yield fielderrors.invalid(_SUBGROUP_SIZE, after, "field is immutable")


# Pods


def join_group(lookup: Lookup, pod: Json) -> None:
    """Give a pod the labels, affinity and environment of its place in its group."""
    labels, annotations = labels_of(pod), annotations_of(pod)
    if lws.SET_NAME not in labels:
        return
    if lws.SIZE not in annotations:
        why = f"size annotation is unexpectedly missing for pod {name_of(pod)}"
        raise refused_by_webhook(_POD_WEBHOOK, why)
    numbered = lws.ordinal_in(name_of(pod))
    if lws.is_leader(pod):
        if GROUP_INDEX not in labels:
            labels[GROUP_INDEX] = str(_number(pod, numbered))
        _lead(pod, labels, annotations)
    else:
        labels[WORKER_INDEX] = str(_number(pod, numbered))
        _work(pod, labels, annotations)
    if lws.GANG in annotations:
        name = lws.group_name(labels[lws.SET_NAME], labels.get(GROUP_INDEX, ""), labels.get(lws.REVISION, ""))
        pod["spec"]["schedulingGroup"] = {"podGroupName": name}
    _tell_containers(pod, labels, annotations)


def _number(pod: Json, numbered: tuple[str, int] | None) -> int:
    if numbered is None:
        raise refused_by_webhook(_POD_WEBHOOK, f"parsing pod ordinal for pod {name_of(pod)}")
    return numbered[1]


def _lead(pod: Json, labels: Json, annotations: Json) -> None:
    if annotations.get(lws.SUBDOMAIN_POLICY) == lws.UNIQUE:
        pod["spec"]["subdomain"] = name_of(pod)
    key = labels.setdefault(GROUP_KEY, lws.unique_key(namespace_of(pod), name_of(pod)))
    if lws.EXCLUSIVE in annotations:
        _keep_others_out(pod, key, annotations[lws.EXCLUSIVE], GROUP_KEY)
    if lws.SUBGROUP_SIZE in annotations and annotations.get(lws.SUBGROUP_TYPE) != lws.LEADER_EXCLUDED:
        _join_subgroup(pod, name_of(pod), 0)


def _work(pod: Json, labels: Json, annotations: Json) -> None:
    size = lws.number_in(pod, lws.SUBGROUP_SIZE)
    if size:
        worker = int(labels[WORKER_INDEX])
        number = lws.subgroup_of(lws.number_in(pod, lws.SIZE), size, worker)
        _join_subgroup(pod, annotations.get(lws.LEADER_NAME, ""), number)


def _join_subgroup(pod: Json, leader: str, number: int) -> None:
    labels, annotations = labels_of(pod), annotations_of(pod)
    if labels.get(SUBGROUP_INDEX):
        return
    labels[SUBGROUP_INDEX] = str(number)
    key = labels[SUBGROUP_KEY] = lws.unique_key(leader, str(number))
    if lws.SUBGROUP_EXCLUSIVE in annotations:
        _keep_others_out(pod, key, annotations[lws.SUBGROUP_EXCLUSIVE], SUBGROUP_KEY)


def _keep_others_out(pod: Json, key: str, topology: str, label: str) -> None:
    """Affinity to pods of the same group, and against those of all others, in a topology domain."""
    spec, name = pod["spec"], "requiredDuringSchedulingIgnoredDuringExecution"
    affinity = {**(spec.get("affinity") or {})}
    held = [
        one
        for kind in ("podAffinity", "podAntiAffinity")
        for one in ((affinity.get(kind) or {}).get(name) or ())
        if one.get("topologyKey") == topology
    ]
    if len(held) > 1:
        return
    others = [{"key": label, "operator": "Exists"}, {"key": label, "operator": "NotIn", "values": [key]}]
    for kind, expressions in (
        ("podAffinity", [{"key": label, "operator": "In", "values": [key]}]),
        ("podAntiAffinity", others),
    ):
        part = {**(affinity.get(kind) or {})}
        term = {"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology}
        part[name] = [*(part.get(name) or ()), term]
        affinity[kind] = part
    spec["affinity"] = affinity


def _tell_containers(pod: Json, labels: Json, annotations: Json) -> None:
    """Give every container the variables about its group, before its other ones."""
    spec = pod["spec"]
    leader = f"{labels[lws.SET_NAME]}-{labels.get(GROUP_INDEX, '')}"
    told = [
        {"name": "LWS_LEADER_ADDRESS", "value": f"{leader}.{spec.get('subdomain', '')}.{namespace_of(pod)}"},
        {"name": "LWS_GROUP_SIZE", "value": annotations[lws.SIZE]},
        {"name": "LWS_WORKER_INDEX", "value": labels[WORKER_INDEX]},
    ]
    names = {one["name"] for one in told}
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            spec[kind] = [
                {**one, "env": [*told, *(e for e in one.get("env") or () if e.get("name") not in names)]}
                for one in spec[kind]
            ]
