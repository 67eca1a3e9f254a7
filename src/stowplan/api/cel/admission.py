"""Expressions of policies, webhooks and their match conditions: their variables and types, and the compiler.

They see `object`, `oldObject`, `request`, `namespaceObject`, `authorizer`, `params` if the policy has a kind
of them, and its `variables`. Errors have the words of kube-apiserver. They are evaluated where requests are
admitted.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from stowplan.api.cel import types
from stowplan.api.cel.checker import Environment, FieldTypes, MadeType
from stowplan.api.cel.compiler import Expression, compile_expression
from stowplan.api.cel.cost import CostRelease
from stowplan.api.cel.declarations import ESCAPE_KEY, functions
from stowplan.api.cel.syntax import CelError
from stowplan.api.cel.types import Type


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
        fields: Mapping[str, FieldTypes] | None = None,
        release: CostRelease = _COSTS,
    ) -> None:
        self.variables: dict[str, AdmissionExpression] = {}
        self._types: dict[str, Type] = {}
        self._composed = composed
        self._overrides = overrides or {}
        self._fields: Mapping[str, FieldTypes] = {**FIELDS, **(fields or {}), _VARIABLES.name: self._types}
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
