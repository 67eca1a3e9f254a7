"""Where a server is, whom to trust there, and how to prove who we are: as settings only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import SplitResult, urlsplit

_PORTS: Final = {"http": 80, "https": 443}


class AccessError(ValueError):
    """Settings for reaching a server that cannot be used; one line that names the file and the field."""


@dataclass(frozen=True, slots=True)
class Address:
    """An http or https address, taken apart."""

    scheme: str
    host: str
    port: int
    path: str = ""
    userinfo: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Raises ValueError with what was expected."""
        try:
            parts: SplitResult = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise ValueError(
                f"expected an address such as https://host:6443, got {text!r}: {error}"
            ) from None
        if parts.scheme not in _PORTS or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"expected an address such as https://host:6443, got {text!r}")
        userinfo = parts.netloc.rpartition("@")[0]
        return cls(
            parts.scheme, parts.hostname, port or _PORTS[parts.scheme], parts.path.rstrip("/"), userinfo
        )

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """Host and port as they stand in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def host_and_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


@dataclass(frozen=True, slots=True)
class Secret:
    """Something that is given as it is or kept in a file, which may be written anew at any time."""

    data: bytes = field(default=b"", repr=False)
    file: str = ""

    def __bool__(self) -> bool:
        return bool(self.data or self.file)


@dataclass(frozen=True, slots=True)
class Trust:
    """TLS settings of our side: trusted authorities (by default the system's) and our certificate.

    `where` is where these settings were found, for messages.
    """

    authority: Secret = Secret()
    certificate: Secret = Secret()
    key: Secret = Secret()
    insecure: bool = False
    server_name: str = ""
    where: str = ""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints credentials."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    folder: str = ""
    cluster: Mapping[str, object] | None = None
    """Cluster information for the plugin, None for none."""


@dataclass(frozen=True, slots=True)
class OpenIdConnect:
    """An id token, and what is needed to get another one when it has expired."""

    id_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    issuer: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    authority: Secret = Secret()


@dataclass(frozen=True, slots=True)
class Identity:
    """Credentials; at most one of these, with or without a certificate. `headers` are sent in any case."""

    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    plugin: ExecPlugin | None = None
    oidc: OpenIdConnect | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Server:
    """Everything there is to know for reaching one API server.

    `proxy` overrules the environment. `namespace` is the one that is meant where none is named.
    """

    address: Address
    trust: Trust = Trust()
    identity: Identity = Identity()
    proxy: str = ""
    namespace: str = "default"
