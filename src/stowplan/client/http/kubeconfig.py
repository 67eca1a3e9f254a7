"""Finding a server: by kubeconfig files, or as a pod from what every pod finds in itself."""

import base64
import binascii
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

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
from stowplan.gocompat.jsontext import TextError
from stowplan.gocompat.yamltext import YamlError, load_yaml


class KubeconfigFields:
    """A map in a file. Fields that are absent or null are empty."""

    def __init__(self, data: dict[Any, Any], where: str, place: str = "", *, folder: Path) -> None:
        self._data = data
        self._place = place
        self.where = where
        self.folder = folder

    def path(self, field: str) -> str:
        """A field's place in the file."""
        return f"{self._place}.{field}" if self._place else field

    def problem(self, field: str, text: str) -> AccessError:
        return AccessError(f"{self.where}: {self.path(field)}: {text}")

    def has(self, field: str) -> bool:
        return self._data.get(field) is not None

    def __iter__(self) -> Iterator[str]:
        return map(str, self._data)

    def raw(self, field: str) -> Any:
        return self._data.get(field)

    def text(self, field: str) -> str:
        value = self._data.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.problem(field, f"expected text, got {_kind(value)}")
        return value

    def texts(self, field: str) -> list[str]:
        value = self._data.get(field)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise self.problem(field, "expected a list of texts")
        return value

    def flag(self, field: str) -> bool:
        value = self._data.get(field)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.problem(field, f"expected true or false, got {_kind(value)}")
        return value

    def part(self, field: str) -> "KubeconfigFields":
        value = self._data.get(field)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            raise self.problem(field, f"expected a map, got {_kind(value)}")
        return KubeconfigFields(value, self.where, self.path(field), folder=self.folder)

    def items(self, field: str) -> Iterator["KubeconfigFields"]:
        value = self._data.get(field)
        if value is None:
            return
        if not isinstance(value, list):
            raise self.problem(field, f"expected a list, got {_kind(value)}")
        for number, item in enumerate(value):
            place = f"{self.path(field)}[{number}]"
            if not isinstance(item, dict):
                raise AccessError(f"{self.where}: {place}: expected a map, got {_kind(item)}")
            yield KubeconfigFields(item, self.where, place, folder=self.folder)

    def file(self, field: str) -> str:
        """A path, which begins at the kubeconfig's folder if it is relative."""
        given = self.text(field)
        return str(self.folder / given) if given else ""

    def secret(self, field: str) -> Secret:
        """`<field>-data`, which is base64 and counts for more, or the file `<field>`."""
        encoded = self.text(f"{field}-data")
        if encoded:
            try:
                return Secret(base64.b64decode("".join(encoded.split()), validate=True))
            except (binascii.Error, ValueError):
                raise self.problem(f"{field}-data", "expected base64") from None
        path = self.file(field)
        if path and not Path(path).is_file():
            raise self.problem(field, f"expected a file, got {path}")
        return Secret(file=path)

    def encoded(self, path: str) -> str:
        """A file's content as base64."""
        try:
            return base64.b64encode(Path(path).read_bytes()).decode()
        except OSError as error:
            raise AccessError(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _kind(value: Any) -> str:
    """Kind of a value; not the value itself, which may be a secret."""
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else f"a value of type {type(value).__name__}"


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


def _read(path: Path) -> KubeconfigFields:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise AccessError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise AccessError(f"{path}: expected text in UTF-8") from None
    try:
        data = load_yaml(text)
    except TextError as error:
        line = f" (line {error.line})" if isinstance(error, YamlError) and error.line else ""
        problem = error.problem if isinstance(error, YamlError) else str(error)
        raise AccessError(f"{path}: expected YAML{line}: {problem}") from None
    if not isinstance(data, dict):
        raise AccessError(f"{path}: expected a map with clusters, users and contexts")
    fields = KubeconfigFields(data, str(path), folder=path.absolute().parent)
    for field, expected in (("kind", "Config"), ("apiVersion", "v1")):
        if (given := fields.text(field)) and given != expected:
            raise fields.problem(field, f"expected {expected}, got {given!r}")
    return fields


def _named(
    files: Sequence[KubeconfigFields], section: str, field: str, name: str, asked_by: str
) -> KubeconfigFields:
    """The entry of a section with a name."""
    names: list[str] = []
    for file in files:
        for entry in file.items(section):
            names.append(entry.text("name"))
            if names[-1] == name and name:
                return entry.part(field)
    known = ", ".join(dict.fromkeys(names)) or "there are none"
    raise AccessError(f"{files[0].where}: {asked_by}: expected one of {section} ({known}), got {name!r}")


def _address(cluster: KubeconfigFields, master: str) -> Address:
    text = master or cluster.text("server")
    if not text:
        raise cluster.problem("server", "expected the address of the server, got nothing")
    try:
        return Address.parse(text)
    except ValueError as error:
        if master:
            raise AccessError(f"master: {error}") from None
        raise cluster.problem("server", str(error)) from None


def _proxy(cluster: KubeconfigFields) -> str:
    text = cluster.text("proxy-url")
    if text:
        try:
            Address.parse(text)
        except ValueError:
            raise cluster.problem("proxy-url", "expected an http or https address") from None
    return text


def _trust(cluster: KubeconfigFields, user: KubeconfigFields | None) -> Trust:
    authority = cluster.secret("certificate-authority")
    insecure = cluster.flag("insecure-skip-tls-verify")
    if insecure and authority:
        raise cluster.problem("insecure-skip-tls-verify", "expected no certificate-authority with it")
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


def _identity(user: KubeconfigFields, cluster: KubeconfigFields) -> Identity:
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


def _impersonation(user: KubeconfigFields) -> tuple[tuple[str, str], ...]:
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
        raise user.problem("as", "expected a user to act as, together with groups, uid and extra fields")
    for _, value in headers:
        if "\r" in value or "\n" in value:
            raise user.problem("as", "expected names of one line")
    return tuple(headers)


def _plugin(fields: KubeconfigFields, cluster: KubeconfigFields) -> ExecPlugin:
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


def _about(cluster: KubeconfigFields) -> dict[str, Any]:
    """Cluster information for a credential plugin."""
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


def _oidc(provider: KubeconfigFields) -> OpenIdConnect:
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


SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT) -> Server:
    """Where the server is and how to get in. Raises AccessError where this is no pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise AccessError(
            "in-cluster configuration: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT: "
            "expected both to be set, as in a pod"
        )
    token = folder / "token"
    if not token.is_file():
        raise AccessError(f"in-cluster configuration: {token}: expected the token of a service account")
    try:
        address = Address.parse(f"https://{f'[{host}]' if ':' in host else host}:{port}")
    except ValueError as error:
        raise AccessError(f"in-cluster configuration: {error}") from None
    authority = folder / "ca.crt"
    trust = Trust(
        Secret(file=str(authority)) if authority.is_file() else Secret(), where="in-cluster configuration"
    )
    return Server(address, trust, Identity(token_file=str(token)), namespace=_namespace(folder))


def _namespace(folder: Path) -> str:
    try:
        return (folder / "namespace").read_text("utf-8").strip() or "default"
    except OSError:
        return "default"
