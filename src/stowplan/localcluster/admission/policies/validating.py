"""ValidatingAdmissionPolicy: expressions that an object must satisfy, and what happens if it does not."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from stowplan.api.catalogue import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from stowplan.api.cel import types
from stowplan.api.cel.admission import AdmissionExpression, Declared, ExpressionCompiler
from stowplan.api.cel.values import EvaluationFailure, Value, type_name
from stowplan.api.requests import Json
from stowplan.localcluster.admission.attributes import AdmissionAttributes
from stowplan.localcluster.admission.expressions import (
    Budget,
    BudgetError,
    Evaluator,
    MatchConditions,
    RequestVariables,
)
from stowplan.localcluster.admission.policies.hooks import Binding, Invocation, Policy, PolicySource, Refused
from stowplan.localcluster.admission.refusals import forbidden_write
from stowplan.localcluster.store import Store

_MAX_MESSAGE: Final = 5 * 1024
_MAX_ANNOTATION: Final = 10 * 1024
_MAX_FAILURES: Final = 50
"""Failures in the audit annotation of a request."""
_INVALID: Final = "Invalid"
_CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "RequestEntityTooLarge": 413, _INVALID: 422}
_FAILURES: Final = "validation.policy.admission.k8s.io/validation_failure"
_NO_AUTHORIZER: Final = {
    name: EvaluationFailure(f"no such attribute(s): {name}")
    for name in ("authorizer", "authorizer.requestResource")
}


class _Validation(NamedTuple):
    expression: AdmissionExpression
    message: AdmissionExpression | None
    text: str
    reason: str


class CompiledValidations(NamedTuple):
    """The expressions of a policy, ready to be evaluated."""

    conditions: MatchConditions
    variables: Mapping[str, AdmissionExpression]
    validations: Sequence[_Validation]
    annotations: Sequence[tuple[str, AdmissionExpression]]


def compiled_validations(spec: Json) -> CompiledValidations:
    """Errors of expressions are reported when they are evaluated; writing such a policy is refused."""
    compiler = ExpressionCompiler(composed=True)
    declared = Declared(params=spec.get("paramKind") is not None)
    without = declared._replace(authorizer=False)
    for one in spec.get("variables") or ():
        compiler.declare(one["name"], one["expression"], declared)
    return CompiledValidations(
        MatchConditions(spec.get("matchConditions") or (), compiler, declared),
        compiler.variables,
        [
            _Validation(
                compiler.stored(one["expression"], declared, (types.BOOL,)),
                compiler.stored(one["messageExpression"], without, (types.STRING,))
                if one.get("messageExpression")
                else None,
                str(one.get("message") or "").strip() or f"failed expression: {one['expression'].strip()}",
                one.get("reason") or _INVALID,
            )
            for one in spec.get("validations") or ()
        ],
        [
            (one["key"], compiler.stored(one["valueExpression"], declared, (types.STRING, types.NULL)))
            for one in spec.get("auditAnnotations") or ()
        ],
    )


class _Failure(NamedTuple):
    """A validation that a request does not pass, or that could not be evaluated."""

    message: str
    reason: str = ""
    at: int = 0


class _Denial(NamedTuple):
    policy: Policy[CompiledValidations]
    binding: Binding | None
    failure: _Failure


class ValidatingPolicies:
    """Evaluates the policies of one store. `is_active` is false while there are none."""

    def __init__(self, store: Store, on_change: Callable[[], None]) -> None:
        self._source: PolicySource[CompiledValidations] = PolicySource(
            store,
            VALIDATING_ADMISSION_POLICIES,
            VALIDATING_ADMISSION_POLICY_BINDINGS,
            compiled_validations,
            on_change,
        )

    @property
    def is_active(self) -> bool:
        return self._source.is_active

    def validate(self, write: AdmissionAttributes, variables: RequestVariables) -> None:
        """Raises `ApiError` for the first denial; warnings and annotations are those of all policies."""
        denials: list[_Denial] = []
        audited: list[Json] = []
        published: dict[str, list[str]] = {}
        for one in self._source.invocations(write):
            if isinstance(one, Refused):
                if one.policy.fails:
                    denials.append(_Denial(one.policy, one.binding, _Failure(one.message)))
                continue
            evaluation = _Evaluation(one, variables)
            for failure in evaluation.failures():
                denials += _acted(write, one, failure, audited)
            for key, value in evaluation.annotations():
                if isinstance(value, _Failure):
                    denials.append(_Denial(one.policy, one.binding, value))
                else:
                    known = published.setdefault(f"{one.policy.name}/{key}", [])
                    if value not in known:
                        known.append(value)
        for key, values in published.items():
            write.by.annotate(key, ", ".join(values))
        if audited:
            write.by.annotate(_FAILURES, msgspec.json.encode(audited[:_MAX_FAILURES]).decode())
        if denials:
            raise _refusal(write, denials[0])


def _acted(
    write: AdmissionAttributes,
    one: Invocation[CompiledValidations],
    failure: _Failure,
    audited: list[Json],
) -> list[_Denial]:
    """Actions of a binding on a failure: warn, audit, deny."""
    denied: list[_Denial] = []
    policy, binding = one.policy.name, one.binding.name
    actions: Sequence[str] = one.binding.spec.get("validationActions") or ()
    for action in actions:
        if action == "Deny":
            denied.append(_Denial(one.policy, one.binding, failure))
        elif action == "Warn":
            text = f"Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}'"
            write.by.warn(f"{text}: {failure.message}")
        elif action == "Audit":
            audited.append(
                {
                    "message": failure.message,
                    "policy": policy,
                    "binding": binding,
                    "expressionIndex": failure.at,
                    "validationActions": [*actions],
                }
            )
    return denied


def _refusal(write: AdmissionAttributes, denial: _Denial) -> Exception:
    where = f"ValidatingAdmissionPolicy '{denial.policy.name}'"
    if denial.binding is not None:
        where += f" with binding '{denial.binding.name}'"
    text = f"{where} denied request: {denial.failure.message}"
    error = forbidden_write(write, text)
    error.reason = denial.failure.reason or _INVALID
    error.code = _CODES.get(error.reason, 422)
    error.details["causes"] = [{"message": text}]
    return error


class _Evaluation:
    """One policy, binding and param for one request."""

    def __init__(self, one: Invocation[CompiledValidations], variables: RequestVariables) -> None:
        self._compiled = one.policy.compiled
        self._fails = one.policy.fails
        self._variables, self._one = variables, one
        self._matches = False

    def _evaluator(self, values: Mapping[str, Value]) -> Evaluator:
        """Each phase evaluates the variables anew, as kube-apiserver does: their cost counts in each."""
        return Evaluator(values, self._compiled.variables)

    def failures(self) -> list[_Failure]:
        one, compiled = self._one, self._compiled
        values = self._variables.values(one.matched, one.params)
        if compiled.conditions.is_any:
            hidden = {**values, "namespaceObject": None}
            result = compiled.conditions.match(self._evaluator(hidden))
            if result.error:
                return self._error(result.error)
            if not result.matches:
                return []
        self._matches = True
        budget = Budget()
        evaluator = self._evaluator(values)
        try:
            found = [evaluator.evaluate(each.expression, budget) for each in compiled.validations]
        except BudgetError as error:
            self._matches = False
            return self._error(str(error))
        return self._judged(found, {**values, **_NO_AUTHORIZER}, budget)

    def _judged(self, found: Sequence[Value], values: Mapping[str, Value], budget: Budget) -> list[_Failure]:
        messages: list[Value] = []
        wrong_messages = ""
        evaluator = self._evaluator(values)
        try:
            messages = [
                None if one.message is None else evaluator.evaluate(one.message, budget)
                for one in self._compiled.validations
            ]
        except BudgetError as error:
            messages, wrong_messages = [None] * len(found), f"failed messageExpression: {error}"
        failures: list[_Failure] = []
        for index, (value, message) in enumerate(zip(found, messages, strict=True)):
            if type(value) is EvaluationFailure:
                failures += self._error(value.message, index)
            elif wrong_messages:
                failures += self._error(wrong_messages, index)
            elif value is not True:
                validation = self._compiled.validations[index]
                text = _usable(message) or validation.text
                failures.append(_Failure(text, validation.reason, index))
        return failures

    def _error(self, message: str, index: int = 0) -> list[_Failure]:
        return [_Failure(message, at=index)] if self._fails else []

    def annotations(self) -> list[tuple[str, str | _Failure]]:
        """Audit annotations of the policy; a null or empty value publishes none."""
        if not self._matches or not self._compiled.annotations:
            return []
        one, budget = self._one, Budget()
        values = {**self._variables.values(one.matched, one.params), **_NO_AUTHORIZER}
        evaluator = self._evaluator(values)
        published: list[tuple[str, str | _Failure]] = []
        try:
            found = [
                (key, evaluator.evaluate(each, budget), each) for key, each in self._compiled.annotations
            ]
        except BudgetError as error:
            return [("", each) for each in self._error(str(error))]
        for key, value, expression in found:
            if type(value) is EvaluationFailure:
                published += [(key, each) for each in self._error(value.message)]
            elif isinstance(value, str):
                if text := value.strip():
                    published.append((key, _cut(text)))
            elif value is not None:
                text = (
                    f"valueExpression '{expression.text}' resulted in unsupported return type: "
                    f"{type_name(value)}. Return type must be either string or null."
                )
                published.append((key, _Failure(text)))
        return published


def _usable(message: Value) -> str:
    """The text that a message expression gave, if it can be shown."""
    text = message.strip() if isinstance(message, str) else ""
    return "" if len(text.encode()) > _MAX_MESSAGE or "\n" in text else text


def _cut(text: str) -> str:
    return text.encode()[:_MAX_ANNOTATION].decode(errors="ignore")
