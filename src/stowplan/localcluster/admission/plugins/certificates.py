"""Plugins about certificates: CertificateSubjectRestriction."""

import base64
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from stowplan.api.catalogue import CERTIFICATE_SIGNING_REQUESTS
from stowplan.api.requests import Json
from stowplan.localcluster.admission.refusals import forbidden
from stowplan.localcluster.auth.users import MASTERS
from stowplan.localcluster.store.registry import Lookup

_SIGNER: Final = "kubernetes.io/kube-apiserver-client"


def restrict_subject(lookup: Lookup, request: Json) -> None:
    """Nobody can have a certificate that makes them an administrator past all roles."""
    spec = request.get("spec") or {}
    if spec.get("signerName") != _SIGNER:
        return
    asked = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
    groups = [one.value for one in asked.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if MASTERS in groups:
        why = f"use of {_SIGNER} signer with {MASTERS} group is not allowed"
        raise forbidden(CERTIFICATE_SIGNING_REQUESTS, request["metadata"]["name"], why)
