"""Validation of webhooks and admission policies: admissionregistration.k8s.io, as tables and CEL expressions.

Expressions are compiled as they are for requests, so errors name the place in the text.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from stowplan.api.catalogue import Resource
from stowplan.api.cel import types
from stowplan.api.cel.admission import JSON_PATCH, OBJECT, Declared, ExpressionCompiler
from stowplan.api.cel.syntax import CelError
from stowplan.api.cel.types import Type
from stowplan.api.fielderrors import FieldError, duplicate, forbidden, invalid, not_supported, required
from stowplan.api.names import (
    label_key_problems,
    path_segment_problems,
    service_name_problems,
    subdomain_problems,
)
from stowplan.api.requests import Json
from stowplan.localcluster.admission.validation.meta import selector_errors
from stowplan.localcluster.admission.validation.networking import port_number_problems
from stowplan.localcluster.admission.validation.table import (
    enum,
    named,
    one_for_all,
    rules_of,
    tables,
    too_many,
)

_MAX_ANNOTATIONS: Final = 20
_MAX_VALUE: Final = 5 * 1024
_IDENTIFIER: Final = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED: Final = frozenset(
    (
        *("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if"),
        *("import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
)


# Expressions


def expression_problem(
    text: str, compiler: ExpressionCompiler, declared: Declared, returns: Sequence[Type]
) -> str:
    """Error of an expression, empty if it compiles and has one of the types."""
    try:
        compiler.compile(text, declared, returns)
    except CelError as error:
        return str(error)
    return ""


def _condition(condition: Json, path: str, declared: Declared) -> Iterator[FieldError]:
    """The expression of a match condition, which cannot use the variables of a policy."""
    text = (condition.get("expression") or "").strip()
    if not text:
        yield required(f"{path}.expression")
    elif problem := expression_problem(text, ExpressionCompiler(), declared, (types.BOOL,)):
        yield invalid(f"{path}.expression", text, problem)


def _webhook_condition(condition: Json, path: str) -> Iterator[FieldError]:
    yield from _condition(condition, path, Declared())


# Webhooks

_URL_FORM: Final = "; desired format: https://host[/path]"
_REVIEWS: Final = ("v1", "v1beta1")
_MAX_CONDITIONS: Final = 64


def _url(url: str, path: str) -> Iterator[FieldError]:
    try:
        found = urlsplit(url)
    except ValueError as error:
        yield required(path, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if found.scheme != "https":
        yield invalid(path, found.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    if not found.netloc:
        yield invalid(path, "", f"host must be specified{_URL_FORM}")
    if "@" in found.netloc:
        user = found.netloc.rpartition("@")[0]
        yield invalid(path, user, "user information is not permitted in the URL")
    if found.fragment:
        yield invalid(path, found.fragment, "fragments are not permitted in the URL")
    if found.query:
        yield invalid(path, found.query, "query parameters are not permitted in the URL")


def _url_path(where: str, path: str) -> Iterator[FieldError]:
    if where == "/":
        return
    if not where.startswith("/"):
        yield invalid(path, where, "must start with a '/'")
    for i, step in enumerate(where.removeprefix("/").removesuffix("/").split("/")):
        if not step:
            yield invalid(path, where, f"segment[{i}] may not be empty")
            continue
        for problem in subdomain_problems(step):
            yield invalid(path, where, f"segment[{i}]: {problem}")


def _service_port(given: int, path: str) -> Iterator[FieldError]:
    port = given or 0
    problems = port_number_problems(port)
    if problems:
        yield invalid(path, port, f"port is not valid: {', '.join(problems)}")


def _one_target(config: Json, path: str) -> Iterator[FieldError]:
    if (config.get("url") is None) == (config.get("service") is None):
        yield required(path, "exactly one of url or service is required")
    else:
        yield from _TABLES["target"](config, path)


def _qualified_name(name: str, path: str) -> Iterator[FieldError]:
    problems = subdomain_problems(name)
    if problems:
        yield invalid(path, name, ",".join(problems))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _resources(resources: Sequence[str], path: str) -> Iterator[FieldError]:
    whole: set[str] = set()
    anywhere: set[str] = set()
    for i, text in enumerate(resources):
        resource, slash, part = text.partition("/")
        if not text:
            yield required(f"{path}[{i}]")
        if not slash:
            continue
        if resource in whole:
            yield invalid(f"{path}[{i}]", text, f"if '{resource}/*' is present, must not specify {text}")
        if part in anywhere:
            yield invalid(f"{path}[{i}]", text, f"if '*/{part}' is present, must not specify {text}")
        if part == "*":
            whole.add(resource)
        if resource == "*":
            anywhere.add(part)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, [*resources], "if '*/*' is present, must not specify other resources")
    if "*" in resources and any("/" not in text and text not in ("", "*") for text in resources):
        text = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, [*resources], text)


def _not_empty(value: str, path: str) -> Iterator[FieldError]:
    if not value:
        yield required(path)


def _review_versions(versions: Sequence[str], path: str) -> Iterator[FieldError]:
    for i, version in enumerate(versions):
        if version in versions[:i]:
            yield invalid(f"{path}[{i}]", version, "duplicate version")
            continue
        yield from named(service_name_problems)(version, f"{path}[{i}]")
    if not set(versions) & {*_REVIEWS}:
        yield invalid(path, [*versions], f"must include at least one of {', '.join(_REVIEWS)}")


def _few_conditions(conditions: Sequence[Json], path: str) -> Iterator[FieldError]:
    if len(conditions) > _MAX_CONDITIONS:
        yield too_many(path, len(conditions), _MAX_CONDITIONS)


# Admission policies


def _api_version(version: str, path: str) -> Iterator[FieldError]:
    if version.count("/") > 1:
        yield invalid(path, version, f"unexpected GroupVersion string: {version}")
        return
    group, _, plain = version.rpartition("/")
    for problem in subdomain_problems(group) if group else ():
        yield invalid(path, group, problem)
    if not plain:
        yield invalid(path, version, "version must be specified")
    for problem in service_name_problems(plain) if plain else ():
        yield invalid(path, plain, problem)


def _kind_name(name: str, path: str) -> Iterator[FieldError]:
    if problems := service_name_problems(name.lower()):
        text = "may have mixed case, but should otherwise match: " + ",".join(problems)
        yield invalid(path, name, text)


class _PolicyExpressions:
    """The expressions of a policy. Its variables can be used in all but its match conditions."""

    def __init__(self, spec: Json) -> None:
        self._spec = spec
        self._declared = Declared(params=spec.get("paramKind") is not None)
        self._compiler = ExpressionCompiler(composed=bool(spec.get("variables")))

    def conditions(self) -> Iterator[FieldError]:
        seen: set[str] = set()
        conditions = self._spec.get("matchConditions") or ()
        yield from _few_conditions(conditions, "spec.matchConditions")
        for i, one in enumerate(conditions):
            path, name = f"spec.matchConditions[{i}]", one.get("name") or ""
            yield from _condition(one, path, self._declared)
            if not name:
                yield required(f"{path}.name")
            for problem in label_key_problems(name) if name else ():
                yield invalid(f"{path}.name", name, problem)
            if name in seen:
                yield duplicate(f"{path}.name", name)
            seen |= {name} if name else set()

    def variables(self) -> Iterator[FieldError]:
        for i, one in enumerate(self._spec.get("variables") or ()):
            path, name, text = f"spec.variables[{i}]", one.get("name") or "", one.get("expression") or ""
            if not name.strip():
                yield required(f"{path}.name", "name is not specified")
            elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
                yield invalid(f"{path}.name", name, "must be a valid CEL identifier")
            if not text.strip():
                yield required(f"{path}.expression", "expression is not specified")
                continue
            made = self._compiler.declare(name, text, self._declared)
            if made.error:
                yield invalid(f"{path}.expression", text, made.error)

    def compiled(
        self, text: str, path: str, returns: Sequence[Type], *, authorizer: bool = True, patches: bool = False
    ) -> Iterator[FieldError]:
        declared = self._declared._replace(authorizer=authorizer, patches=patches)
        if problem := expression_problem(text, self._compiler, declared, returns):
            yield invalid(path, text, problem)


_REASON: Final = enum("Forbidden", "Invalid", "RequestEntityTooLarge")


def _validating_expressions(obj: Json, path: str) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    found = _PolicyExpressions(spec)
    yield from found.conditions()
    yield from found.variables()
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must contain at least one item"
        yield required("spec.validations", text)
        yield required("spec.auditAnnotations", text)
    for i, one in enumerate(spec.get("validations") or ()):
        yield from _validation(found, one, f"spec.validations[{i}]")
    annotations, seen = spec.get("auditAnnotations") or (), set()
    if len(annotations) > _MAX_ANNOTATIONS:
        text = f"must not have more than {_MAX_ANNOTATIONS} auditAnnotations"
        yield invalid("spec.auditAnnotations", [*annotations], text)
    for i, one in enumerate(annotations):
        key = one.get("key") or ""
        yield from _annotation(found, obj["metadata"].get("name") or "", one, f"spec.auditAnnotations[{i}]")
        if key in seen:
            yield duplicate(f"spec.auditAnnotations[{i}].key", key)
        seen.add(key)


def _validation(found: _PolicyExpressions, one: Json, path: str) -> Iterator[FieldError]:
    text, told, message = (one.get(field) or "" for field in ("expression", "messageExpression", "message"))
    if not text.strip():
        yield required(f"{path}.expression", "expression is not specified")
    else:
        yield from found.compiled(text, f"{path}.expression", (types.BOOL,))
    if told and not told.strip():
        yield invalid(f"{path}.messageExpression", told, "must be non-empty if specified")
    elif told:
        where = f"{path}.messageExpression"
        yield from found.compiled(told, where, (types.STRING,), authorizer=False)
    if message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif re.search(r"[\r\n]", message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    if one.get("reason") is not None:
        yield from _REASON(one["reason"], f"{path}.reason")


def _annotation(found: _PolicyExpressions, policy: str, one: Json, path: str) -> Iterator[FieldError]:
    key, text = one.get("key") or "", (one.get("valueExpression") or "").strip()
    if policy:
        for problem in label_key_problems(f"{policy}/{key}"):
            yield invalid(f"{path}.key", f"{policy}/{key}", problem)
    else:
        yield invalid(f"{path}.key", key, "requires metadata.name be non-empty")
    if not text:
        yield required(f"{path}.valueExpression", "valueExpression is not specified")
    elif len(text) > _MAX_VALUE:
        yield required(f"{path}.valueExpression", f"must not exceed {_MAX_VALUE} bytes in length")
    else:
        yield from found.compiled(text, f"{path}.valueExpression", (types.STRING, types.NULL))


_MUTATIONS: Final[Mapping[str, tuple[str, Type]]] = {
    "ApplyConfiguration": ("applyConfiguration", OBJECT),
    "JSONPatch": ("jsonPatch", types.list_of(JSON_PATCH)),
}


def _mutating_expressions(obj: Json, path: str) -> Iterator[FieldError]:
    spec = obj.get("spec") or {}
    found = _PolicyExpressions(spec)
    yield from found.conditions()
    yield from found.variables()
    if not spec.get("mutations"):
        yield required("spec.mutations", "mutations must contain at least one item")
    for i, one in enumerate(spec.get("mutations") or ()):
        yield from _mutation(found, one, f"spec.mutations[{i}]")
    policy = spec.get("reinvocationPolicy") or ""
    if not policy:
        yield required("spec.reinvocationPolicy")
    elif policy not in ("IfNeeded", "Never"):
        yield not_supported("spec.reinvocationPolicy", policy, ["IfNeeded", "Never"])


def _mutation(found: _PolicyExpressions, mutation: Json, path: str) -> Iterator[FieldError]:
    kind = mutation.get("patchType") or ""
    if not kind:
        yield required(f"{path}.patchType")
    elif kind not in _MUTATIONS:
        yield not_supported(f"{path}.patchType", kind, [*_MUTATIONS])
    else:
        part, made = _MUTATIONS[kind]
        text = ((mutation.get(part) or {}).get("expression") or "").strip()
        if mutation.get(part) is None:
            yield required(f"{path}.{part}", f"must be specified when patchType is {kind}")
        elif not text:
            yield required(f"{path}.{part}.expression")
        else:
            yield from found.compiled(text, f"{path}.{part}.expression", (made,), patches=True)
        for other in ("applyConfiguration", "jsonPatch"):
            if other != part and mutation.get(other) is not None:
                text = f"must not be specified when patchType is {kind}"
                yield invalid(f"{path}.{other}", f"{{{other}}}", text)


def _mutable(match: Json, path: str) -> Iterator[FieldError]:
    """Operations of rules of which a policy can change the object."""
    for rule in match.get("resourceRules") or ():
        for operation in rule.get("operations") or ():
            if operation not in _MUTABLE:
                yield not_supported(f"{path}.resourceRules.operations", operation, _MUTABLE)


_MUTABLE: Final = ("*", "CONNECT", "CREATE", "UPDATE")


def _name_or_selector(reference: Json, path: str) -> Iterator[FieldError]:
    name, selector = reference.get("name"), reference.get("selector")
    exclusive = "name and selector are mutually exclusive"
    if name:
        yield from named(path_segment_problems)(name, f"{path}.name")
        if selector is not None:
            yield forbidden(f"{path}.name", exclusive)
    yield from selector_errors(selector, f"{path}.selector")
    if name and selector is not None:
        yield forbidden(f"{path}.selector", exclusive)
    if not name and selector is None:
        yield required(path, "one of name or selector must be specified")


def _no_repetition(actions: Sequence[str], path: str) -> Iterator[FieldError]:
    if {"Deny", "Warn"} <= {*actions}:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        yield invalid(path, [*actions], text)


_TABLES: Final = tables(
    """
    service
      name!
      namespace!
      port+                    service_port
    target
      url                      url
      service                  service
        path?                  url_path
    rule
      operations!
      operations[]             all_operations each {*, CONNECT, CREATE, DELETE, UPDATE}
      apiGroups!               all_groups
      apiVersions[]!           all_versions each not_empty
      resources!               resources
      scope                    {*, Cluster, Namespaced}
    conditions
      matchConditions[name]    few_conditions each webhook_condition
        name!                  label_key
    ValidatingWebhookConfiguration
      webhooks[name]
        name!                  qualified_name
        rules[]                each rule
        failurePolicy          {Fail, Ignore}
        matchPolicy            {Equivalent, Exact}
        sideEffects*           {None, NoneOnDryRun} : must specify one of None, NoneOnDryRun
        timeoutSeconds         1..30 : the timeout value must be between 1 and 30 seconds
        namespaceSelector      selector
        objectSelector         selector
        reinvocationPolicy     {IfNeeded, Never}
        clientConfig+          one_target
        & conditions
        admissionReviewVersions! review_versions : must specify one of v1, v1beta1
    MutatingWebhookConfiguration
      & ValidatingWebhookConfiguration

    match
      matchPolicy              {Equivalent, Exact}
      namespaceSelector        selector
      objectSelector           selector
      resourceRules[]
        resourceNames[=]       each segment
        & rule
      excludeResourceRules[]
        resourceNames[=]       each segment
        & rule
    policy
      failurePolicy*           {Fail, Ignore}
      paramKind
        apiVersion!            api_version
        kind!                  kind_name
      matchConstraints*        match
        resourceRules!
    ValidatingAdmissionPolicy
      spec+                    policy
      & validating_expressions
    MutatingAdmissionPolicy
      spec+                    policy
        matchConstraints       mutable
      & mutating_expressions
    binding
      policyName!              subdomain
      paramRef                 name_or_selector
        parameterNotFoundAction! {Deny, Allow}
      matchResources           match
    MutatingAdmissionPolicyBinding
      spec+                    binding
        matchResources         mutable
    ValidatingAdmissionPolicyBinding
      spec+                    binding
        validationActions[=]   each {Audit, Deny, Warn}
        validationActions!     no_repetition : at least one validation action is required
    """,
    *(_url, _url_path, _service_port, _one_target, _qualified_name, _resources, _not_empty, _review_versions),
    *(_few_conditions, _webhook_condition, _api_version, _kind_name, _name_or_selector, _no_repetition),
    *(_validating_expressions, _mutating_expressions, _mutable),
    all_operations=one_for_all("operations"),
    all_groups=one_for_all("API groups"),
    all_versions=one_for_all("API versions"),
)
SERVICE: Final = _TABLES["service"]
"""Checks of a reference to a service that is called."""
ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = rules_of(_TABLES)
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {}
