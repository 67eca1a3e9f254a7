"""Validation of kinds that extend or guard the API server, as tables.

apiregistration.k8s.io, certificates.k8s.io and flowcontrol.apiserver.k8s.io.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from cryptography import x509

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.fielderrors import FieldError, forbidden, invalid, not_supported, required
from stowplan.api.names import subdomain_problems
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.admission.validation.admissionregistration import SERVICE
from stowplan.localcluster.admission.validation.table import (
    enum,
    fixed,
    named,
    one_for_all,
    rules_of,
    tables,
)

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
    *(_name_of_parts, _api_group, _trust, _signing_request, _signer, _precedence, _verbs),
    *(_any_rules, _namespaces, _subject, _limit_response, _exempt_name, _level),
    usage=_USAGE,
    service=SERVICE,
    all_api_groups=one_for_all("api groups"),
    all_resources=one_for_all("resources"),
    all_namespaces=one_for_all("namespaces"),
)
ALWAYS: Final[Mapping[Resource, Callable[[Json], list[FieldError]]]] = rules_of(_TABLES)
ON_UPDATE: Final[Mapping[Resource, Callable[[Json, Json], list[FieldError]]]] = {
    catalogue.CERTIFICATE_SIGNING_REQUESTS: fixed("spec"),
}
