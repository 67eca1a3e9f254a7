"""Type checking of ValidatingAdmissionPolicies: their expressions against the types that they match.

Expressions see dynamic objects when they are evaluated, so a misspelled field only fails then. The controller
compiles them once more with the types of the objects and says in the status what does not fit. That changes
nothing about their effect.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import ClassVar, Final, NamedTuple

from stowplan.api.catalogue import (
    BUILT_IN,
    CUSTOM_RESOURCE_DEFINITIONS,
    VALIDATING_ADMISSION_POLICIES,
)
from stowplan.api.cel import types
from stowplan.api.cel.admission import Declared, ExpressionCompiler
from stowplan.api.cel.checker import FieldTypes
from stowplan.api.cel.syntax import CelError
from stowplan.api.cel.types import Type
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.informers import Informer
from stowplan.localcluster.controllers.customkinds import is_established
from stowplan.localcluster.customresources.rules import DeclaredTypes, identifiers
from stowplan.localcluster.customresources.structural import StructuralSchema
from stowplan.localcluster.objects.fields import spec_of, status_of
from stowplan.localcluster.schema import Form, TypeDef, the_schema

_MOST: Final = 10
"""Types against which the expressions of a rule are checked."""

_PLAIN: Final[Mapping[str, Type]] = {
    "string": types.STRING,
    "quantity": types.STRING,
    "int": types.INT,
    "long": types.INT,
    "number": types.DOUBLE,
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "time": types.TIMESTAMP,
    "microtime": types.TIMESTAMP,
}


class Kind(NamedTuple):
    """A kind that a policy matches, in the order in which warnings name them."""

    group: str
    version: str
    kind: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


class ObjectTypes:
    """Types of the objects of all kinds, built-in and defined."""

    def __init__(self, definitions: Informer) -> None:
        self._definitions = definitions
        self.fields: dict[str, FieldTypes] = {
            name: _BuiltInFields(type_) for name, type_ in the_schema().types.items()
        }

    def kinds(self, group: str, version: str, plural: str) -> Iterator[Kind]:
        """The kind of a resource, if it is served."""
        for resource in BUILT_IN:
            if (resource.group, resource.version, resource.plural) == (group, version, plural):
                yield Kind(group, version, resource.kind)
        definition = self._definitions.get(f"{plural}.{group}")
        if definition is not None and is_established(definition):
            for served in spec_of(definition).get("versions") or ():
                if served.get("served") and served["name"] == version:
                    yield Kind(group, version, spec_of(definition)["names"]["kind"])

    def of_kind(self, kind: Kind) -> Type | None:
        """The type of the objects of a kind, None if there is no schema of it."""
        built_in = the_schema().of_kind(kind.group, kind.version, kind.kind)
        if built_in is not None:
            return Type("struct", built_in.full_name)
        for definition in self._definitions:
            spec = spec_of(definition)
            if (spec["group"], spec["names"]["kind"]) == (kind.group, kind.kind):
                for served in spec.get("versions") or ():
                    if served["name"] == kind.version:
                        return self._defined(f"{kind.group}.{kind.version}.{kind.kind}", served)
        return None

    def _defined(self, name: str, version: Json) -> Type | None:
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            return None
        declared = DeclaredTypes()
        found = declared.declare(StructuralSchema(schema), name, is_object=True)
        metadata = {"metadata": Type("struct", "meta.v1.ObjectMeta")}
        self.fields |= declared.fields
        self.fields[name] = {**declared.fields.get(name, {}), **metadata}
        return found


class _BuiltInFields:
    """Fields of a built-in type; names that are no identifiers of CEL are escaped."""

    def __init__(self, type_: TypeDef) -> None:
        self._type = type_
        self._fields: dict[str, Type] | None = None

    def get(self, name: str, /) -> Type | None:
        if self._fields is None:
            self._fields = {
                identifier: _type_of(field.form)
                for field in self._type.fields.values()
                for identifier in identifiers(field.name)
            }
        return self._fields.get(name)


def _type_of(form: Form) -> Type:
    if form.shape == "plain":
        return _PLAIN.get(form.name, types.DYN)
    if form.shape == "type":
        return Type("struct", form.name)
    assert form.of is not None
    inner = _type_of(form.of)
    return types.list_of(inner) if form.shape == "list" else types.map_of(types.STRING, inner)


def expression_warnings(policy: Json, known: ObjectTypes) -> list[Json]:
    """Warnings about validations and their messages: the field, and what is wrong with each kind."""
    spec = spec_of(policy)
    kinds = [(kind, found) for kind in _matched(spec, known) if (found := known.of_kind(kind)) is not None]
    warnings: list[Json] = []
    for i, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            text = validation.get(field) or ""
            told = [*_problems(spec, text, kinds, known)] if text else []
            if told:
                reference = f"spec.validations[{i}].{field}"
                warnings.append({"fieldRef": reference, "warning": "\n".join(told)})
    return warnings


def _matched(spec: Json, known: ObjectTypes) -> Sequence[Kind]:
    """The kinds of a policy's rules; rules with wildcards are not checked."""
    found: set[Kind] = set()
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        plurals = [one for one in rule.get("resources") or () if "*" not in one and "/" not in one]
        if any("*" in one for one in (*groups, *versions)):
            continue
        count = 0
        for combination in product(sorted(groups), sorted(versions), sorted(plurals)):
            for kind in known.kinds(*combination):
                found.add(kind)
                count += 1
                if count == _MOST:
                    return sorted(found)
    return sorted(found)


def _problems(spec: Json, text: str, kinds: Sequence[tuple[Kind, Type]], known: ObjectTypes) -> Iterator[str]:
    """Problems of an expression, by kind."""
    params = spec.get("paramKind")
    declared = Declared(params=params is not None)
    for kind, type_ in kinds:
        overrides = {"object": type_, "oldObject": type_}
        if params is not None:
            group, _, version = (params.get("apiVersion") or "").rpartition("/")
            found = known.of_kind(Kind(group, version, params.get("kind") or ""))
            overrides["params"] = found or types.DYN
        compiler = ExpressionCompiler(composed=True, overrides=overrides, fields=known.fields)
        for one in spec.get("variables") or ():
            compiler.declare(one["name"], one["expression"], declared)
        try:
            compiler.compile(text, declared)
        except CelError as error:
            yield f"{kind}: {str(error).removeprefix('compilation failed: ')}\n"


class ValidatingPolicyStatusController(Controller):
    """Writes the result of type checking into the status of every policy."""

    name: ClassVar[str] = "validatingadmissionpolicy-status-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.policies = self.follow(VALIDATING_ADMISSION_POLICIES)
        self._definitions = self.informer(CUSTOM_RESOURCE_DEFINITIONS)

    async def sync(self, key: str) -> None:
        policy = self.policies.get(key)
        if policy is None:
            return
        generation = policy["metadata"].get("generation")
        if status_of(policy).get("observedGeneration") == generation:
            return
        warnings = expression_warnings(policy, ObjectTypes(self._definitions))
        checked: Json = {"expressionWarnings": warnings} if warnings else {}
        status = {"observedGeneration": generation, "typeChecking": checked}
        await self.set_status(VALIDATING_ADMISSION_POLICIES, policy, status)
