"""Validation of where a pod may run: tolerations, affinity, spreading, gates."""

from collections.abc import Iterator, Sequence
from typing import Final

from stowplan.api.fielderrors import FieldError, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import (
    dns_label_problems,
    label_key_problems,
    label_value_problems,
    subdomain_problems,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import selector_errors

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_WHEN_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def placement_errors(spec: Json, path: str) -> Iterator[FieldError]:
    """Errors of a pod's affinity."""
    affinity = spec.get("affinity")
    if affinity:
        yield from _affinity_errors(affinity, f"{path}.affinity")


def gate_errors(spec: Json, path: str) -> Iterator[FieldError]:
    """Readiness gates and scheduling gates."""
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        name, here = gate.get("conditionType") or "", f"{path}.readinessGates[{i}].conditionType"
        yield from (invalid(here, name, problem) for problem in label_key_problems(name))
    seen: set[str] = set()
    for i, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name") or ""
        here = f"{path}.schedulingGates[{i}]"
        yield from (invalid(here, name, problem) for problem in label_key_problems(name))
        if name in seen:
            yield duplicate(here, name)
        seen.add(name)


def spreads_errors(spec: Json, path: str) -> Iterator[FieldError]:
    """Topology spread constraints."""
    constraints = spec.get("topologySpreadConstraints") or ()
    last = {(one.get("topologyKey"), one.get("whenUnsatisfiable")): i for i, one in enumerate(constraints)}
    for i, constraint in enumerate(constraints):
        pair = constraint.get("topologyKey"), constraint.get("whenUnsatisfiable") or ""
        yield from _spread_errors(constraint, f"{path}[{i}]", repeated=last.get(pair, i) > i)


def tolerations_errors(tolerations: Sequence[Json], path: str) -> Iterator[FieldError]:
    for i, toleration in enumerate(tolerations):
        yield from _toleration_errors(toleration, f"{path}[{i}]")


def _toleration_errors(toleration: Json, path: str) -> Iterator[FieldError]:
    key, operator = toleration.get("key"), toleration.get("operator")
    if key:
        yield from (invalid(f"{path}.key", key, problem) for problem in label_key_problems(key))
    elif operator != "Exists":
        yield invalid(
            f"{path}.operator",
            operator or "",
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
        yield invalid(
            f"{path}.effect",
            toleration.get("effect") or "",
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        )
    value = toleration.get("value") or ""
    if operator in (None, "", "Equal"):
        problems = label_value_problems(value)
        if problems:
            yield invalid(f"{path}.operator", value, ";".join(problems))
    elif operator == "Exists":
        if value:
            yield invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator not in ("Lt", "Gt"):
        yield not_supported(f"{path}.operator", operator, ["Equal", "Exists"])
    if toleration.get("effect") and toleration["effect"] not in _EFFECTS:
        yield not_supported(f"{path}.effect", toleration["effect"], _EFFECTS)


def _affinity_errors(affinity: Json, path: str) -> Iterator[FieldError]:
    node = affinity.get("nodeAffinity") or {}
    here = f"{path}.nodeAffinity"
    needed = node.get(_REQUIRED)
    if needed is not None:
        yield from node_selector_errors(needed, f"{here}.{_REQUIRED}")
    for i, preference in enumerate(node.get(_PREFERRED) or ()):
        place = f"{here}.{_PREFERRED}[{i}]"
        yield from _weight_errors(preference, place)
        preferred = preference.get("preference") or {}
        yield from node_term_errors(preferred, f"{place}.preference", values_checked=False)
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity_errors(affinity.get(kind) or {}, f"{path}.{kind}")


def _pod_affinity_errors(affinity: Json, path: str) -> Iterator[FieldError]:
    for i, term in enumerate(affinity.get(_REQUIRED) or ()):
        yield from _pod_term_errors(term, f"{path}.{_REQUIRED}[{i}]")
    for i, preference in enumerate(affinity.get(_PREFERRED) or ()):
        here = f"{path}.{_PREFERRED}[{i}]"
        yield from _weight_errors(preference, here)
        yield from _pod_term_errors(preference.get("podAffinityTerm") or {}, f"{here}.podAffinityTerm")


def _weight_errors(preference: Json, path: str) -> Iterator[FieldError]:
    weight = preference.get("weight") or 0
    if not 1 <= weight <= 100:
        yield invalid(f"{path}.weight", weight, "must be in the range 1-100")


def node_term_errors(term: Json, path: str, *, values_checked: bool) -> Iterator[FieldError]:
    """A node selector term. `values_checked`: its values have to be label values."""
    for i, wish in enumerate(term.get("matchExpressions") or ()):
        here, operator, values = f"{path}.matchExpressions[{i}]", wish.get("operator"), wish.get("values")
        if operator not in _NODE_OPERATORS:
            yield invalid(f"{here}.operator", operator or "", "not a valid selector operator")
        elif operator in ("In", "NotIn") and not values:
            yield required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            yield forbidden(
                f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        elif operator in ("Gt", "Lt") and len(values or ()) != 1:
            yield required(f"{here}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        key = wish.get("key") or ""
        yield from (invalid(f"{here}.key", key, problem) for problem in label_key_problems(key))
        for j, value in enumerate(values or () if values_checked else ()):
            yield from (invalid(f"{here}.values[{j}]", value, text) for text in label_value_problems(value))
    for i, wish in enumerate(term.get("matchFields") or ()):
        yield from _node_field_errors(wish, f"{path}.matchFields[{i}]")


def _node_field_errors(wish: Json, path: str) -> Iterator[FieldError]:
    values = wish.get("values") or ()
    if wish.get("operator") not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", wish.get("operator") or "", "not a valid selector operator")
    elif len(values) != 1:
        text = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required(f"{path}.values", text)
    if wish.get("key") != "metadata.name":
        yield invalid(f"{path}.key", wish.get("key") or "", "not a valid field selector key")
        return
    for i, value in enumerate(values):
        yield from (invalid(f"{path}.values[{i}]", value, problem) for problem in subdomain_problems(value))


def node_selector_errors(selector: Json, path: str) -> Iterator[FieldError]:
    """A node selector, which has at least one term."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for i, term in enumerate(terms or ()):
        yield from node_term_errors(term, f"{path}.nodeSelectorTerms[{i}]", values_checked=True)


def _pod_term_errors(term: Json, path: str) -> Iterator[FieldError]:
    yield from selector_errors(term.get("labelSelector"), f"{path}.labelSelector")
    yield from selector_errors(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        yield from (invalid(f"{path}.namespace", name, problem) for problem in dns_label_problems(name))
    yield from _label_keys_errors(term, path)
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from (invalid(f"{path}.topologyKey", key, problem) for problem in label_key_problems(key))


def _label_keys_errors(term: Json, path: str) -> Iterator[FieldError]:
    """`matchLabelKeys` and `mismatchLabelKeys`, which add to the label selector."""
    matched, mismatched = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    selector = term.get("labelSelector")
    for field, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        if keys and selector is None:
            yield forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
            continue
        for i, key in enumerate(keys):
            yield from (invalid(f"{path}.{field}[{i}]", key, text) for text in label_key_problems(key))
    for i, key in enumerate(matched):
        if key in mismatched:
            text = "exists in both matchLabelKeys and mismatchLabelKeys"
            yield invalid(f"{path}.matchLabelKeys[{i}]", key, text)


def _spread_errors(constraint: Json, path: str, *, repeated: bool) -> Iterator[FieldError]:
    skew = constraint.get("maxSkew") or 0
    if skew <= 0:
        yield invalid(f"{path}.maxSkew", skew, "must be greater than zero")
    key, action = constraint.get("topologyKey"), constraint.get("whenUnsatisfiable") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    if action not in _WHEN_UNSATISFIABLE:
        yield not_supported(f"{path}.whenUnsatisfiable", action, _WHEN_UNSATISFIABLE)
    if repeated:
        yield duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
    least = constraint.get("minDomains")
    if least is not None:
        if least <= 0:
            yield invalid(f"{path}.minDomains", least, "must be greater than zero")
        if action != "DoNotSchedule":
            text = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield invalid(f"{path}.minDomains", least, text)
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(field)
        if policy is not None and policy not in ("Honor", "Ignore"):
            yield not_supported(f"{path}.{field}", policy, ("Honor", "Ignore"))
    yield from _label_keys_errors(constraint, path)
    yield from selector_errors(constraint.get("labelSelector"), f"{path}.labelSelector")
