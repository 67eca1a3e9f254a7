"""Certificate requests: what is signed, what fails, and the kubeconfig of a user."""

import base64
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from localcluster.controllers.small_clusters import Story, World, live
from stowplan.api.catalogue import CERTIFICATE_SIGNING_REQUESTS
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.auth.certificates import CertificateAuthority, certificate_user
from stowplan.localcluster.controllers.manager import certificate_controllers
from stowplan.localcluster.durable import DataDirError
from stowplan.runtime.clock import RealClock
from stowplan.testing import live_cluster
from waiting import PATIENCE

AUTHORITY = CertificateAuthority(RealClock().now())
CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING = "kubernetes.io/kubelet-serving"
KEY = ec.generate_private_key(ec.SECP256R1())


def request_of(name: str, groups: Sequence[str] = (), hosts: Sequence[str] = ()) -> bytes:
    named = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    named.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(named))
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def body(name: str, request: bytes, signer: str, usages: Sequence[str], **spec: Any) -> Json:
    given = {"request": base64.b64encode(request).decode(), "signerName": signer, "usages": [*usages]}
    return {"metadata": {"name": name}, "spec": {**given, **spec}}


def approve(world: World, name: str, type_: str = "Approved") -> None:
    found = world.get(CERTIFICATE_SIGNING_REQUESTS, name)
    condition = {"type": type_, "status": "True", "reason": "Test", "message": "by a test"}
    status = {**found.get("status", {}), "conditions": [condition]}
    world.store.update(CERTIFICATE_SIGNING_REQUESTS, {**found, "status": status}, subresource="approval")


def play(story: Story) -> None:
    live(story, lambda context: certificate_controllers(context, AUTHORITY.sign))


def status(world: World, name: str) -> Json:
    found: Json = world.get(CERTIFICATE_SIGNING_REQUESTS, name).get("status") or {}
    return found


def test_an_approved_request_gets_a_certificate_of_the_cluster() -> None:
    async def story(world: World) -> None:
        made = body("jane", request_of("jane", ["dev"]), CLIENT, ["client auth"], expirationSeconds=3600)
        world.put(CERTIFICATE_SIGNING_REQUESTS, made)
        await world.settle(10)
        assert "certificate" not in status(world, "jane"), "it is not approved"
        approve(world, "jane")
        await world.until(lambda: status(world, "jane").get("certificate"))
        signed = x509.load_pem_x509_certificate(base64.b64decode(status(world, "jane")["certificate"]))
        signed.verify_directly_issued_by(x509.load_pem_x509_certificate(AUTHORITY.certificate))
        assert signed.subject.rfc4514_string() == "CN=jane,O=dev"
        extended = signed.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert list(extended) == [ExtendedKeyUsageOID.CLIENT_AUTH]
        assert (signed.not_valid_after_utc - signed.not_valid_before_utc).total_seconds() == 3600

    play(story)


def test_denied_requests_and_those_of_other_signers_are_left_alone() -> None:
    async def story(world: World) -> None:
        world.put(CERTIFICATE_SIGNING_REQUESTS, body("no", request_of("a"), CLIENT, ["client auth"]))
        world.put(
            CERTIFICATE_SIGNING_REQUESTS, body("other", request_of("a"), "example.com/x", ["client auth"])
        )
        approve(world, "no", "Denied")
        approve(world, "other")
        await world.settle(30)
        assert "certificate" not in status(world, "no")
        assert "certificate" not in status(world, "other")

    play(story)


NODE = ("system:node:n", ["system:nodes"])


@pytest.mark.parametrize(
    ("request_", "signer", "usages", "problem"),
    [
        (request_of("a"), CLIENT, ["server auth"], "invalid usage for client certificate: server auth"),
        (
            request_of("a"),
            CLIENT,
            ["digital signature"],
            "missing required usage for client certificate: client auth",
        ),
        (
            request_of("system:node:n"),
            KUBELET,
            ["client auth", "digital signature"],
            "subject organization is not system:nodes",
        ),
        (
            request_of("n", ["system:nodes"]),
            KUBELET,
            ["client auth", "digital signature"],
            "subject common name does not begin with system:node:",
        ),
        (
            request_of(*NODE, ["n.example"]),
            KUBELET,
            ["client auth", "digital signature"],
            "DNS subjectAltNames are not allowed",
        ),
        (
            request_of(*NODE),
            KUBELET,
            ["client auth"],
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (
            request_of(*NODE),
            SERVING,
            ["server auth", "digital signature"],
            "DNS or IP subjectAltName is required",
        ),
        (request_of(*NODE), KUBELET, ["client auth", "digital signature", "key encipherment"], ""),
        (request_of(*NODE, ["n"]), SERVING, ["server auth", "digital signature"], ""),
    ],
)
def test_signers_check_subject_and_usages(
    request_: bytes, signer: str, usages: list[str], problem: str
) -> None:
    async def story(world: World) -> None:
        world.put(CERTIFICATE_SIGNING_REQUESTS, body("r", request_, signer, usages))
        approve(world, "r")
        await world.settle(10)
        failed = [one for one in status(world, "r")["conditions"] if one["type"] == "Failed"]
        assert [one["message"] for one in failed] == ([problem] if problem else [])
        assert ("certificate" in status(world, "r")) is (not problem)
        version = world.store.version
        await world.settle(60)
        assert world.store.version == version

    play(story)


def test_an_approval_may_change_annotations_but_no_spec() -> None:
    async def story(world: World) -> None:
        made = world.put(CERTIFICATE_SIGNING_REQUESTS, body("r", request_of("a"), CLIENT, ["client auth"]))
        metadata = {**made["metadata"], "annotations": {"a": "1"}}
        changed = {**made, "metadata": metadata, "spec": {**made["spec"], "expirationSeconds": 900}}
        kept = world.store.update(CERTIFICATE_SIGNING_REQUESTS, changed, subresource="approval")
        assert kept["metadata"]["annotations"] == {"a": "1"}
        assert kept["spec"] == made["spec"]

    play(story)


def test_nobody_becomes_an_administrator_by_certificate() -> None:
    async def story(world: World) -> None:
        asked = body("root", request_of("eve", ["system:masters"]), CLIENT, ["client auth"])
        with pytest.raises(ApiError, match="signer with system:masters group is not allowed"):
            world.put(CERTIFICATE_SIGNING_REQUESTS, asked)

    play(story)


def test_the_authority_is_kept_with_the_data(tmp_path: Path) -> None:
    first = CertificateAuthority.kept_in(tmp_path, 1e9)
    assert CertificateAuthority.kept_in(tmp_path, 2e9).certificate == first.certificate
    assert (tmp_path / "ca.key").stat().st_mode & 0o077 == 0
    (tmp_path / "ca.key").write_text("x")
    with pytest.raises(DataDirError, match=r"expected a certificate and, in ca\.key, its key"):
        CertificateAuthority.kept_in(tmp_path, 1e9)


def test_the_subject_of_a_certificate_is_its_user() -> None:
    peer = {
        "subject": ((("organizationName", "dev"),), (("organizationName", "ops"),), (("commonName", "jane"),))
    }
    user = certificate_user(peer, b"der")
    assert user is not None
    assert (user.name, user.groups) == ("jane", ("dev", "ops", "system:authenticated"))
    assert certificate_user({"subject": ()}, None) is None


def test_the_walk_of_the_documentation_ends_with_a_working_kubeconfig(tmp_path: Path) -> None:
    """Key and request by openssl, then only kubectl: create, approve, get, config, role, use."""
    with live_cluster(nodes=1) as cluster:

        def run(*words: str, text: str = "", fails: bool = False) -> str:
            done = subprocess.run(
                words,
                input=text,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                env={**os.environ, **cluster.env, "HOME": str(tmp_path)},
                cwd=tmp_path,
                check=False,
            )
            assert (done.returncode != 0) is fails, done.stdout + done.stderr
            return done.stdout + done.stderr

        run("openssl", "genrsa", "-out", "myuser.key", "2048")
        subject = "/CN=myuser/O=dev"
        run("openssl", "req", "-new", "-key", "myuser.key", "-out", "myuser.csr", "-subj", subject)
        asked = body("myuser", (tmp_path / "myuser.csr").read_bytes(), CLIENT, ["client auth"])
        kind = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
        created = run("kubectl", "apply", "-f", "-", text=json.dumps({**kind, **asked}))
        assert "stored only" not in created
        run("kubectl", "certificate", "approve", "myuser")
        until = "--for=jsonpath={.status.certificate}"
        run("kubectl", "wait", "csr/myuser", until, "--timeout=30s")
        assert "Approved,Issued" in run("kubectl", "get", "csr", "myuser")
        certificate = run("kubectl", "get", "csr", "myuser", "-o", "jsonpath={.status.certificate}")
        (tmp_path / "myuser.crt").write_bytes(base64.b64decode(certificate))
        files = ("--client-key=myuser.key", "--client-certificate=myuser.crt", "--embed-certs=true")
        run("kubectl", "config", "set-credentials", "myuser", *files)
        run("kubectl", "config", "set-context", "myuser", "--cluster=stowplan", "--user=myuser")
        as_user = ("kubectl", "--context=myuser")
        assert 'User "myuser" cannot list resource "pods"' in run(*as_user, "get", "pods", fails=True)
        run("kubectl", "create", "role", "developer", "--verb=create,get,list", "--resource=pods")
        run("kubectl", "create", "rolebinding", "developer", "--role=developer", "--group=dev")
        assert "No resources found" in run(*as_user, "get", "pods")
        who = run(*as_user, "auth", "whoami")
        assert "myuser" in who
        assert "X509SHA256=" in who
