"""Kubeconfig files: what they say, and what is said of those that cannot be used."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.client.http import AccessError, default_kubeconfigs, in_cluster, load_kubeconfig
from stowplan.client.http.settings import Secret

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
DATA = base64.b64encode(PEM).decode()
PLUGIN = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login", "interactiveMode": "Never"}


def written(
    folder: Path, cluster: Any = None, user: Any = None, name: str = "kubeconfig", **more: Any
) -> Path:
    data = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://example.com:6443", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "ns"}}],
        "current-context": "x",
        **more,
    }
    path = folder / name
    path.write_text(yaml.safe_dump(data))
    return path


def test_a_plain_file_says_where_and_how(tmp_path: Path) -> None:
    found = load_kubeconfig(written(tmp_path, {"certificate-authority-data": DATA}, {"token": "t"}))
    assert str(found.address) == "https://example.com:6443"
    assert found.trust.authority == Secret(PEM)
    assert (found.identity.token, found.namespace) == ("t", "ns")


def test_files_are_looked_for_beside_the_kubeconfig(tmp_path: Path) -> None:
    for name in ("ca.pem", "client.pem", "client.key"):
        (tmp_path / name).write_bytes(PEM)
    cluster = {"certificate-authority": "ca.pem"}
    user = {
        "client-certificate": "client.pem",
        "client-key": str(tmp_path / "client.key"),
        "tokenFile": "tok",
    }
    found = load_kubeconfig(written(tmp_path, cluster, user))
    assert found.trust.authority.file == str(tmp_path / "ca.pem")
    assert found.trust.certificate.file == str(tmp_path / "client.pem")
    assert found.trust.key.file == str(tmp_path / "client.key")
    assert found.identity.token_file == str(tmp_path / "tok")


def test_everything_else_a_file_can_say(tmp_path: Path) -> None:
    cluster = {
        "server": "https://[::1]:6443/k8s/clusters/c-1/",
        "proxy-url": "http://user:pw@proxy:3128",
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
    }
    user = {
        "username": "ann",
        "password": "secret",
        "as": "bob",
        "as-groups": ["ops"],
        "as-user-extra": {"why": ["because"]},
    }
    found = load_kubeconfig(written(tmp_path, cluster, user))
    assert (found.address.host, found.address.port, found.address.path) == ("::1", 6443, "/k8s/clusters/c-1")
    assert found.proxy == "http://user:pw@proxy:3128"
    assert (found.trust.server_name, found.trust.insecure) == ("kubernetes", True)
    assert found.identity.headers == (
        ("Impersonate-User", "bob"),
        ("Impersonate-Group", "ops"),
        ("Impersonate-Extra-why", "because"),
    )
    assert "secret" not in repr(found)


def test_the_first_of_several_files_counts_for_each_name(tmp_path: Path) -> None:
    first = written(tmp_path, name="first", users=[], contexts=[], **{"current-context": ""})
    second = written(tmp_path, {"server": "https://second"}, {"token": "two"}, name="second")
    found = load_kubeconfig(first, second)
    assert (str(found.address), found.identity.token) == ("https://example.com:6443", "two")


def test_an_address_can_be_overruled(tmp_path: Path) -> None:
    assert str(load_kubeconfig(written(tmp_path), master="http://127.0.0.1:8080").address) == (
        "http://127.0.0.1:8080"
    )
    with pytest.raises(AccessError, match=r"^master: expected an address"):
        load_kubeconfig(written(tmp_path), master="nonsense")


@pytest.mark.parametrize(
    ("cluster", "user", "more", "problem"),
    [
        ({}, {}, {"current-context": ""}, "current-context: expected the name of a context, got nothing"),
        ({}, {}, {"current-context": "other"}, "current-context: expected one of contexts (x), got 'other'"),
        ({}, {}, {"clusters": []}, "cluster: expected one of clusters (there are none), got 'c'"),
        ({}, {}, {"users": [{"name": "v"}]}, "user: expected one of users (v), got 'u'"),
        ({}, {}, {"clusters": 7}, "clusters: expected a list, got a value of type int"),
        ({}, {}, {"users": ["u"]}, "users[0]: expected a map, got a value of type str"),
        ({}, {}, {"kind": "Pod"}, "kind: expected Config, got 'Pod'"),
        ({"server": ""}, {}, {}, "clusters[0].cluster.server: expected the address of the server"),
        ({"server": "example.com"}, {}, {}, "cluster.server: expected an address such as https://host:6443"),
        ({"server": "https://h:99999"}, {}, {}, "cluster.server: expected an address"),
        ({"server": 7}, {}, {}, "cluster.server: expected text, got a value of type int"),
        ({"certificate-authority-data": "%%"}, {}, {}, "certificate-authority-data: expected base64"),
        ({"certificate-authority": "no.pem"}, {}, {}, "certificate-authority: expected a file, got"),
        (
            {"insecure-skip-tls-verify": True, "certificate-authority-data": DATA},
            {},
            {},
            "insecure-skip-tls-verify: expected no certificate-authority with it",
        ),
        ({"insecure-skip-tls-verify": "yes"}, {}, {}, "insecure-skip-tls-verify: expected true or false"),
        ({"proxy-url": "ftp://x"}, {}, {}, "proxy-url: expected an http or https address"),
        ({}, {"client-certificate-data": DATA}, {}, "user.client-key: expected a certificate and its key"),
        ({}, {"token": "a b"}, {}, "user.token: expected printable characters without blanks"),
        ({}, {"token": "t", "username": "n"}, {}, "expected one way to log in, got token and username"),
        ({}, {"exec": PLUGIN, "token": "t"}, {}, "expected one way to log in, got exec and token"),
        ({}, {"exec": {**PLUGIN, "command": ""}}, {}, "user.exec.command: expected a command, got nothing"),
        ({}, {"exec": {**PLUGIN, "apiVersion": "v1"}}, {}, "user.exec.apiVersion: expected one of"),
        ({}, {"exec": {**PLUGIN, "interactiveMode": ""}}, {}, "user.exec.interactiveMode: expected one of"),
        (
            {},
            {"exec": {**PLUGIN, "interactiveMode": "Always"}},
            {},
            "expected a command that needs no terminal",
        ),
        ({}, {"exec": {**PLUGIN, "args": "x"}}, {}, "user.exec.args: expected a list of texts"),
        ({}, {"auth-provider": {"name": "gcp"}}, {}, "auth-provider.name: expected oidc"),
        ({}, {"auth-provider": {"name": "oidc"}}, {}, "auth-provider.config.id-token: expected an id token"),
        ({}, {"as-groups": ["g"]}, {}, "user.as: expected a user to act as"),
    ],
)
def test_a_mistake_is_told_in_one_line_with_file_and_field(
    tmp_path: Path, cluster: Any, user: Any, more: Any, problem: str
) -> None:
    path = written(tmp_path, cluster, user, **more)
    with pytest.raises(AccessError) as failure:
        load_kubeconfig(path)
    message = str(failure.value)
    assert message.startswith(f"{path}: ")
    assert problem in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"a: [", "expected YAML (line 2)"),
        (b"- a", "expected a map with clusters, users and contexts"),
        (b"\xff\xfe", "expected text in UTF-8"),
        (None, "no such file or directory"),
    ],
)
def test_a_file_that_is_no_kubeconfig_is_told_in_one_line(
    tmp_path: Path, text: bytes | None, problem: str
) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(AccessError) as failure:
        load_kubeconfig(path)
    assert str(failure.value).startswith(f"{path}: {problem}")
    assert "\n" not in str(failure.value)


def test_kubeconfig_names_files_and_else_there_is_the_usual_one(tmp_path: Path) -> None:
    there = written(tmp_path)
    assert default_kubeconfigs({"KUBECONFIG": f"/nowhere:{there}"}, tmp_path) == [there]
    assert default_kubeconfigs({}, tmp_path) == [tmp_path / ".kube" / "config"]


def test_a_pod_finds_its_server(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(AccessError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster({}, tmp_path)
    with pytest.raises(AccessError, match="expected the token of a service account"):
        in_cluster(environ, tmp_path)
    for name, text in (("token", "t"), ("ca.crt", "x"), ("namespace", "kube-system")):
        (tmp_path / name).write_text(text)
    found = in_cluster(environ, tmp_path)
    assert (str(found.address), found.namespace) == ("https://[fd00::1]", "kube-system")
    assert found.identity.token_file == str(tmp_path / "token")
    assert found.trust.authority.file == str(tmp_path / "ca.crt")
