"""Validation of kinds that extend or guard the API server.

admissionregistration.k8s.io (of CEL expressions only the syntax), apiregistration.k8s.io, certificates.k8s.io
and flowcontrol.apiserver.k8s.io.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography import x509

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import (
    FieldError,
    Kind,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from stowplan.api.names import (
    dns_label_problems,
    label_key_problems,
    path_segment_problems,
    service_name_problems,
    subdomain_problems,
)
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.admission.validation.cel import expression_problem
from stowplan.localcluster.admission.validation.meta import selector_errors
from stowplan.localcluster.admission.validation.networking import port_number_problems

_FAILURE: Final = ("Fail", "Ignore")
_MATCH: Final = ("Equivalent", "Exact")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_REVIEWS: Final = ("v1", "v1beta1")
_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_URL_FORM: Final = "; desired format: https://host[/path]"
_MAX_CONDITIONS: Final = 64


def webhook_errors(obj: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    names: set[str] = set()
    for i, hook in enumerate(obj.get("webhooks") or ()):
        path, name = f"webhooks[{i}]", hook.get("name") or ""
        errors += _hook_errors(hook, path)
        errors += _review_version_errors(hook.get("admissionReviewVersions") or (), path)
        if name and name in names:
            errors.append(duplicate(f"{path}.name", name))
        names.add(name)
    return errors


def _hook_errors(hook: Json, path: str) -> Iterator[FieldError]:
    yield from _qualified_name_errors(hook.get("name") or "", f"{path}.name")
    for i, rule in enumerate(hook.get("rules") or ()):
        yield from _rule_errors(rule, f"{path}.rules[{i}]")
    yield from _choice_errors(hook, "failurePolicy", _FAILURE, path)
    yield from _choice_errors(hook, "matchPolicy", _MATCH, path)
    effects = hook.get("sideEffects")
    if effects is None:
        yield required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}")
    elif effects not in _SIDE_EFFECTS:
        yield not_supported(f"{path}.sideEffects", effects, _SIDE_EFFECTS)
    timeout = hook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= 30:
        text = "the timeout value must be between 1 and 30 seconds"
        yield invalid(f"{path}.timeoutSeconds", timeout, text)
    yield from selector_errors(hook.get("namespaceSelector"), f"{path}.namespaceSelector")
    yield from selector_errors(hook.get("objectSelector"), f"{path}.objectSelector")
    yield from _choice_errors(hook, "reinvocationPolicy", ("IfNeeded", "Never"), path)
    yield from client_config_errors(hook.get("clientConfig") or {}, f"{path}.clientConfig")
    yield from _condition_errors(hook.get("matchConditions") or (), f"{path}.matchConditions")


def client_config_errors(config: Json, path: str) -> Iterator[FieldError]:
    """What is wrong with how a webhook is reached."""
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from _url_errors(url, f"{path}.url")
    elif service is not None:
        yield from _service_errors(service, f"{path}.service")


def _url_errors(url: str, path: str) -> Iterator[FieldError]:
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


def _service_errors(service: Json, path: str) -> Iterator[FieldError]:
    for field in ("name", "namespace"):
        if not service.get(field):
            yield required(f"{path}.{field}")
    problems = port_number_problems(service.get("port") or 0)
    if problems:
        yield invalid(f"{path}.port", service.get("port"), f"port is not valid: {', '.join(problems)}")
    where = service.get("path")
    if where in (None, "", "/"):
        return
    if not where.startswith("/"):
        yield invalid(f"{path}.path", where, "must start with a '/'")
    for i, step in enumerate(where.removeprefix("/").removesuffix("/").split("/")):
        if not step:
            yield invalid(f"{path}.path", where, f"segment[{i}] may not be empty")
            continue
        for problem in subdomain_problems(step):
            yield invalid(f"{path}.path", where, f"segment[{i}]: {problem}")


def _review_version_errors(versions: Sequence[str], path: str) -> Iterator[FieldError]:
    path, known = f"{path}.admissionReviewVersions", ", ".join(_REVIEWS)
    if not versions:
        yield required(path, f"must specify one of {known}")
        return
    for i, version in enumerate(versions):
        if version in versions[:i]:
            yield invalid(f"{path}[{i}]", version, "duplicate version")
            continue
        yield from (invalid(f"{path}[{i}]", version, text) for text in service_name_problems(version))
    if not set(versions) & {*_REVIEWS}:
        yield invalid(path, [*versions], f"must include at least one of {known}")


def _qualified_name_errors(name: str, path: str) -> Iterator[FieldError]:
    problems = subdomain_problems(name)
    if not name:
        yield required(path)
    elif problems:
        yield invalid(path, name, ",".join(problems))
    elif name.count(".") < 2:
        yield invalid(path, name, "should be a domain with at least three segments separated by dots")


def _choice_errors(obj: Json, field: str, choices: Sequence[str], path: str) -> Iterator[FieldError]:
    value = obj.get(field)
    if value is not None and value not in choices:
        yield not_supported(f"{path}.{field}", value, choices)


def _rule_errors(rule: Json, path: str) -> Iterator[FieldError]:
    """What is wrong with what a webhook or a policy is about."""
    operations = rule.get("operations") or ()
    if not operations:
        yield required(f"{path}.operations")
    yield from _wildcard_errors(operations, f"{path}.operations", "operations")
    for i, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            yield not_supported(f"{path}.operations[{i}]", operation, _OPERATIONS)
    for field, words in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        if not rule.get(field):
            yield required(f"{path}.{field}")
        yield from _wildcard_errors(rule.get(field) or (), f"{path}.{field}", words)
    for i, version in enumerate(rule.get("apiVersions") or ()):
        if not version:
            yield required(f"{path}.apiVersions[{i}]")
    yield from _resource_errors(rule.get("resources") or (), f"{path}.resources")
    yield from _choice_errors(rule, "scope", _SCOPES, path)


def _wildcard_errors(values: Sequence[str], path: str, words: str) -> Iterator[FieldError]:
    if len(values) > 1 and "*" in values:
        yield invalid(path, [*values], f"if '*' is present, must not specify other {words}")


def _resource_errors(resources: Sequence[str], path: str) -> Iterator[FieldError]:
    if not resources:
        yield required(path)
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


def _condition_errors(conditions: Sequence[Json], path: str) -> Iterator[FieldError]:
    if len(conditions) > _MAX_CONDITIONS:
        text = f"must have at most {_MAX_CONDITIONS} items"
        yield FieldError(path, Kind.TOO_MANY, len(conditions), text)
    names: set[str] = set()
    for i, condition in enumerate(conditions):
        name = condition.get("name") or ""
        yield from _expression_errors(condition, f"{path}[{i}]", "expression", boolean=True)
        if not name:
            yield required(f"{path}[{i}].name")
            continue
        yield from (invalid(f"{path}[{i}].name", name, text) for text in label_key_problems(name))
        if name in names:
            yield duplicate(f"{path}[{i}].name", name)
        names.add(name)


def validating_policy_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_policy_errors(spec)]
    validations, annotations = spec.get("validations") or (), spec.get("auditAnnotations") or ()
    if not validations and not annotations:
        text = "validations or auditAnnotations must contain at least one item"
        errors += [required("spec.validations", text), required("spec.auditAnnotations", text)]
    for i, validation in enumerate(validations):
        errors += _expression_errors(validation, f"spec.validations[{i}]", "expression", boolean=True)
    for i, annotation in enumerate(annotations):
        errors += _expression_errors(annotation, f"spec.auditAnnotations[{i}]", "valueExpression")
    return errors


def mutating_policy_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors = [*_policy_errors(spec)]
    errors += _choice_errors(spec, "reinvocationPolicy", ("IfNeeded", "Never"), "spec")
    mutations = spec.get("mutations") or ()
    if not mutations:
        errors.append(required("spec.mutations", "mutations must contain at least one item"))
    for i, mutation in enumerate(mutations):
        path, kind = f"spec.mutations[{i}]", mutation.get("patchType")
        expected = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}.get(kind or "")
        if expected is None:
            errors.append(not_supported(f"{path}.patchType", kind or "", ["ApplyConfiguration", "JSONPatch"]))
        else:
            errors += _expression_errors(mutation.get(expected) or {}, f"{path}.{expected}", "expression")
    return errors


def _policy_errors(spec: Json) -> Iterator[FieldError]:
    yield from _choice_errors(spec, "failurePolicy", _FAILURE, "spec")
    if spec.get("paramKind") is not None:
        yield from _param_kind_errors(spec["paramKind"], "spec.paramKind")
    match = spec.get("matchConstraints")
    if match is None:
        yield required("spec.matchConstraints")
    else:
        yield from _match_errors(match, "spec.matchConstraints")
        if not match.get("resourceRules"):
            yield required("spec.matchConstraints.resourceRules")
    yield from _condition_errors(spec.get("matchConditions") or (), "spec.matchConditions")
    for i, variable in enumerate(spec.get("variables") or ()):
        if not (variable.get("name") or "").strip():
            yield required(f"spec.variables[{i}].name")
        yield from _expression_errors(variable, f"spec.variables[{i}]", "expression")


def _expression_errors(item: Json, path: str, field: str, *, boolean: bool = False) -> Iterator[FieldError]:
    """What is wrong with a CEL expression that has to be there."""
    expression = (item.get(field) or "").strip()
    problem = expression_problem(expression, boolean=boolean) if expression else ""
    if not expression:
        yield required(f"{path}.{field}", f"{field} is not specified" if boolean else "")
    elif problem:
        yield invalid(f"{path}.{field}", expression, problem)


def _param_kind_errors(kind: Json, path: str) -> Iterator[FieldError]:
    version, name = kind.get("apiVersion") or "", kind.get("kind") or ""
    if not version:
        yield required(f"{path}.apiVersion")
    elif version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    if not name:
        yield required(f"{path}.kind")
    elif problems := service_name_problems(name.lower()):
        text = "may have mixed case, but should otherwise match: " + ",".join(problems)
        yield invalid(f"{path}.kind", name, text)


def _match_errors(match: Json, path: str) -> Iterator[FieldError]:
    yield from _choice_errors(match, "matchPolicy", _MATCH, path)
    yield from selector_errors(match.get("namespaceSelector"), f"{path}.namespaceSelector")
    yield from selector_errors(match.get("objectSelector"), f"{path}.objectSelector")
    for field in ("resourceRules", "excludeResourceRules"):
        for i, rule in enumerate(match.get(field) or ()):
            names = rule.get("resourceNames") or ()
            for j, name in enumerate(names):
                here = f"{path}.{field}[{i}].resourceNames[{j}]"
                yield from (invalid(here, name, text) for text in path_segment_problems(name))
                if name in names[:j]:
                    yield duplicate(here, name)
            yield from _rule_errors(rule, f"{path}.{field}[{i}]")


def binding_errors(obj: Json) -> list[FieldError]:
    """Bindings of policies of either kind."""
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    if not spec.get("policyName"):
        errors.append(required("spec.policyName"))
    else:
        name = spec["policyName"]
        errors += [invalid("spec.policyName", name, text) for text in subdomain_problems(name)]
    errors += _param_ref_errors(spec.get("paramRef"), "spec.paramRef")
    if spec.get("matchResources") is not None:
        errors += _match_errors(spec["matchResources"], "spec.matchResources")
    return errors


def validating_binding_errors(obj: Json) -> list[FieldError]:
    actions, path = (obj.get("spec") or {}).get("validationActions") or (), "spec.validationActions"
    errors = binding_errors(obj)
    for i, action in enumerate(actions):
        if action not in ("Audit", "Deny", "Warn"):
            errors.append(not_supported(f"{path}[{i}]", action, ["Audit", "Deny", "Warn"]))
        if action in actions[:i]:
            errors.append(duplicate(f"{path}[{i}]", action))
    if {"Deny", "Warn"} <= {*actions}:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        errors.append(invalid(path, [*actions], text))
    if not actions:
        errors.append(required(path, "at least one validation action is required"))
    return errors


def _param_ref_errors(reference: Any, path: str) -> Iterator[FieldError]:
    if reference is None:
        return
    name, selector = reference.get("name"), reference.get("selector")
    if name:
        yield from (invalid(f"{path}.name", name, text) for text in path_segment_problems(name))
        if selector is not None:
            yield forbidden(f"{path}.name", "name and selector are mutually exclusive")
    elif selector is None:
        yield required(path, "one of name or selector must be specified")
    yield from selector_errors(selector, f"{path}.selector")
    action = reference.get("parameterNotFoundAction")
    if action is None:
        yield required(f"{path}.parameterNotFoundAction")
    elif action not in ("Allow", "Deny"):
        yield not_supported(f"{path}.parameterNotFoundAction", action, ["Allow", "Deny"])


def api_service_errors(obj: Json) -> list[FieldError]:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    group, version, service = spec.get("group") or "", spec.get("version") or "", spec.get("service")
    errors: list[FieldError] = []
    if name != f"{version}.{group}":
        text = f'must be `spec.version+"."+spec.group`: {quote(f"{version}.{group}")}'
        errors.append(invalid("metadata.name", name, text))
    if not group and version != "v1":
        text = "only v1 may have an empty group and it better be legacy kube"
        errors.append(required("spec.group", text))
    elif group:
        errors += [invalid("spec.group", group, text) for text in subdomain_problems(group)]
    errors += [invalid("spec.version", version, text) for text in service_name_problems(version)]
    for field, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        priority = spec.get(field) or 0
        if not 0 < priority <= most:
            errors.append(invalid(f"spec.{field}", priority, f"must be positive and less than {most}"))
    if service is not None:
        return [*errors, *_service_errors({**service, "path": None}, "spec.service"), *_trust_errors(spec)]
    if spec.get("insecureSkipTLSVerify"):
        text = "local APIServices may not have insecureSkipTLSVerify"
        errors.append(invalid("spec.insecureSkipTLSVerify", True, text))
    return errors


def _trust_errors(spec: Json) -> Iterator[FieldError]:
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        yield invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


_USAGES: Final = tuple(
    sorted(
        (
            "signing",
            "digital signature",
            "content commitment",
            "key encipherment",
            "key agreement",
            "data encipherment",
            "cert sign",
            "crl sign",
            "encipher only",
            "decipher only",
            "any",
            "server auth",
            "client auth",
            "code signing",
            "email protection",
            "s/mime",
            "ipsec end system",
            "ipsec tunnel",
            "ipsec user",
            "timestamping",
            "ocsp signing",
            "microsoft sgc",
            "netscape sgc",
        )
    )
)
_LEGACY_SIGNER: Final = "kubernetes.io/legacy-unknown"


def signing_request_errors(obj: Json) -> list[FieldError]:
    spec = obj.get("spec") or {}
    errors: list[FieldError] = []
    problem = _request_problem(spec.get("request") or "")
    if problem:
        errors.append(invalid("spec.request", spec.get("request") or "", problem))
    usages = spec.get("usages") or ()
    if not usages:
        errors.append(required("spec.usages"))
    for i, usage in enumerate(usages):
        if usage not in _USAGES:
            errors.append(not_supported(f"spec.usages[{i}]", usage, _USAGES))
        if usage in usages[:i]:
            errors.append(duplicate(f"spec.usages[{i}]", usage))
    errors += _signer_errors(spec.get("signerName") or "")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        text = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid("spec.expirationSeconds", seconds, text))
    return errors


def _request_problem(text: str) -> str:
    """What is wrong with a request in PEM, as it stands in the object; empty if nothing is."""
    try:
        raw = base64.b64decode(text, validate=True)
        if b"-----BEGIN CERTIFICATE REQUEST-----" not in raw:
            return "PEM block type must be CERTIFICATE REQUEST"
        request = x509.load_pem_x509_csr(raw)
        return "" if request.is_signature_valid else "the signature does not match the request"
    except (ValueError, binascii.Error):
        return "asn1: the request cannot be parsed"


def _signer_errors(name: str) -> Iterator[FieldError]:
    path = "spec.signerName"
    domain, slash, rest = name.partition("/")
    if not name:
        yield required(path)
    elif name == _LEGACY_SIGNER:
        yield invalid(path, name, "the legacy signerName is not allowed via this API version")
    elif not slash or "/" in rest:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(path, name, text)
    else:
        yield from (invalid(path, domain, text) for text in subdomain_problems(domain))
        yield from (invalid(path, rest, text) for text in subdomain_problems(rest))


def signing_request_update_errors(old: Json, new: Json) -> list[FieldError]:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    return [] if before == after else [invalid("spec", after, "field is immutable")]


_MAX_PRECEDENCE: Final = 10_000
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")


def flow_schema_errors(obj: Json) -> list[FieldError]:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    precedence, path = spec.get("matchingPrecedence") or 0, "spec.matchingPrecedence"
    errors: list[FieldError] = []
    if precedence <= 0:
        errors.append(invalid(path, precedence, "must be a positive value"))
    if precedence > _MAX_PRECEDENCE:
        errors.append(invalid(path, precedence, f"must not be greater than {_MAX_PRECEDENCE}"))
    if precedence == 1 and name != "exempt":
        text = "only the schema named 'exempt' may have matchingPrecedence 1"
        errors.append(invalid(path, precedence, text))
    method = spec.get("distinguisherMethod")
    if method is not None:
        errors += _choice_errors(method, "type", ("ByNamespace", "ByUser"), "spec.distinguisherMethod")
    level = (spec.get("priorityLevelConfiguration") or {}).get("name") or ""
    here = "spec.priorityLevelConfiguration.name"
    if not level:
        errors.append(required(here, "must reference a priority level"))
    else:
        errors += [invalid(here, level, text) for text in subdomain_problems(level)]
    for i, rule in enumerate(spec.get("rules") or ()):
        errors += _flow_rule_errors(rule, f"spec.rules[{i}]")
    return errors


def _flow_rule_errors(rule: Json, path: str) -> Iterator[FieldError]:
    if not rule.get("subjects"):
        yield required(f"{path}.subjects", "subjects must contain at least one value")
    for i, subject in enumerate(rule.get("subjects") or ()):
        yield from _subject_errors(subject, f"{path}.subjects[{i}]")
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for i, each in enumerate(rule.get("resourceRules") or ()):
        here = f"{path}.resourceRules[{i}]"
        yield from _flow_verb_errors(each, here)
        for field, words in (("apiGroups", "api group"), ("resources", "resource")):
            if not each.get(field):
                yield required(f"{here}.{field}", f"resource rules must supply at least one {words}")
            yield from _wildcard_errors(each.get(field) or (), f"{here}.{field}", f"{words}s")
        if not each.get("namespaces") and not each.get("clusterScope"):
            text = "resource rules that are not cluster scoped must supply at least one namespace"
            yield required(f"{here}.namespaces", text)
        yield from _wildcard_errors(each.get("namespaces") or (), f"{here}.namespaces", "namespaces")
    for i, each in enumerate(rule.get("nonResourceRules") or ()):
        here = f"{path}.nonResourceRules[{i}]"
        yield from _flow_verb_errors(each, here)
        if not each.get("nonResourceURLs"):
            text = "nonResourceURLs must contain at least one value"
            yield required(f"{here}.nonResourceURLs", text)


def _flow_verb_errors(rule: Json, path: str) -> Iterator[FieldError]:
    verbs = rule.get("verbs") or ()
    if not verbs:
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    elif "*" in verbs:
        yield from _wildcard_errors(verbs, f"{path}.verbs", "verbs")
    elif not {*verbs} <= {*_VERBS}:
        yield not_supported(f"{path}.verbs", ",".join(verbs), _VERBS)


def _subject_errors(subject: Json, path: str) -> Iterator[FieldError]:
    fields = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
    kind = subject.get("kind") or ""
    if kind not in fields:
        yield not_supported(f"{path}.kind", kind, sorted(fields))
        return
    field = fields[kind]
    given = subject.get(field)
    if given is None:
        yield required(f"{path}.{field}", f"{field} is required when subject kind is '{kind}'")
    else:
        if not given.get("name"):
            yield required(f"{path}.{field}.name")
        if kind == "ServiceAccount":
            namespace = given.get("namespace") or ""
            if not namespace:
                text = "must specify namespace for service account"
                yield required(f"{path}.{field}.namespace", text)
            else:
                problems = dns_label_problems(namespace)
                here = f"{path}.{field}.namespace"
                yield from (invalid(here, namespace, text) for text in problems)
    for other, name in fields.items():
        if name != field and subject.get(name) is not None:
            yield forbidden(f"{path}.{name}", f"{name} is forbidden when subject kind is not '{other}'")


def priority_level_errors(obj: Json) -> list[FieldError]:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    kind = spec.get("type") or ""
    errors: list[FieldError] = []
    if (name == "exempt") != (kind == "Exempt"):
        text = "must be 'Exempt' if and only if `name` is 'exempt'"
        errors.append(invalid("spec.type", kind, text))
    if kind == "Exempt":
        if spec.get("limited") is not None:
            errors.append(forbidden("spec.limited", "must be nil if the type is not Limited"))
    elif kind == "Limited":
        if spec.get("exempt") is not None:
            errors.append(forbidden("spec.exempt", "must be nil if the type is Limited"))
        if spec.get("limited") is None:
            errors.append(required("spec.limited", "must not be empty when type is Limited"))
        else:
            errors += _limited_errors(spec["limited"], "spec.limited")
    else:
        errors.append(not_supported("spec.type", kind, ["Exempt", "Limited"]))
    return errors


def _limited_errors(limited: Json, path: str) -> Iterator[FieldError]:
    shares = limited.get("nominalConcurrencyShares")
    if shares is not None and shares < 0:
        text = "must be a non-negative integer"
        yield invalid(f"{path}.nominalConcurrencyShares", shares, text)
    response = limited.get("limitResponse") or {}
    kind, queuing, here = response.get("type") or "", response.get("queuing"), f"{path}.limitResponse"
    if kind == "Reject":
        if queuing is not None:
            yield forbidden(f"{here}.queuing", "must be nil if limited.limitResponse.type is not Limited")
    elif kind != "Queue":
        yield not_supported(f"{here}.type", kind, ["Queue", "Reject"])
    elif queuing is None:
        yield required(f"{here}.queuing", "must not be empty if limited.limitResponse.type is Limited")
    else:
        for field in ("queueLengthLimit", "queues", "handSize"):
            if (queuing.get(field) or 0) <= 0:
                yield invalid(f"{here}.queuing.{field}", queuing.get(field) or 0, "must be positive")


ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = {
    catalogue.VALIDATING_WEBHOOK_CONFIGURATIONS: webhook_errors,
    catalogue.MUTATING_WEBHOOK_CONFIGURATIONS: webhook_errors,
    catalogue.VALIDATING_ADMISSION_POLICIES: validating_policy_errors,
    catalogue.MUTATING_ADMISSION_POLICIES: mutating_policy_errors,
    catalogue.VALIDATING_ADMISSION_POLICY_BINDINGS: validating_binding_errors,
    catalogue.MUTATING_ADMISSION_POLICY_BINDINGS: binding_errors,
    catalogue.API_SERVICES: api_service_errors,
    catalogue.CERTIFICATE_SIGNING_REQUESTS: signing_request_errors,
    catalogue.FLOW_SCHEMAS: flow_schema_errors,
    catalogue.PRIORITY_LEVEL_CONFIGURATIONS: priority_level_errors,
}
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.CERTIFICATE_SIGNING_REQUESTS: signing_request_update_errors,
}
