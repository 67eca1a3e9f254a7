"""What can be set about the secure port. The defaults are those of kube-scheduler's flags."""

from dataclasses import dataclass, field
from typing import Final

SECURE_PORT: Final = 10259
ALWAYS_ALLOWED: Final = ("/healthz", "/readyz", "/livez")
TTL: Final = 10.0


@dataclass(frozen=True, slots=True)
class SniCertificate:
    """A certificate for certain names (`--tls-sni-cert-key`); without names, for those it was made out to."""

    certificate_file: str
    key_file: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Where to listen, and with which certificate.

    Port 0 turns the port off, as the flag says; `any_free_port` listens on one the system picks instead.
    Cipher suites and the lowest version have Go's names (`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`,
    `VersionTLS12`), curves the flag's numbers; empty means the default. HTTP/2 is never spoken: the two
    settings for it are kept to be shown and change nothing.
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
    """How a proxy in front names the user it speaks for (`--requestheader-*`).

    Empty `allowed_names` allow every name that the certificate authority vouches for.
    """

    client_ca_file: str = ""
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("x-remote-user",)
    uid_headers: tuple[str, ...] = ()
    group_headers: tuple[str, ...] = ("x-remote-group",)
    extra_headers_prefix: tuple[str, ...] = ("x-remote-extra-",)


@dataclass(frozen=True, slots=True)
class AuthenticationSettings:
    """How to find out who asks. The kubeconfig itself is for whoever makes the client."""

    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    token_cache_ttl: float = TTL
    client_ca_file: str = ""
    request_header: RequestHeaderSettings = field(default_factory=RequestHeaderSettings)


@dataclass(frozen=True, slots=True)
class AuthorizationSettings:
    """Who may ask for what. A path that ends in `*` stands for everything that begins like it."""

    always_allow_paths: tuple[str, ...] = ALWAYS_ALLOWED
    always_allow_groups: tuple[str, ...] = ("system:masters",)
    allowed_cache_ttl: float = TTL
    denied_cache_ttl: float = TTL
