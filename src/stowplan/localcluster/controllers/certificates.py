"""The certificate signing controller: approved CertificateSigningRequests get their certificate."""

import base64
from collections.abc import Callable, Collection
from typing import ClassVar, Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from stowplan.api.catalogue import CERTIFICATE_SIGNING_REQUESTS
from stowplan.api.requests import Json
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.objects.certificaterequests import CertificateRequestError, read_request
from stowplan.localcluster.objects.fields import condition_of, key_of, spec_of, status_of

SignCertificate = Callable[[bytes, Collection[str], float, float], bytes]
"""Signs a request: its PEM, usages, seconds of validity, and the time. Raises
CertificateRequestError."""

CLIENT: Final = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT: Final = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING: Final = "kubernetes.io/kubelet-serving"
_LONGEST: Final = 365 * 86400.0
"""Seconds that certificates are valid if nothing else is asked for, and at most."""

_SHORTEST: Final = 600.0
_CLIENT_USAGES: Final = ("digital signature", "key encipherment", "client auth")
_NODES: Final = ["system:nodes"]
_NODE: Final = "system:node:"


class CertificateSigningController(Controller):
    """Signs requests of the signers that kube-controller-manager signs for."""

    name: ClassVar[str] = "certificatesigningrequest-signing-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext, sign: SignCertificate) -> None:
        super().__init__(context)
        self._sign = sign
        self._requests = self.informer(CERTIFICATE_SIGNING_REQUESTS)
        self._requests.add_handler(self._request_changed)

    def _request_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and _is_to_be_signed(new):
            self.queue.add(key_of(new))

    async def sync(self, key: str) -> None:
        request = self._requests.get(key)
        if request is None or not _is_to_be_signed(request):
            return
        spec = spec_of(request)
        text, usages = base64.b64decode(spec.get("request") or ""), spec.get("usages") or ()
        try:
            problem = problem_of(read_request(text), usages, spec["signerName"])
            if not problem:
                seconds = min(max(float(spec.get("expirationSeconds") or _LONGEST), _SHORTEST), _LONGEST)
                signed = self._sign(text, usages, seconds, self.now())
        except CertificateRequestError as error:
            problem = f"unable to parse csr {key!r}: {error}"
        if problem:
            await self._fail(request, problem)
            return
        certificate = base64.b64encode(signed).decode()
        await self.set_status(CERTIFICATE_SIGNING_REQUESTS, request, {"certificate": certificate})

    async def _fail(self, request: Json, problem: str) -> None:
        failed = {
            "type": "Failed",
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": problem,
            "lastUpdateTime": self.stamp(),
            "lastTransitionTime": self.stamp(),
        }
        conditions = [*(status_of(request).get("conditions") or ()), failed]
        await self.set_status(CERTIFICATE_SIGNING_REQUESTS, request, {"conditions": conditions})


def _is_to_be_signed(request: Json) -> bool:
    if spec_of(request).get("signerName") not in (CLIENT, KUBELET_CLIENT, KUBELET_SERVING):
        return False
    if status_of(request).get("certificate") or condition_of(request, "Failed") is not None:
        return False
    return condition_of(request, "Approved") is not None and condition_of(request, "Denied") is None


def problem_of(asked: x509.CertificateSigningRequest, usages: Collection[str], signer: str) -> str:
    """The reason that a signer refuses a request, empty if it signs it."""
    if signer == CLIENT:
        return _client_problem(usages)
    if [
        _text(one.value) for one in asked.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    ] != _NODES:
        return "subject organization is not system:nodes"
    names = _names_in(asked)
    serving = signer == KUBELET_SERVING
    if serving and not names[x509.DNSName] and not names[x509.IPAddress]:
        return "DNS or IP subjectAltName is required"
    if not serving and names[x509.DNSName]:
        return "DNS subjectAltNames are not allowed"
    if names[x509.RFC822Name]:
        return "Email subjectAltNames are not allowed"
    if not serving and names[x509.IPAddress]:
        return "IP subjectAltNames are not allowed"
    if names[x509.UniformResourceIdentifier]:
        return "URI subjectAltNames are not allowed"
    common = [_text(one.value) for one in asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    required = {"digital signature", "key encipherment", "server auth" if serving else "client auth"}
    wrong_usages = set(usages) not in (required, required - {"key encipherment"})
    if wrong_usages:
        return f"usages did not match [{' '.join(sorted(required))}]"
    return (
        ""
        if common and common[0].startswith(_NODE)
        else "subject common name does not begin with system:node:"
    )


def _client_problem(usages: Collection[str]) -> str:
    for usage in usages:
        if usage not in _CLIENT_USAGES:
            return f"invalid usage for client certificate: {usage}"
    return "" if "client auth" in usages else "missing required usage for client certificate: client auth"


def _names_in(asked: x509.CertificateSigningRequest) -> dict[type[x509.GeneralName], int]:
    """Number of alternative names by their type."""
    kinds = (x509.DNSName, x509.IPAddress, x509.RFC822Name, x509.UniformResourceIdentifier)
    try:
        found = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return dict.fromkeys(kinds, 0)
    return {kind: sum(isinstance(one, kind) for one in found) for kind in kinds}


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
