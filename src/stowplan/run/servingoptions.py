"""What the flags of the secure port come to, and what is wrong with them."""

from collections.abc import Iterator
from typing import Final

from stowplan.gocompat.quoting import quote
from stowplan.run.flags.parser import Parsed
from stowplan.run.flags.special import NamedPair
from stowplan.serving.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    RequestHeaderSettings,
    ServingSettings,
    SniCertificate,
)

_HIGHEST_PORT: Final = 65535
_STANDARD: Final = {
    "requestheader-username-headers": ("X-Remote-User", "header"),
    "requestheader-group-headers": ("X-Remote-Group", "header"),
    "requestheader-extra-headers-prefix": ("X-Remote-Extra-", "header prefix"),
}


def serving_settings(parsed: Parsed) -> ServingSettings:
    pairs: tuple[NamedPair, ...] = parsed.value("tls-sni-cert-key")
    return ServingSettings(
        bind_address=parsed.text("bind-address"),
        port=parsed.number("secure-port"),
        certificate_folder=parsed.text("cert-dir"),
        certificate_file=parsed.text("tls-cert-file"),
        key_file=parsed.text("tls-private-key-file"),
        cipher_suites=parsed.texts("tls-cipher-suites"),
        min_version=parsed.text("tls-min-version"),
        curve_preferences=parsed.value("tls-curve-preferences"),
        sni_certificates=tuple(SniCertificate(pair.certificate, pair.key, pair.names) for pair in pairs),
        http2_max_streams=parsed.number("http2-max-streams-per-connection"),
        disable_http2=parsed.on("disable-http2-serving"),
        permit_port_sharing=parsed.on("permit-port-sharing"),
        permit_address_sharing=parsed.on("permit-address-sharing"),
    )


def authentication_settings(parsed: Parsed) -> AuthenticationSettings:
    return AuthenticationSettings(
        skip_lookup=parsed.on("authentication-skip-lookup"),
        tolerate_lookup_failure=parsed.on("authentication-tolerate-lookup-failure"),
        token_cache_ttl=parsed.duration("authentication-token-webhook-cache-ttl").seconds,
        client_ca_file=parsed.text("client-ca-file"),
        request_header=RequestHeaderSettings(
            client_ca_file=parsed.text("requestheader-client-ca-file"),
            allowed_names=parsed.texts("requestheader-allowed-names"),
            username_headers=parsed.texts("requestheader-username-headers"),
            uid_headers=parsed.texts("requestheader-uid-headers"),
            group_headers=parsed.texts("requestheader-group-headers"),
            extra_headers_prefix=parsed.texts("requestheader-extra-headers-prefix"),
        ),
    )


def authorization_settings(parsed: Parsed) -> AuthorizationSettings:
    return AuthorizationSettings(
        always_allow_paths=parsed.texts("authorization-always-allow-paths"),
        allowed_cache_ttl=parsed.duration("authorization-webhook-cache-authorized-ttl").seconds,
        denied_cache_ttl=parsed.duration("authorization-webhook-cache-unauthorized-ttl").seconds,
    )


def serving_problems(parsed: Parsed, *, uid_headers: bool) -> Iterator[str]:
    """What is wrong with these flags. `uid_headers` is the feature gate RemoteRequestHeaderUID."""
    port = parsed.number("secure-port")
    if port > _HIGHEST_PORT:
        yield f"--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
    elif port < 0:
        yield f"--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
    for name in (*_STANDARD, "requestheader-allowed-names"):
        yield from _blank(name, parsed)
    given = parsed.texts("requestheader-uid-headers")
    if not uid_headers:
        if given:
            yield '--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be enabled'
        return
    yield from _blank("requestheader-uid-headers", parsed)
    if given and not _has(given, "X-Remote-Uid"):
        yield (
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header"
            " - API aggregation will not work"
        )


def serving_warnings(parsed: Parsed) -> Iterator[str]:
    """What is unusual about these flags."""
    for name, (standard, what) in _STANDARD.items():
        if parsed.texts(name) and not _has(parsed.texts(name), standard):
            yield (
                f"--{name} is set without specifying the standard {standard} {what}"
                " - API aggregation will not work"
            )


def _blank(name: str, parsed: Parsed) -> Iterator[str]:
    if not all(value.strip() for value in parsed.texts(name)):
        yield f"empty value in {quote(name)}"


def _has(headers: tuple[str, ...], wanted: str) -> bool:
    return any(header.lower() == wanted.lower() for header in headers)
