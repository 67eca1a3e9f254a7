"""Settings of the secure port and its limits. The defaults are those of kube-scheduler's flags."""

from dataclasses import dataclass, field
from typing import Final

SECURE_PORT: Final = 10259
ALWAYS_ALLOWED: Final = ("/healthz", "/readyz", "/livez")
TTL: Final = 10.0


class ServingError(ValueError):
    """The secure port cannot open: one line that names the setting, file or address at fault."""


@dataclass(frozen=True, slots=True)
class SniCertificate:
    """A certificate for some server names (`--tls-sni-cert-key`); without names, for its subject's names."""

    certificate_file: str
    key_file: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """The address to listen on, and the certificate.

    Port 0 disables the port, as the flag says; `any_free_port` listens on a port the system picks.
    Cipher suites and the lowest version have Go's names (`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`,
    `VersionTLS12`), curves the flag's numbers; empty means the default. HTTP/2 is not supported: its two
    settings are only shown on /flagz.
    """

    bind_address: str = "0.0.0.0"
    port: int = SECURE_PORT
    any_free_port: bool = False
    certificate_folder: str = ""
    certificate_file: str = ""
    key_file: str = ""
    cipher_suites: tuple[str, ...] = ()
    min_version: str = ""
    curve_preferences: tuple[int, ...] = ()
    sni_certificates: tuple[SniCertificate, ...] = ()
    http2_max_streams: int = 0
    disable_http2: bool = False
    permit_port_sharing: bool = False
    permit_address_sharing: bool = False

    @property
    def enabled(self) -> bool:
        return self.any_free_port or self.port != 0


@dataclass(frozen=True, slots=True)
class RequestHeaderSettings:
    """The headers in which a front proxy names the user (`--requestheader-*`).

    Empty `allowed_names` allow every common name that the CA has signed.
    """

    client_ca_file: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """Delegated authentication. The kubeconfig is not among these: callers pass a client."""

    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    token_cache_ttl: float = TTL
    client_ca_file: str = ""
    request_header: RequestHeaderSettings = field(default_factory=RequestHeaderSettings)


@dataclass(frozen=True, slots=True)
class AuthorizationSettings:
    """Delegated authorization. A path that ends in `*` is a prefix."""

    always_allow_paths: tuple[str, ...] = ALWAYS_ALLOWED
    always_allow_groups: tuple[str, ...] = ("system:masters",)
    allowed_cache_ttl: float = TTL
    denied_cache_ttl: float = TTL


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits against floods of requests and against slow clients.

    At most `connections` are open and `requests` in flight. A connection has `handshake` seconds for TLS,
    `idle` seconds between requests, `request` seconds to send one, and is closed if the client has taken
    nothing of a response for `stalled` seconds; this is checked every `sweep_interval` seconds. `body`,
    `head`, `line` and `header` are bytes of a request, `headers` is a number.
    """

    connections: int = 128
    requests: int = 100
    handshake: float = 10.0
    request: float = 32.0
    idle: float = 90.0
    stalled: float = 30.0
    sweep_interval: float = 1.0
    body: int = 1 << 20
    head: int = 64 << 10
    line: int = 8190
    header: int = 16 << 10
    headers: int = 64
