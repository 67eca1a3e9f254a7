"""Evaluation of the CEL expressions of policies, webhooks and match conditions for a request.

What the expressions are is in `stowplan.api.cel.admission`. A policy's variables are evaluated when an
expression first uses them. The limits of cost are those of kube-apiserver.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from stowplan.api.catalogue import NAMESPACES, Resource
from stowplan.api.cel import types
from stowplan.api.cel.admission import AdmissionExpression, Declared, ExpressionCompiler
from stowplan.api.cel.authorization import AccessQuery, Authorizer, Decision, ResourceCheck
from stowplan.api.cel.values import EvaluationFailure, LazyMap, Map, Value
from stowplan.api.requests import Json
from stowplan.localcluster.admission.matching import MatchedRequest
from stowplan.localcluster.auth.rbac import AccessRules, Attributes
from stowplan.localcluster.auth.users import User, account_groups, account_username
from stowplan.localcluster.store.conversion import in_version

CALL_LIMIT: Final = 1_000_000
"""Cost limit of one expression."""
BUDGET: Final = 10_000_000
"""Cost limit of the expressions of a policy together, for one binding and parameter."""
CONDITIONS_BUDGET: Final = 2_500_000
"""Cost limit of the match conditions of a policy or webhook together."""

_OUT_OF_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)


class BudgetError(Exception):
    """The expressions cost more than they may together."""

    def __init__(self) -> None:
        super().__init__(_OUT_OF_BUDGET)


class Budget:
    """Cost left for a policy's expressions."""

    __slots__ = ("left",)

    def __init__(self, limit: int = BUDGET) -> None:
        self.left = limit

    def spend(self, cost: int) -> None:
        if cost > self.left:
            raise BudgetError
        self.left -= cost


class PolicyRequest(MatchedRequest, Protocol):
    """A request as expressions see it, with its user."""

    @property
    def kind(self) -> Resource: ...

    @property
    def by(self) -> Any: ...


class RequestVariables:
    """Values of a request for the expressions of all policies, each made when it is first needed.

    `access` decides what the user of the request may do.
    """

    def __init__(self, request: PolicyRequest, access: Callable[[], AccessRules | None]) -> None:
        self.request = request
        self._access = access
        self._objects: dict[tuple[int, Resource], Value] = {}
        self._kept: list[Json] = []
        self._namespace: Value = None
        self._authorizer: Authorizer | None = None
        self._decisions: dict[AccessQuery, Decision] = {}

    def values(
        self, matched: Resource, params: Json | None, *, with_namespace: bool = True
    ) -> dict[str, Value]:
        """The variables of a policy that matched the request as one for `matched`."""
        request = self.request
        authorizer = self._authorizer = self._authorizer or Authorizer(self._authorize)
        return {
            "object": self._object(request.object, matched),
            "oldObject": self._object(request.old, matched),
            "request": cel_value(admission_request(request, matched)),
            "namespaceObject": self._namespace_object() if with_namespace else None,
            "params": None if params is None else cel_value(params),
            "authorizer": authorizer,
            "authorizer.requestResource": ResourceCheck(
                authorizer,
                request.resource.group,
                request.resource.plural,
                request.subresource,
                request.namespace,
                request.name,
            ),
        }

    def _object(self, obj: Json | None, matched: Resource) -> Value:
        if obj is None:
            return None
        key = (id(obj), matched)
        if key not in self._objects:
            self._kept.append(obj)
            shown = obj
            if not self.request.subresource or self.request.kind == self.request.resource:
                shown = in_version(obj, self.request.resource, matched, self.request.lookup.definitions)
            self._objects[key] = cel_value(shown)
        return self._objects[key]

    def _namespace_object(self) -> Value:
        name = self.request.namespace
        if not name or self.request.resource == NAMESPACES:
            return None
        if self._namespace is None:
            namespace = self.request.lookup.find(NAMESPACES, "", name)
            self._namespace = None if namespace is None else cel_value(_exposed(namespace))
        return self._namespace

    def _authorize(self, query: AccessQuery) -> Decision:
        known = self._decisions.get(query)
        if known is None:
            known = self._decisions[query] = self._decide(query)
        return known

    def _decide(self, query: AccessQuery) -> Decision:
        by = self.request.by.user
        user = User(by.name, by.groups)
        if query.service_account:
            namespace, _, name = query.service_account.partition("/")
            user = User(account_username(namespace, name), account_groups(namespace))
        access = self._access()
        if access is None:
            return Decision(user.is_admin)
        wanted = Attributes(
            user, query.verb, query.group, query.resource, query.subresource, query.namespace, query.name,
            query.path,
        )  # fmt: skip
        return Decision(*access.decide(wanted))


_EXPOSED: Final = (
    *("name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"),
    *("deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers"),
)


def _exposed(namespace: Json) -> Json:
    """A namespace as expressions see it."""
    metadata = {field: value for field, value in namespace["metadata"].items() if field in _EXPOSED}
    return {
        "metadata": metadata,
        "spec": namespace.get("spec") or {},
        "status": namespace.get("status") or {},
    }


def admission_request(request: PolicyRequest, matched: Resource) -> Json:
    """The variable `request`: an AdmissionRequest without its objects."""
    resource, kind = request.resource, request.kind
    matched_kind = matched if kind == resource else kind
    user = request.by.user
    found: Json = {
        "uid": "",
        "kind": {"group": matched_kind.group, "version": matched_kind.version, "kind": matched_kind.kind},
        "resource": {"group": matched.group, "version": matched.version, "resource": matched.plural},
        "requestKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "requestResource": {
            "group": resource.group,
            "version": resource.version,
            "resource": resource.plural,
        },
        "operation": request.operation,
        "userInfo": (user if isinstance(user, User) else User(user.name, user.groups)).info(),
        "object": None,
        "oldObject": None,
        "dryRun": request.by.dry_run,
        "options": getattr(request, "options", None),
    }
    for field, text in (
        ("subResource", request.subresource),
        ("requestSubResource", request.subresource),
        ("name", request.name),
        ("namespace", request.namespace),
    ):
        if text:
            found[field] = text
    return found


def cel_value(raw: Any) -> Value:
    """JSON data as CEL has it."""
    if type(raw) is dict:
        return Map.of_strings({key: cel_value(value) for key, value in raw.items()})
    if isinstance(raw, list | tuple):
        return [cel_value(one) for one in raw]
    return raw


class Evaluator:
    """Evaluates the expressions of one policy for one request: the cost of its variables counts too."""

    def __init__(
        self, variables: Mapping[str, Value], composed: Mapping[str, AdmissionExpression] | None = None
    ) -> None:
        self._cost = 0
        self._values = dict(variables)
        if composed is not None:
            self._values["variables"] = LazyMap(
                {name: _variable(self, name, expression) for name, expression in composed.items()}
            )

    def evaluate(self, expression: AdmissionExpression, budget: Budget) -> Value:
        """The value of an expression, or an `EvaluationFailure`. Raises `BudgetError`."""
        if expression.compiled is None:
            return EvaluationFailure(f"compilation error: {expression.error}")
        self._cost = 0
        outcome = expression.compiled.program.evaluate(self._values, CALL_LIMIT)
        budget.spend(self._cost)
        budget.spend(outcome.cost)
        if type(outcome.value) is EvaluationFailure:
            text = f"expression '{expression.text}' resulted in error: {outcome.value.message}"
            return EvaluationFailure(text)
        return outcome.value

    def variable(self, name: str, expression: AdmissionExpression) -> Value:
        if expression.compiled is None:
            return EvaluationFailure(f'composited variable "{name}" fails to compile: {expression.error}')
        outcome = expression.compiled.program.evaluate(self._values, CALL_LIMIT)
        self._cost += outcome.cost
        if type(outcome.value) is EvaluationFailure:
            text = f'composited variable "{name}" fails to evaluate: {outcome.value.message}'
            return EvaluationFailure(text)
        return outcome.value


def _variable(evaluator: Evaluator, name: str, expression: AdmissionExpression) -> Callable[[], Value]:
    return lambda: evaluator.variable(name, expression)


# Match conditions


class MatchConditions:
    """The match conditions of a policy or webhook, compiled."""

    def __init__(
        self,
        conditions: Iterable[Json],
        compiler: ExpressionCompiler,
        declared: Declared,
    ) -> None:
        self._conditions = [
            (one["name"], compiler.stored(one["expression"], declared, (types.BOOL,))) for one in conditions
        ]

    @property
    def is_any(self) -> bool:
        """True if there are conditions."""
        return bool(self._conditions)

    def match(self, evaluator: Evaluator) -> "ConditionsResult":
        """False as soon as one condition is false; errors only count if none is."""
        budget = Budget(CONDITIONS_BUDGET)
        errors: list[str] = []
        try:
            found = [(name, evaluator.evaluate(condition, budget)) for name, condition in self._conditions]
        except BudgetError as error:
            return ConditionsResult(False, error=str(error))
        for name, value in found:
            if type(value) is EvaluationFailure:
                errors.append(value.message)
            elif value is False:
                return ConditionsResult(False, name)
        return ConditionsResult(not errors, error=_aggregated(errors))


class ConditionsResult(NamedTuple):
    """Result of match conditions: `failed` is the first that is false, `error` what could not be evaluated.

    With an error the failure policy decides: Fail refuses the request, Ignore leaves the policy out.
    """

    matches: bool
    failed: str = ""
    error: str = ""


def _aggregated(errors: Sequence[str]) -> str:
    """Errors as Go aggregates them: each text once, in brackets if there are several."""
    texts = list(dict.fromkeys(errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
