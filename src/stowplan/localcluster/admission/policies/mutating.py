"""MutatingAdmissionPolicy: expressions that make a patch, as an apply configuration or as a JSON patch."""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from stowplan.api.catalogue import MUTATING_ADMISSION_POLICIES, MUTATING_ADMISSION_POLICY_BINDINGS
from stowplan.api.cel import types, values
from stowplan.api.cel.admission import JSON_PATCH, OBJECT, AdmissionExpression, Declared, ExpressionCompiler
from stowplan.api.cel.values import EvaluationFailure, Map, Struct, Timestamp, Value
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.gocompat.durations import Duration
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.admission.attributes import DELETE, AdmissionAttributes
from stowplan.localcluster.admission.expressions import (
    Budget,
    BudgetError,
    Evaluator,
    MatchConditions,
    RequestVariables,
)
from stowplan.localcluster.admission.policies.hooks import Binding, Invocation, Policy, PolicySource, Refused
from stowplan.localcluster.admission.refusals import forbidden_write
from stowplan.localcluster.apply.shapes import ONE_VALUE, FieldShape, ListShape, StructShape, merged, shape_of
from stowplan.localcluster.schema import the_schema
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.patches import apply_json_patch

_SAFE: Final = 2**53 - 1
"""Integers beyond this are strings in JSON that CEL writes."""


class _PatchError(Exception):
    """A mutation that cannot be evaluated or applied."""


class _Mutation(NamedTuple):
    is_apply: bool
    expression: AdmissionExpression


class CompiledMutations(NamedTuple):
    """The expressions of a policy, ready to be evaluated."""

    conditions: MatchConditions
    variables: Mapping[str, AdmissionExpression]
    mutations: Sequence[_Mutation]


def compiled_mutations(spec: Json) -> CompiledMutations:
    """Errors of expressions are reported when they are evaluated; writing such a policy is refused."""
    compiler = ExpressionCompiler(composed=True)
    declared = Declared(params=spec.get("paramKind") is not None)
    patches = declared._replace(patches=True)
    for one in spec.get("variables") or ():
        compiler.declare(one["name"], one["expression"], declared)
    mutations: list[_Mutation] = []
    for one in spec.get("mutations") or ():
        is_apply = one["patchType"] == "ApplyConfiguration"
        text = (one["applyConfiguration"] if is_apply else one["jsonPatch"])["expression"]
        wanted = OBJECT if is_apply else types.list_of(JSON_PATCH)
        mutations.append(_Mutation(is_apply, compiler.stored(text, patches, (wanted,))))
    conditions = MatchConditions(spec.get("matchConditions") or (), compiler, declared)
    return CompiledMutations(conditions, compiler.variables, mutations)


class _Denial(NamedTuple):
    policy: Policy[CompiledMutations]
    binding: Binding | None
    message: str
    reason: str = ""

    def __str__(self) -> str:
        if self.binding is None:
            return f"policy {quote(self.policy.name)} denied request: {self.message}"
        bound = f"policy '{self.policy.name}' with binding '{self.binding.name}'"
        return f"{bound} denied request: {self.message}"


class _Reinvocation:
    """Policies that are to be invoked again if somebody changes the object after them."""

    def __init__(self) -> None:
        self.invoked: set[tuple[str, ...]] = set()
        self.again: set[tuple[str, ...]] = set()
        self.last: Json | None = None

    def require(self) -> None:
        self.again |= self.invoked
        self.invoked = set()


class MutatingPolicies:
    """Applies the policies of one store. `is_active` is false while there are none."""

    def __init__(self, store: Store, on_change: Callable[[], None]) -> None:
        self._source: PolicySource[CompiledMutations] = PolicySource(
            store,
            MUTATING_ADMISSION_POLICIES,
            MUTATING_ADMISSION_POLICY_BINDINGS,
            compiled_mutations,
            on_change,
        )
        self._store = store
        self._current: tuple[AdmissionAttributes, _Reinvocation] | None = None

    @property
    def is_active(self) -> bool:
        return self._source.is_active

    def mutate(self, write: AdmissionAttributes, variables: RequestVariables) -> bool:
        """Apply the policies that match; true if mutating plugins have to be invoked again.

        Raises `ApiError` for the first policy that cannot be applied and must not be left out.
        """
        if write.operation == DELETE:
            return False
        state = self._reinvocation(write)
        if write.is_again and state.last != write.object:
            state.require()
        denials: list[_Denial] = []
        has_run = False
        for one in [*self._source.invocations(write)]:
            if isinstance(one, Refused):
                if one.policy.fails:
                    denials.append(_Denial(one.policy, one.binding, one.message))
                continue
            if write.is_again and one.key not in state.again:
                continue
            has_run |= self._invoke(write, one, variables, state, denials)
        if has_run:
            state.require()
        state.last = write.object
        if denials:
            raise _refusal(write, denials)
        return has_run

    def _reinvocation(self, write: AdmissionAttributes) -> _Reinvocation:
        """State kept from the first invocation for the second one of the same request."""
        if write.is_again and self._current is not None and self._current[0] is write:
            return self._current[1]
        state = _Reinvocation()
        self._current = (write, state)
        return state

    def _invoke(
        self,
        write: AdmissionAttributes,
        one: Invocation[CompiledMutations],
        variables: RequestVariables,
        state: _Reinvocation,
        denials: list[_Denial],
    ) -> bool:
        """Apply the mutations of a policy in order; true if any was applied."""
        compiled, fails = one.policy.compiled, one.policy.fails
        if compiled.conditions.is_any:
            hidden = {**variables.values(one.matched, one.params), "namespaceObject": None}
            result = compiled.conditions.match(Evaluator(hidden, compiled.variables))
            if result.error and fails:
                denials.append(_Denial(one.policy, one.binding, result.error, "Invalid"))
            if not result.matches:
                return False
        before, has_run = write.object, False
        for mutation in compiled.mutations:
            if write.object is None:
                break
            evaluator = Evaluator(variables.values(one.matched, one.params), compiled.variables)
            try:
                write.replace(self._patched(write, mutation, evaluator))
                has_run = True
            except (_PatchError, BudgetError) as error:
                if fails:
                    denials.append(_Denial(one.policy, one.binding, str(error), "Invalid"))
        if before != write.object:
            state.require()
        if one.policy.spec.get("reinvocationPolicy") == "IfNeeded":
            state.invoked.add(one.key)
        return has_run

    def _patched(self, write: AdmissionAttributes, mutation: _Mutation, evaluator: Evaluator) -> Json:
        if mutation.expression.compiled is None:
            raise _PatchError(mutation.expression.error)
        found = evaluator.evaluate(mutation.expression, Budget())
        if type(found) is EvaluationFailure:
            raise _PatchError(found.message)
        obj = write.object
        assert obj is not None
        if mutation.is_apply:
            return self._applied(write, obj, found)
        return _json_patched(obj, [_operation(one) for one in found])

    def _applied(self, write: AdmissionAttributes, obj: Json, configuration: Struct) -> Json:
        """The object with an apply configuration merged into it. What it sets has no field manager."""
        _check_type_names(configuration)
        wanted = _json(configuration)
        wanted |= {field: obj[field] for field in ("apiVersion", "kind") if field in obj}
        shape = self._shape(write)
        unknown = next(_undeclared(shape, wanted, ""), None)
        if unknown is not None:
            text = f"{unknown}: field not declared in schema"
            raise _PatchError(f"error applying patch: failed to convert patch object to typed object: {text}")
        atomic = [*_atomics(shape, wanted, "")]
        if atomic:
            text = f"may not mutate atomic arrays, maps or structs: {', '.join(atomic)}"
            raise _PatchError(f"error applying patch: invalid ApplyConfiguration: {text}")
        result: Json = merged(shape, obj, wanted)
        return result

    def _shape(self, write: AdmissionAttributes) -> FieldShape:
        kind = write.kind
        custom = self._store.definitions.version_of(kind)
        if custom is not None:
            return custom.shape
        return shape_of(the_schema().of_kind(kind.group, kind.version, kind.kind))


def _refusal(write: AdmissionAttributes, denials: Sequence[_Denial]) -> ApiError:
    error = forbidden_write(write, "admission request denied by policy")
    texts = [str(denial) for denial in denials]
    error.message = texts[0]
    error.reason = denials[0].reason or error.reason
    error.details["causes"] = [{"message": text} for text in texts]
    return error


# Apply configurations


def _undeclared(shape: FieldShape, value: Any, path: str) -> Iterator[str]:
    """Paths of fields that the type of an object does not have."""
    if isinstance(value, dict) and shape.is_map:
        for name, part in value.items():
            if isinstance(shape, StructShape) and not shape.named(name):
                yield f"{path}.{name}"
            else:
                yield from _undeclared(shape.child(name)[1], part, f"{path}.{name}")
    elif isinstance(shape, ListShape) and isinstance(value, list):
        for at, part in enumerate(value):
            yield from _undeclared(shape.element, part, f"{path}[{at}]")


def _atomics(shape: FieldShape, value: Any, path: str) -> Iterator[str]:
    """Paths of lists and maps that would be replaced as a whole, which is rarely what was meant."""
    if isinstance(value, dict):
        if not shape.is_map:
            yield path
            return
        for name, part in value.items():
            yield from _atomics(shape.child(name)[1], part, f"{path}.{name}")
    elif isinstance(value, list):
        if not isinstance(shape, ListShape):
            yield path
            return
        for at, part in enumerate(value):
            yield from _atomics(shape.element if shape is not ONE_VALUE else shape, part, f"{path}[{at}]")


def _check_type_names(value: Struct) -> None:
    """Raises an error unless the types of nested objects are named by their fields."""
    wrong = [*_wrong_names(value, value.made_type.name)]
    if wrong:
        raise _PatchError("type mismatch: " + "\n".join(wrong))


def _wrong_names(value: Value, expected: str) -> Iterator[str]:
    if isinstance(value, Struct):
        name = value.made_type.name
        if name != expected:
            shown = f"unexpected type name {quote(name)}, expected {quote(expected)}"
            yield f"{shown}, which matches field name path from root Object type"
        for field, part in value.items():
            yield from _wrong_names(part, f"{expected}.{field}")
    elif isinstance(value, Map):
        for _, part in value.items():
            yield from _wrong_names(part, expected)
    elif isinstance(value, list):
        for part in value:
            yield from _wrong_names(part, expected)


# JSON patches


def _operation(one: Map) -> Json:
    """An operation of a JSON patch, from the value that an expression made."""
    fields = dict(one.items())
    value = fields.get("value")
    operation: Json = {"op": fields.get("op", ""), "path": fields.get("path", "")}
    if fields.get("from"):
        operation["from"] = fields["from"]
    if "value" in fields:
        if isinstance(value, Struct):
            _check_type_names(value)
        operation["value"] = _json(value)
    return operation


def _json(value: Value) -> Any:
    """A CEL value as JSON. Raises `_PatchError` for one that is none."""
    if isinstance(value, Map):
        if any(type(key) is not str for key, _ in value.items()):
            raise _PatchError(_unmarshalable("map with keys that are not strings"))
        return {key: _json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_json(part) for part in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Timestamp | Duration):
        return values.to_string(value)
    if isinstance(value, int):
        return int(value) if -_SAFE <= value <= _SAFE else str(int(value))
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise _PatchError(_unmarshalable(values.type_name(value)))


def _unmarshalable(what: str) -> str:
    return f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {what}"


def _json_patched(obj: Json, operations: Sequence[Json]) -> Json:
    """The object with the patch applied, or as it is if a `test` of the patch fails."""
    patched: Any = obj
    for operation in operations:
        try:
            patched = apply_json_patch(patched, [operation])
        except ApiError as error:
            if operation["op"] == "test":
                return obj
            raise _PatchError(f"JSON Patch: {_why_not(operation, error)}") from None
    if not isinstance(patched, dict) or not isinstance(patched.get("metadata"), dict):
        raise _PatchError("JSON Patch: the result is no object")
    return patched


def _why_not(operation: Json, error: ApiError) -> str:
    """Error of an operation in the words of the library that kube-apiserver uses."""
    op, path = operation["op"], operation["path"]
    if op not in ("add", "remove", "replace", "move", "copy"):
        return f"unexpected kind: {op}"
    if error.code == 422:
        return f"{op} operation does not apply: doc is missing path: {quote(path)}: missing value"
    return error.message
