"""What a pod says about where it may go: tolerations, affinity, spreading, gates."""

from collections.abc import Iterator
from typing import Any, Final

from stowplan.api.fielderrors import FieldError, forbidden, invalid, not_supported, required
from stowplan.api.names import label_key_problems
from stowplan.api.requests import Json

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_UNSATISFIABLE: Final = ("DoNotSchedule", "ScheduleAnyway")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def placement_errors(spec: Json, path: str) -> Iterator[FieldError]:
    """What is wrong with a pod's wishes."""
    for i, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration_errors(toleration, f"{path}.tolerations[{i}]")
    affinity = spec.get("affinity")
    if affinity:
        yield from _affinity_errors(affinity, f"{path}.affinity")
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        yield from _spread_errors(constraint, f"{path}.topologySpreadConstraints[{i}]")
    for i, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name") or ""
        here = f"{path}.schedulingGates[{i}]"
        yield from (invalid(here, name, problem) for problem in label_key_problems(name))


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
    if operator not in (None, "", "Equal", "Exists", "Lt", "Gt"):
        yield not_supported(f"{path}.operator", operator, ["Equal", "Exists"])
    elif operator == "Exists" and toleration.get("value"):
        yield invalid(
            f"{path}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'"
        )
    if toleration.get("effect") and toleration["effect"] not in _EFFECTS:
        yield not_supported(f"{path}.effect", toleration["effect"], sorted(_EFFECTS))


def _affinity_errors(affinity: Json, path: str) -> Iterator[FieldError]:
    node = affinity.get("nodeAffinity") or {}
    here = f"{path}.nodeAffinity"
    needed = node.get(_REQUIRED)
    if needed is not None:
        terms = needed.get("nodeSelectorTerms")
        if not terms:
            text = "must have at least one node selector term"
            yield required(f"{here}.{_REQUIRED}.nodeSelectorTerms", text)
        for i, term in enumerate(terms or ()):
            yield from _node_term_errors(term, f"{here}.{_REQUIRED}.nodeSelectorTerms[{i}]")
    for i, preference in enumerate(node.get(_PREFERRED) or ()):
        place = f"{here}.{_PREFERRED}[{i}]"
        yield from _weight_errors(preference, place)
        yield from _node_term_errors(preference.get("preference") or {}, f"{place}.preference")
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


def _node_term_errors(term: Json, path: str) -> Iterator[FieldError]:
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


def _pod_term_errors(term: Json, path: str) -> Iterator[FieldError]:
    key = term.get("topologyKey")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from (invalid(f"{path}.topologyKey", key, problem) for problem in label_key_problems(key))
    yield from selector_errors(term.get("labelSelector"), f"{path}.labelSelector")
    yield from selector_errors(term.get("namespaceSelector"), f"{path}.namespaceSelector")


def selector_errors(selector: Any, path: str) -> Iterator[FieldError]:
    """What is wrong with a label selector."""
    if not selector:
        return
    for key, _ in (selector.get("matchLabels") or {}).items():
        yield from (invalid(f"{path}.matchLabels", key, problem) for problem in label_key_problems(key))
    for i, wish in enumerate(selector.get("matchExpressions") or ()):
        here, operator, values = f"{path}.matchExpressions[{i}]", wish.get("operator"), wish.get("values")
        if operator not in _LABEL_OPERATORS:
            yield invalid(f"{here}.operator", operator or "", "not a valid selector operator")
        elif operator in ("In", "NotIn") and not values:
            yield required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            yield forbidden(
                f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        key = wish.get("key") or ""
        yield from (invalid(f"{here}.key", key, problem) for problem in label_key_problems(key))


def _spread_errors(constraint: Json, path: str) -> Iterator[FieldError]:
    skew = constraint.get("maxSkew") or 0
    if skew <= 0:
        yield invalid(f"{path}.maxSkew", skew, "must be greater than zero")
    key = constraint.get("topologyKey")
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    else:
        yield from (invalid(f"{path}.topologyKey", key, problem) for problem in label_key_problems(key))
    action = constraint.get("whenUnsatisfiable") or ""
    if action not in _UNSATISFIABLE:
        yield not_supported(f"{path}.whenUnsatisfiable", action, _UNSATISFIABLE)
    least = constraint.get("minDomains")
    if least is not None and least <= 0:
        yield invalid(f"{path}.minDomains", least, "must be greater than zero")
    elif least is not None and action != "DoNotSchedule":
        yield invalid(
            f"{path}.minDomains",
            least,
            f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}",
        )
    yield from selector_errors(constraint.get("labelSelector"), f"{path}.labelSelector")
