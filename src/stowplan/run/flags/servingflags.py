"""Flags about the secure port: where it is, who may ask, and for what."""

from typing import Final

from stowplan.gocompat.durations import Duration
from stowplan.run.flags.flag import Flag, Group
from stowplan.run.flags.kinds import ADDRESS, BOOL, DURATION, INT, NUMBERS, STRING, STRINGS
from stowplan.run.flags.special import NAMED_PAIRS

_TTL: Final = Duration.of_seconds(10)
_ONLY_HTTP1: Final = "the port speaks HTTP/1.1 only"

SECURE_SERVING: Final = Group(
    "secure serving",
    (
        Flag("bind-address", ADDRESS, "0.0.0.0", "Address to listen on; 0.0.0.0 or :: for all."),
        Flag("secure-port", INT, 10259, "Port of the pages, over TLS. 0: no port at all."),
        Flag(
            "cert-dir",
            STRING,
            "",
            "Folder for the certificate (kube-scheduler.crt and .key) if none is given; made there if "
            "missing. Without a folder a certificate is made and kept in memory.",
        ),
        Flag(
            "tls-cert-file",
            STRING,
            "",
            "Certificate of the port, followed by its issuers. Read again when it changes.",
        ),
        Flag("tls-private-key-file", STRING, "", "Key that belongs to --tls-cert-file."),
        Flag("tls-cipher-suites", STRINGS, (), "Cipher suites to allow, by their IANA names."),
        Flag("tls-curve-preferences", NUMBERS, (), "Curves to allow, by their numbers in TLS."),
        Flag(
            "tls-min-version",
            STRING,
            "",
            "Lowest TLS version: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13.",
        ),
        Flag(
            "tls-sni-cert-key",
            NAMED_PAIRS,
            (),
            "Another certificate with its key, for certain names: cert,key or cert,key:name,*.name. "
            "Can be repeated.",
        ),
        Flag(
            "http2-max-streams-per-connection",
            INT,
            0,
            "Limit of streams in an HTTP/2 connection.",
            ignored=_ONLY_HTTP1,
        ),
        Flag("disable-http2-serving", BOOL, False, "Do not serve HTTP/2.", ignored=_ONLY_HTTP1),
        Flag("permit-port-sharing", BOOL, False, "Let several processes listen on the port (SO_REUSEPORT)."),
        Flag(
            "permit-address-sharing", BOOL, False, "Listen though an old connection lingers (SO_REUSEADDR)."
        ),
    ),
)

AUTHENTICATION: Final = Group(
    "authentication",
    (
        Flag(
            "authentication-kubeconfig",
            STRING,
            "",
            "Kubeconfig for asking the API server who sent a token. In a pod its own account is used; "
            "without either, tokens mean nothing.",
        ),
        Flag(
            "authentication-skip-lookup",
            BOOL,
            False,
            "Do not read authorities from kube-system/extension-apiserver-authentication.",
        ),
        Flag(
            "authentication-token-webhook-cache-ttl",
            DURATION,
            _TTL,
            "How long an answer about a token is remembered.",
        ),
        Flag(
            "authentication-tolerate-lookup-failure",
            BOOL,
            True,
            "Start even if the authorities cannot be read; certificates are not recognised then.",
        ),
        Flag("client-ca-file", STRING, "", "Authorities whose client certificates are recognised."),
        Flag(
            "requestheader-client-ca-file",
            STRING,
            "",
            "Authorities of proxies that may name the user in headers.",
        ),
        Flag("requestheader-allowed-names", STRINGS, (), "Common names such proxies may have; none: any."),
        Flag(
            "requestheader-username-headers",
            STRINGS,
            ("x-remote-user",),
            "Headers that may hold the user's name.",
        ),
        Flag("requestheader-uid-headers", STRINGS, (), "Headers that may hold the user's uid."),
        Flag(
            "requestheader-group-headers",
            STRINGS,
            ("x-remote-group",),
            "Headers that may hold the user's groups.",
        ),
        Flag(
            "requestheader-extra-headers-prefix",
            STRINGS,
            ("x-remote-extra-",),
            "Beginnings of headers that hold more about the user.",
        ),
    ),
)

AUTHORIZATION: Final = Group(
    "authorization",
    (
        Flag(
            "authorization-always-allow-paths",
            STRINGS,
            ("/healthz", "/readyz", "/livez"),
            "Paths that everybody may read; * at the end stands for anything.",
        ),
        Flag(
            "authorization-kubeconfig",
            STRING,
            "",
            "Kubeconfig for asking the API server what a user may do. In a pod its own account is used; "
            "without either, only the paths above are answered.",
        ),
        Flag(
            "authorization-webhook-cache-authorized-ttl",
            DURATION,
            _TTL,
            "How long a permission is remembered.",
        ),
        Flag(
            "authorization-webhook-cache-unauthorized-ttl",
            DURATION,
            _TTL,
            "How long a refusal is remembered.",
        ),
    ),
)
