"""Validation of kinds that extend or guard the API server, as tables.

admissionregistration.k8s.io (of CEL expressions only the syntax), apiregistration.k8s.io, certificates.k8s.io
and flowcontrol.apiserver.k8s.io.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.cel.parser import parse
from stowplan.api.cel.recursion import EXPRESSION, DeepStack
from stowplan.api.cel.syntax import Call, ListNode, Literal, MapNode, SyntaxNode, render
from stowplan.api.cel.values import type_name
from stowplan.api.fielderrors import FieldError, forbidden, invalid, not_supported, required
from stowplan.api.names import path_segment_problems, service_name_problems, subdomain_problems
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.admission.validation.meta import selector_errors
from stowplan.localcluster.admission.validation.networking import port_number_problems
from stowplan.localcluster.admission.validation.table import (
    Check,
    enum,
    fixed,
    named,
    one_for_all,
    rules_of,
    tables,
    too_many,
)

_SAME_TYPE: Final = {"_?_:_": 1, "_+_": 0, "_-_": 0, "_*_": 0, "_/_": 0, "_%_": 0, "-_": 0}
"""Operators whose result has the type of their operands, from this one on."""


def expression(field: str, *, boolean: bool = False) -> Check:
    """Checks of an expression that must be there."""
    missing = f"{field} is not specified" if boolean else ""

    def check(holder: Json, path: str) -> Iterator[FieldError]:
        text = (holder.get(field) or "").strip()
        problem = expression_problem(text, boolean=boolean) if text else ""
        if not text:
            yield required(f"{path}.{field}", missing)
        elif problem:
            yield invalid(f"{path}.{field}", text, problem)

    return check


def expression_problem(text: str, *, boolean: bool = True) -> str:
    """Error of an expression, which may have to be a condition; empty if there is none."""
    with DeepStack(EXPRESSION):
        root, issues = parse(text)
        if root is None:
            return f"compilation failed: {render(text, issues)}"
        found = _type_of(root) if boolean else "dyn"
    return "" if found in ("bool", "dyn") else f"must evaluate to bool or the unknown type, not {found}"


def _type_of(node: SyntaxNode) -> str:
    """The type of a constant expression; `dyn` of all others."""
    match node:
        case Literal():
            return type_name(node.value)
        case ListNode():
            return "list"
        case MapNode():
            return "map"
        case Call() if node.function in _SAME_TYPE:
            found = {_type_of(operand) for operand in node.args[_SAME_TYPE[node.function] :]}
            return found.pop() if len(found) == 1 else "dyn"
    return "dyn"


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


def _kind_name(name: str, path: str) -> Iterator[FieldError]:
    if problems := service_name_problems(name.lower()):
        text = "may have mixed case, but should otherwise match: " + ",".join(problems)
        yield invalid(path, name, text)


def _variable_name(variable: Json, path: str) -> Iterator[FieldError]:
    if not (variable.get("name") or "").strip():
        yield required(f"{path}.name")


def _any_outcome(spec: Json, path: str) -> Iterator[FieldError]:
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        text = "validations or auditAnnotations must contain at least one item"
        yield required(f"{path}.validations", text)
        yield required(f"{path}.auditAnnotations", text)


_PATCHES: Final = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}


def _mutation(mutation: Json, path: str) -> Iterator[FieldError]:
    kind = mutation.get("patchType") or ""
    if kind in _PATCHES:
        part = _PATCHES[kind]
        yield from expression("expression")(mutation.get(part) or {}, f"{path}.{part}")
    else:
        yield not_supported(f"{path}.patchType", kind, [*_PATCHES])


def _name_or_selector(reference: Json, path: str) -> Iterator[FieldError]:
    name, selector = reference.get("name"), reference.get("selector")
    if name:
        yield from named(path_segment_problems)(name, f"{path}.name")
        if selector is not None:
            yield forbidden(f"{path}.name", "name and selector are mutually exclusive")
    elif selector is None:
        yield required(path, "one of name or selector must be specified")
    yield from selector_errors(selector, f"{path}.selector")


def _no_repetition(actions: Sequence[str], path: str) -> Iterator[FieldError]:
    if {"Deny", "Warn"} <= {*actions}:
        text = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the "
            "API response and headers serves no purpose)"
        )
        yield invalid(path, [*actions], text)


# API services


def _name_of_parts(obj: Json, path: str) -> Iterator[FieldError]:
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name", "")
    wanted = f"{spec.get('version') or ''}.{spec.get('group') or ''}"
    if name != wanted:
        yield invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: {quote(wanted)}')


def _api_group(spec: Json, path: str) -> Iterator[FieldError]:
    if not spec.get("group") and spec.get("version") != "v1":
        yield required(f"{path}.group", "only v1 may have an empty group and it better be legacy kube")


def _trust(spec: Json, path: str) -> Iterator[FieldError]:
    if spec.get("insecureSkipTLSVerify"):
        if spec.get("service") is None:
            text = "local APIServices may not have insecureSkipTLSVerify"
            yield invalid(f"{path}.insecureSkipTLSVerify", True, text)
        elif spec.get("caBundle"):
            yield invalid(f"{path}.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


# Certificate signing requests

_USAGE: Final = enum(
    *(
        "any",
        "cert sign",
        "client auth",
        "code signing",
        "content commitment",
        "crl sign",
        "data encipherment",
    ),
    *("decipher only", "digital signature", "email protection", "encipher only", "ipsec end system"),
    *("ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc"),
    *("ocsp signing", "s/mime", "server auth", "signing", "timestamping"),
)


def _signing_request(given: str, path: str) -> Iterator[FieldError]:
    text = given or ""
    problem = _request_problem(text)
    if problem:
        yield invalid(path, text, problem)


def _request_problem(text: str) -> str:
    """Error of a request in PEM, as it stands in the object; empty if there is none."""
    try:
        raw = base64.b64decode(text, validate=True)
        if b"-----BEGIN CERTIFICATE REQUEST-----" not in raw:
            return "PEM block type must be CERTIFICATE REQUEST"
        request = x509.load_pem_x509_csr(raw)
        return "" if request.is_signature_valid else "the signature does not match the request"
    except (ValueError, binascii.Error):
        return "asn1: the request cannot be parsed"


def _signer(name: str, path: str) -> Iterator[FieldError]:
    domain, slash, rest = name.partition("/")
    if name == "kubernetes.io/legacy-unknown":
        yield invalid(path, name, "the legacy signerName is not allowed via this API version")
    elif not slash or "/" in rest:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        yield invalid(path, name, text)
    else:
        yield from named(subdomain_problems)(domain, path)
        yield from named(subdomain_problems)(rest, path)


# Flow control

_MAX_PRECEDENCE: Final = 10_000
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")


def _precedence(obj: Json, path: str) -> Iterator[FieldError]:
    precedence = (obj.get("spec") or {}).get("matchingPrecedence") or 0
    path = "spec.matchingPrecedence"
    if precedence <= 0:
        yield invalid(path, precedence, "must be a positive value")
    if precedence > _MAX_PRECEDENCE:
        yield invalid(path, precedence, f"must not be greater than {_MAX_PRECEDENCE}")
    if precedence == 1 and obj["metadata"].get("name", "") != "exempt":
        yield invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")


def _verbs(verbs: Sequence[str], path: str) -> Iterator[FieldError]:
    if "*" in verbs:
        yield from one_for_all("verbs")(verbs, path)
    elif not {*verbs} <= {*_VERBS}:
        yield not_supported(path, ",".join(verbs), _VERBS)


def _any_rules(rule: Json, path: str) -> Iterator[FieldError]:
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")


def _namespaces(rule: Json, path: str) -> Iterator[FieldError]:
    if not rule.get("namespaces") and not rule.get("clusterScope"):
        text = "resource rules that are not cluster scoped must supply at least one namespace"
        yield required(f"{path}.namespaces", text)


_SUBJECTS: Final = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}


def _subject(subject: Json, path: str) -> Iterator[FieldError]:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        yield not_supported(f"{path}.kind", kind, sorted(_SUBJECTS))
        return
    own = _SUBJECTS[kind]
    if subject.get(own) is None:
        yield required(f"{path}.{own}", f"{own} is required when subject kind is '{kind}'")
    else:
        yield from _TABLES[own](subject[own], f"{path}.{own}")
    for other, name in _SUBJECTS.items():
        if name != own and subject.get(name) is not None:
            yield forbidden(f"{path}.{name}", f"{name} is forbidden when subject kind is not '{other}'")


def _limit_response(response: Json, path: str) -> Iterator[FieldError]:
    kind, queuing = response.get("type") or "", f"{path}.queuing"
    if kind == "Queue":
        yield from _TABLES["queued"](response, path)
    elif kind != "Reject":
        yield not_supported(f"{path}.type", kind, ["Queue", "Reject"])
    elif response.get("queuing") is not None:
        yield forbidden(queuing, "must be nil if limited.limitResponse.type is not Limited")


def _exempt_name(obj: Json, path: str) -> Iterator[FieldError]:
    kind = (obj.get("spec") or {}).get("type") or ""
    if (obj["metadata"].get("name", "") == "exempt") != (kind == "Exempt"):
        yield invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")


def _level(spec: Json, path: str) -> Iterator[FieldError]:
    kind = spec.get("type") or ""
    if kind == "Exempt":
        if spec.get("limited") is not None:
            yield forbidden(f"{path}.limited", "must be nil if the type is not Limited")
    elif kind == "Limited":
        if spec.get("exempt") is not None:
            yield forbidden(f"{path}.exempt", "must be nil if the type is Limited")
        yield from _TABLES["limited"](spec, path)
    else:
        yield not_supported(f"{path}.type", kind, ["Exempt", "Limited"])


# All of it

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
      matchConditions[name]    few_conditions each condition
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
      failurePolicy            {Fail, Ignore}
      paramKind
        apiVersion!            api_version
        kind!                  kind_name
      matchConstraints*        match
        resourceRules!
      & conditions
      variables[]              each variable_name variable
    ValidatingAdmissionPolicy
      spec+                    policy any_outcome
        validations[]          each condition
        auditAnnotations[]     each annotation
    MutatingAdmissionPolicy
      spec+                    policy
        reinvocationPolicy     {IfNeeded, Never}
        mutations[]!           each mutation : mutations must contain at least one item
    MutatingAdmissionPolicyBinding
      spec+
        policyName!            subdomain
        paramRef               name_or_selector
          parameterNotFoundAction* {Allow, Deny}
        matchResources         match
    ValidatingAdmissionPolicyBinding
      & MutatingAdmissionPolicyBinding
      spec+
        validationActions[=]   each {Audit, Deny, Warn}
        validationActions!     no_repetition : at least one validation action is required

    APIService
      & name_of_parts
      spec+                    api_group
        group?                 subdomain
        version+               service_name
        groupPriorityMinimum+  1..20000 : must be positive and less than 20000
        versionPriority+       1..1000 : must be positive and less than 1000
        service                service
        & trust

    CertificateSigningRequest
      spec+
        request+               signing_request
        usages[=]!             each usage
        signerName!            signer
        expirationSeconds      600.. : may not specify a duration less than 600 seconds (10 minutes)

    user
      name!
    group
      name!
    serviceAccount
      name!
      namespace!               dns_label : must specify namespace for service account
    FlowSchema
      & precedence
      spec+
        distinguisherMethod
          type                 {ByNamespace, ByUser}
        priorityLevelConfiguration+
          name!                subdomain : must reference a priority level
        rules[]
          subjects[]!          each subject : subjects must contain at least one value
          & any_rules
          resourceRules[]
            verbs!             verbs : verbs must contain at least one value
            apiGroups!         all_api_groups : resource rules must supply at least one api group
            resources!         all_resources : resource rules must supply at least one resource
            & namespaces
            namespaces         all_namespaces
          nonResourceRules[]
            verbs!             verbs : verbs must contain at least one value
            nonResourceURLs! : nonResourceURLs must contain at least one value
    queued
      queuing* : must not be empty if limited.limitResponse.type is Limited
        queueLengthLimit+      1.. : must be positive
        queues+                1.. : must be positive
        handSize+              1.. : must be positive
    limited
      limited* : must not be empty when type is Limited
        nominalConcurrencyShares 0.. : must be a non-negative integer
        limitResponse+         limit_response
    PriorityLevelConfiguration
      & exempt_name
      spec+                    level
    """,
    *(_url, _url_path, _service_port, _one_target, _qualified_name, _resources, _not_empty, _review_versions),
    *(_few_conditions, _api_version, _kind_name, _variable_name, _any_outcome, _mutation, _name_or_selector),
    *(_no_repetition, _name_of_parts, _api_group, _trust, _signing_request, _signer, _precedence, _verbs),
    *(_any_rules, _namespaces, _subject, _limit_response, _exempt_name, _level),
    condition=expression("expression", boolean=True),
    variable=expression("expression"),
    annotation=expression("valueExpression"),
    usage=_USAGE,
    all_operations=one_for_all("operations"),
    all_groups=one_for_all("API groups"),
    all_versions=one_for_all("API versions"),
    all_api_groups=one_for_all("api groups"),
    all_resources=one_for_all("resources"),
    all_namespaces=one_for_all("namespaces"),
)
ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = rules_of(_TABLES)
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.CERTIFICATE_SIGNING_REQUESTS: fixed("spec"),
}
