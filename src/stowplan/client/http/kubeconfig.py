"""Reading kubeconfig files: which server, whom to trust, and how to prove who we are."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from stowplan.client.http.fields import Fields
from stowplan.client.http.settings import (
    AccessError,
    Address,
    ExecPlugin,
    Identity,
    OpenIdConnect,
    Secret,
    Server,
    Trust,
)

_PLUGIN_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_MODES: Final = ("Never", "IfAvailable", "Always")


def load_kubeconfig(*paths: Path | str, context: str = "", master: str = "") -> Server:
    """The server of a context (the current one if none is named), or at another address of it.

    With several files the first one that names something counts. Raises AccessError, one line.
    """
    files = [_read(Path(path)) for path in paths]
    if not files:
        raise AccessError("kubeconfig: expected at least one file")
    current = context or next((name for file in files if (name := file.text("current-context"))), "")
    if not current:
        raise AccessError(f"{files[0].where}: current-context: expected the name of a context, got nothing")
    chosen = _named(files, "contexts", "context", current, "current-context" if not context else "context")
    cluster = _named(files, "clusters", "cluster", chosen.text("cluster"), chosen.path("cluster"))
    user_name = chosen.text("user")
    user = _named(files, "users", "user", user_name, chosen.path("user")) if user_name else None
    return Server(
        _address(cluster, master),
        _trust(cluster, user),
        Identity() if user is None else _identity(user, cluster),
        proxy=_proxy(cluster),
        namespace=chosen.text("namespace") or "default",
    )


def default_kubeconfigs(environ: Mapping[str, str], home: Path) -> list[Path]:
    """The files KUBECONFIG names (those that exist), else the usual one in the home folder."""
    named = [Path(part) for part in environ.get("KUBECONFIG", "").split(":") if part]
    return [path for path in named if path.exists()] or named[:1] or [home / ".kube" / "config"]


def _read(path: Path) -> Fields:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise AccessError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise AccessError(f"{path}: expected text in UTF-8") from None
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark is not None else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise AccessError(f"{path}: expected YAML{line}: {problem}") from None
    if not isinstance(data, dict):
        raise AccessError(f"{path}: expected a map with clusters, users and contexts")
    fields = Fields(data, str(path), folder=path.absolute().parent)
    for field, expected in (("kind", "Config"), ("apiVersion", "v1")):
        if (given := fields.text(field)) and given != expected:
            raise fields.problem(field, f"expected {expected}, got {given!r}")
    return fields


def _named(files: Sequence[Fields], section: str, field: str, name: str, asked_by: str) -> Fields:
    """The entry of a section with a name."""
    names: list[str] = []
    for file in files:
        for entry in file.items(section):
            names.append(entry.text("name"))
            if names[-1] == name and name:
                return entry.part(field)
    known = ", ".join(dict.fromkeys(names)) or "there are none"
    raise AccessError(f"{files[0].where}: {asked_by}: expected one of {section} ({known}), got {name!r}")


def _address(cluster: Fields, master: str) -> Address:
    text = master or cluster.text("server")
    if not text:
        raise cluster.problem("server", "expected the address of the server, got nothing")
    try:
        return Address.parse(text)
    except ValueError as error:
        if master:
            raise AccessError(f"master: {error}") from None
        raise cluster.problem("server", str(error)) from None


def _proxy(cluster: Fields) -> str:
    text = cluster.text("proxy-url")
    if text:
        try:
            Address.parse(text)
        except ValueError:
            raise cluster.problem("proxy-url", "expected an http or https address") from None
    return text


def _trust(cluster: Fields, user: Fields | None) -> Trust:
    authority = cluster.secret("certificate-authority")
    insecure = cluster.flag("insecure-skip-tls-verify")
    if insecure and authority:
        raise cluster.problem("insecure-skip-tls-verify", "expected no certificate-authority beside it")
    certificate = Secret() if user is None else user.secret("client-certificate")
    key = Secret() if user is None else user.secret("client-key")
    if user is not None and bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise user.problem(missing, "expected a certificate and its key, got one without the other")
    return Trust(
        authority,
        certificate,
        key,
        insecure=insecure,
        server_name=cluster.text("tls-server-name"),
        where=cluster.where,
    )


def _identity(user: Fields, cluster: Fields) -> Identity:
    plugin = _plugin(user.part("exec"), cluster) if user.has("exec") else None
    oidc = _oidc(user.part("auth-provider")) if user.has("auth-provider") else None
    token, token_file = user.text("token"), user.file("tokenFile")
    username = user.text("username")
    found = {
        "exec": plugin is not None,
        "auth-provider": oidc is not None,
        "token": bool(token or token_file),
        "username": bool(username),
    }
    ways = [name for name, given in found.items() if given]
    if len(ways) > 1:
        raise user.problem(ways[1], f"expected one way to log in, got {' and '.join(ways)}")
    if token and (not token.isascii() or not token.isprintable() or " " in token):
        raise user.problem("token", "expected printable characters without blanks")
    return Identity(
        token, token_file, username, user.text("password"), plugin, oidc, headers=_impersonation(user)
    )


def _impersonation(user: Fields) -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = []
    if name := user.text("as"):
        headers.append(("Impersonate-User", name))
    if uid := user.text("as-uid"):
        headers.append(("Impersonate-Uid", uid))
    headers += [("Impersonate-Group", group) for group in user.texts("as-groups")]
    extra = user.part("as-user-extra")
    for key in extra:
        headers += [(f"Impersonate-Extra-{key}", value) for value in extra.texts(key)]
    if headers and not name:
        raise user.problem("as", "expected a user to act as beside groups, uid and extra fields")
    for _, value in headers:
        if "\r" in value or "\n" in value:
            raise user.problem("as", "expected names of one line")
    return tuple(headers)


def _plugin(fields: Fields, cluster: Fields) -> ExecPlugin:
    command, version = fields.text("command"), fields.text("apiVersion")
    if not command:
        raise fields.problem("command", "expected a command, got nothing")
    if version not in _PLUGIN_VERSIONS:
        raise fields.problem("apiVersion", f"expected one of {', '.join(_PLUGIN_VERSIONS)}, got {version!r}")
    mode = fields.text("interactiveMode")
    if mode not in _MODES and (mode or version == _PLUGIN_VERSIONS[0]):
        raise fields.problem("interactiveMode", f"expected one of {', '.join(_MODES)}, got {mode!r}")
    if mode == "Always":
        raise fields.problem("interactiveMode", "expected a command that needs no terminal, got Always")
    env = {one.text("name"): one.text("value") for one in fields.items("env")}
    about = _about(cluster) if fields.flag("provideClusterInfo") else None
    return ExecPlugin(
        command,
        tuple(fields.texts("args")),
        env,
        version,
        fields.text("installHint"),
        str(fields.folder),
        about,
    )


def _about(cluster: Fields) -> dict[str, Any]:
    """What a plugin is told of the server."""
    names = ("server", "tls-server-name", "proxy-url", "certificate-authority-data")
    told: dict[str, Any] = {name: text for name in names if (text := cluster.text(name))}
    if cluster.flag("insecure-skip-tls-verify"):
        told["insecure-skip-tls-verify"] = True
    authority = cluster.secret("certificate-authority")
    if authority.file:
        told["certificate-authority-data"] = cluster.encoded(authority.file)
    for extension in cluster.items("extensions"):
        if extension.text("name") == "client.authentication.k8s.io/exec":
            told["config"] = extension.raw("extension")
    return told


def _oidc(provider: Fields) -> OpenIdConnect:
    name = provider.text("name")
    if name != "oidc":
        raise provider.problem("name", f"expected oidc (others are exec plugins now), got {name!r}")
    config = provider.part("config")
    found = OpenIdConnect(
        config.text("id-token"),
        config.text("refresh-token"),
        config.text("idp-issuer-url"),
        config.text("client-id"),
        config.text("client-secret"),
        config.secret("idp-certificate-authority"),
    )
    if not found.id_token and not (found.refresh_token and found.issuer):
        raise config.problem("id-token", "expected an id token, or a refresh-token and idp-issuer-url")
    return found
