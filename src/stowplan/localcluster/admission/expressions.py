"""CEL expressions of policies, webhooks and their match conditions: variables, compilation, evaluation.

The expressions of a policy see `object`, `oldObject`, `request`, `namespaceObject`, `authorizer`, `params` if
it has a kind of them, and its `variables`, which are evaluated when an expression first uses them. Errors
have the words of kube-apiserver, and the limits of cost are the same.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

from stowplan.api.catalogue import NAMESPACES, Resource
from stowplan.api.cel import types
from stowplan.api.cel.authorization import AccessQuery, Authorizer, Decision, ResourceCheck
from stowplan.api.cel.checker import Environment, MadeType
from stowplan.api.cel.compiler import Expression, compile_expression
from stowplan.api.cel.cost import CostRelease
from stowplan.api.cel.declarations import ESCAPE_KEY, functions
from stowplan.api.cel.syntax import CelError
from stowplan.api.cel.types import Type
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

# Types


def _struct(name: str) -> Type:
    return Type("struct", f"kubernetes.{name}")


_STRINGS: Final = types.list_of(types.STRING)
_LABELS: Final = types.map_of(types.STRING, types.STRING)
_KIND: Final = {"group": types.STRING, "version": types.STRING, "kind": types.STRING}
_RESOURCE: Final = {"group": types.STRING, "version": types.STRING, "resource": types.STRING}
_VARIABLES: Final = _struct("variables")
FIELDS: Final[Mapping[str, Mapping[str, Type]]] = {
    "kubernetes.GroupVersionKind": _KIND,
    "kubernetes.GroupVersionResource": _RESOURCE,
    "kubernetes.UserInfo": {
        "username": types.STRING,
        "uid": types.STRING,
        "groups": _STRINGS,
        "extra": types.map_of(types.STRING, _STRINGS),
    },
    "kubernetes.AdmissionRequest": {
        "kind": _struct("GroupVersionKind"),
        "resource": _struct("GroupVersionResource"),
        "subResource": types.STRING,
        "requestKind": _struct("GroupVersionKind"),
        "requestResource": _struct("GroupVersionResource"),
        "requestSubResource": types.STRING,
        "name": types.STRING,
        "namespace": types.STRING,
        "operation": types.STRING,
        "userInfo": _struct("UserInfo"),
        "dryRun": types.BOOL,
        "options": types.DYN,
    },
    "kubernetes.NamespaceSpec": {"finalizers": _STRINGS},
    "kubernetes.NamespaceCondition": {
        "status": types.STRING,
        "type": types.STRING,
        "lastTransitionTime": types.TIMESTAMP,
        "message": types.STRING,
        "reason": types.STRING,
    },
    "kubernetes.NamespaceStatus": {
        "conditions": types.list_of(_struct("NamespaceCondition")),
        "phase": types.STRING,
    },
    "kubernetes.NamespaceMetadata": {
        "name": types.STRING,
        "generateName": types.STRING,
        "namespace": types.STRING,
        "labels": _LABELS,
        "annotations": _LABELS,
        "UID": types.STRING,
        "creationTimestamp": types.TIMESTAMP,
        "deletionGracePeriodSeconds": types.INT,
        "deletionTimestamp": types.TIMESTAMP,
        "generation": types.INT,
        "resourceVersion": types.STRING,
        "finalizers": _STRINGS,
    },
    "kubernetes.Namespace": {
        "metadata": _struct("NamespaceMetadata"),
        "spec": _struct("NamespaceSpec"),
        "status": _struct("NamespaceStatus"),
    },
}
_COMMON: Final = {
    "object": types.DYN,
    "oldObject": types.DYN,
    "namespaceObject": _struct("Namespace"),
    "request": _struct("AdmissionRequest"),
}
OBJECT: Final = Type("struct", "Object")
"""The type of an apply configuration: `Object{spec: Object.spec{…}}`."""
JSON_PATCH: Final = Type("struct", "JSONPatch")
_PATCH_FIELDS: Final = {
    "op": types.STRING,
    "path": types.STRING,
    "from": types.STRING,
    "value": types.DYN,
}


class _AnyField:
    """Fields of a type that has no schema: any name, of any type."""

    def get(self, name: str, /) -> Type | None:
        return types.DYN


_ANY_FIELD: Final = _AnyField()


def _patch_types(name: str) -> Any:
    if name == JSON_PATCH.name:
        return _PATCH_FIELDS
    return _ANY_FIELD if name == "Object" or name.startswith("Object.") else None


@lru_cache(maxsize=2)
def _functions(*, patches: bool) -> Mapping[str, Any]:
    return functions((ESCAPE_KEY,)) if patches else functions()


class ExpressionError(CelError):
    """An expression that cannot be used: it does not compile, or has the wrong type."""


class AdmissionExpression(NamedTuple):
    """An expression of a policy; one that did not compile fails whenever it is evaluated."""

    text: str
    compiled: Expression | None
    error: str = ""


class Declared(NamedTuple):
    """Variables that not all expressions have."""

    params: bool = False
    authorizer: bool = True
    patches: bool = False
    """The types `Object` and `JSONPatch`, for the expressions of mutations."""


_COSTS: Final = CostRelease()


class ExpressionCompiler:
    """Compiles the expressions of one object. Variables are declared in order: later ones use earlier ones.

    `overrides`: types of variables that are otherwise dynamic, with `fields` of the types.
    """

    def __init__(
        self,
        *,
        composed: bool = False,
        overrides: Mapping[str, Type] | None = None,
        fields: Mapping[str, Mapping[str, Type]] | None = None,
        release: CostRelease = _COSTS,
    ) -> None:
        self.variables: dict[str, AdmissionExpression] = {}
        self._types: dict[str, Type] = {}
        self._composed = composed
        self._overrides = overrides or {}
        self._fields = {**FIELDS, **(fields or {}), _VARIABLES.name: self._types}
        self._release = release

    def declare(self, name: str, text: str, declared: Declared) -> AdmissionExpression:
        """Compile a variable. One that does not compile is dynamic to those that use it."""
        made = self.stored(text, declared)
        self.variables[name] = made
        output = types.DYN if made.compiled is None else output_of(made.compiled)
        self._types[name] = output if output.kind in _DECLARABLE else types.DYN
        return made

    def stored(
        self, text: str, declared: Declared, returns: Sequence[Type] = (types.ANY,)
    ) -> AdmissionExpression:
        """An expression as it is kept: an error is reported by its evaluation."""
        try:
            return AdmissionExpression(text, self.compile(text, declared, returns))
        except CelError as error:
            return AdmissionExpression(text, None, str(error))

    def compile(self, text: str, declared: Declared, returns: Sequence[Type] = (types.ANY,)) -> Expression:
        """Raises `CelError` with the words of kube-apiserver."""
        compiled = compile_expression(text, self._environment(declared), self._release)
        output = output_of(compiled)
        if types.ANY not in returns and output not in returns:
            wanted = str(returns[0]) if len(returns) == 1 else f"one of [{' '.join(map(str, returns))}]"
            raise ExpressionError(f"must evaluate to {wanted} but got {output}")
        return compiled

    def _environment(self, declared: Declared) -> Environment:
        variables = {**_COMMON, **self._overrides}
        if declared.params:
            variables.setdefault("params", types.DYN)
        else:
            variables.pop("params", None)
        if declared.authorizer:
            variables["authorizer"] = types.AUTHORIZER
            variables["authorizer.requestResource"] = types.RESOURCE_CHECK
        if self._composed:
            variables["variables"] = _VARIABLES
        makes: MadeType = _patch_types if declared.patches else _nothing
        return Environment(_functions(patches=declared.patches), variables, self._fields, makes)


def _nothing(name: str) -> None:
    return None


_DECLARABLE: Final = frozenset(
    (
        "any",
        "bool",
        "bytes",
        "double",
        "duration",
        "int",
        "null",
        "string",
        "timestamp",
        "uint",
        "list",
        "map",
    )
)
"""Kinds of types that a variable keeps; those of structs are lost, as with kube-apiserver."""


def output_of(expression: Expression) -> Type:
    return expression.checked.type(expression.checked.root)


# Evaluation


class BudgetError(Exception):
    """The expressions cost more than they may together."""

    def __init__(self) -> None:
        super().__init__(_OUT_OF_BUDGET)


class Budget:
    """What is left of the cost of a policy's expressions."""

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
    """What expressions see of a namespace."""
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
