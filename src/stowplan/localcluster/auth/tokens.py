"""Tokens of service accounts: JSON Web Tokens that the server signs and checks itself.

A token names its account by uid, and perhaps an object it is bound to (a pod, a Secret, a node); it is good
for as long as these exist and its time is not over. Tokens in Secrets have an older form without an end.
"""

import base64
import hashlib
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from stowplan.api.catalogue import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, Resource
from stowplan.api.meta import seconds_of
from stowplan.api.requests import Json
from stowplan.localcluster.auth.users import User, account_groups, account_username
from stowplan.localcluster.durable import DataDirError
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import Clock

DEFAULT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
JWKS_PATH: Final = "/openid/v1/jwks"
OPENID_PATH: Final = "/.well-known/openid-configuration"
KEY_FILE: Final = "sa.key"
"""The file in a data directory that keeps the key, so that tokens outlive the process."""

_LEGACY_ISSUER: Final = "kubernetes/serviceaccount"
_LEGACY_CLAIM: Final = "kubernetes.io/serviceaccount"
_LEEWAY: Final = 60
"""Seconds by which clocks may differ, and for which an object that is being deleted still counts."""

_EXTRA: Final = "authentication.kubernetes.io"
_NUMBER_BYTES: Final = 32
_VERIFIED: Final = 1024
"""Tokens whose signature is remembered as good."""


class TokenError(Exception):
    """A token that is not accepted; the message says why."""


class SigningKey:
    """A key of the server: signs, and checks what it has signed (ES256)."""

    def __init__(self, key: ec.EllipticCurvePrivateKey | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1()) if key is None else key
        self._public = self._key.public_key()
        der = self._public.public_bytes(
            serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.id = _base64(hashlib.sha256(der).digest())
        self._header = _base64(msgspec.json.encode({"alg": "ES256", "kid": self.id}))

    @classmethod
    def kept_in(cls, folder: Path) -> "SigningKey":
        """The key of a data directory, made if there is none yet. Raises DataDirError."""
        path = folder / KEY_FILE
        try:
            if path.exists():
                return cls(_read_key(path))
            made = cls()
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(made._pem())
        except OSError as error:
            raise DataDirError(f"{path}: {error.strerror}") from None
        return made

    def sign(self, claims: Json) -> str:
        text = f"{self._header}.{_base64(msgspec.json.encode(claims))}"
        r, s = decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_base64(r.to_bytes(_NUMBER_BYTES) + s.to_bytes(_NUMBER_BYTES))}"

    def check(self, header: Json, text: str, signature: bytes) -> None:
        """Raises `TokenError` if it was not this key that signed."""
        if header.get("kid", self.id) != self.id:
            raise TokenError("invalid signature, no keys found")
        try:
            if len(signature) != 2 * _NUMBER_BYTES:
                raise InvalidSignature
            r, s = signature[:_NUMBER_BYTES], signature[_NUMBER_BYTES:]
            der = encode_dss_signature(int.from_bytes(r), int.from_bytes(s))
            self._public.verify(der, text.encode(), ec.ECDSA(hashes.SHA256()))
        except InvalidSignature:
            raise TokenError("go-jose/go-jose: error in cryptographic primitive") from None

    def _pem(self) -> bytes:
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        return self._key.private_bytes(encoding, form, serialization.NoEncryption())

    def jwk(self) -> Json:
        """The public half, as JSON Web Keys show it."""
        numbers = self._public.public_numbers()
        return {
            "use": "sig",
            "kty": "EC",
            "kid": self.id,
            "crv": "P-256",
            "alg": "ES256",
            "x": _base64(numbers.x.to_bytes(_NUMBER_BYTES)),
            "y": _base64(numbers.y.to_bytes(_NUMBER_BYTES)),
        }


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
        raise DataDirError(f"{path}: expected an unencrypted EC key (P-256) as PEM")
    return key


class BoundObject(NamedTuple):
    """An object that a token does not outlive. A pod's token also says which node it is on."""

    kind: str
    name: str
    uid: str
    node: tuple[str, str] | None = None


class TokenIssuer:
    """Signs tokens of service accounts and says whose a token is."""

    def __init__(
        self, store: Store, clock: Clock, rng: Random, *, key: SigningKey, issuer: str = DEFAULT_ISSUER
    ) -> None:
        self._store = store
        self._clock = clock
        self._rng = rng
        self._key = key
        self.issuer = issuer
        self.audiences = (self.issuer,)
        self._verified: dict[str, Json] = {}

    def sign(
        self,
        account: Json,
        audiences: Sequence[str],
        seconds: int,
        bound: BoundObject | None = None,
        warn_after: int | None = None,
    ) -> str:
        """A token of an account for a while."""
        now = int(self._clock.now())
        metadata = account["metadata"]
        private: Json = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
        }
        if bound is not None:
            if bound.node is not None:
                name, uid = bound.node
                private["node"] = {"name": name, "uid": uid} if uid else {"name": name}
            private[bound.kind.lower()] = {"name": bound.name, "uid": bound.uid}
        if warn_after is not None:
            private["warnafter"] = now + warn_after
        claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.UUID(int=self._rng.getrandbits(128), version=4)),
            "kubernetes.io": private,
            "nbf": now,
            "sub": account_username(metadata["namespace"], metadata["name"]),
        }
        return self._key.sign(claims)

    def sign_for_secret(self, account: Json, secret: Json) -> str:
        """A token to be kept in a Secret: without an end, good as long as the Secret holds it."""
        metadata = account["metadata"]
        claims = {
            "iss": _LEGACY_ISSUER,
            f"{_LEGACY_CLAIM}/namespace": metadata["namespace"],
            f"{_LEGACY_CLAIM}/secret.name": secret["metadata"]["name"],
            f"{_LEGACY_CLAIM}/service-account.name": metadata["name"],
            f"{_LEGACY_CLAIM}/service-account.uid": metadata["uid"],
            "sub": account_username(metadata["namespace"], metadata["name"]),
        }
        return self._key.sign(claims)

    def user_of(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]] | None:
        """Whose token it is and for which audiences; None if it is no token of this server's.

        Without audiences it has to be for the server itself. Raises `TokenError`.
        """
        claims = self._claims(token)
        if claims is None:
            return None
        wanted = tuple(audiences) or self.audiences
        given = claims.get("aud") or self.audiences
        shared = tuple(audience for audience in given if audience in wanted)
        if not shared:
            raise TokenError(
                f"token audiences {_quoted(given)} is invalid for the target audiences {_quoted(wanted)}"
            )
        user = self._legacy_user(claims, token) if claims["iss"] == _LEGACY_ISSUER else self._user(claims)
        return user, shared

    def openid_configuration(self, url: str) -> Json:
        """OpenID Connect discovery document, the first request of relying parties."""
        return {
            "issuer": self.issuer,
            "jwks_uri": url + JWKS_PATH,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def jwks(self) -> Json:
        return {"keys": [self._key.jwk()]}

    def _claims(self, token: str) -> Json | None:
        """Claims of a token, None if it is another issuer's. Raises `TokenError`."""
        known = self._verified.get(token)
        if known is not None:
            return known
        read = _read(token)
        if read is None:
            return None
        header, claims, signature = read
        if claims.get("iss") not in (self.issuer, _LEGACY_ISSUER):
            return None
        self._key.check(header, token.rpartition(".")[0], signature)
        if len(self._verified) >= _VERIFIED:
            self._verified.clear()
        self._verified[token] = claims
        return claims

    def _user(self, claims: Json) -> User:
        now = self._clock.now()
        if now > claims["exp"] + _LEEWAY:
            raise TokenError("service account token has expired")
        if now < claims["nbf"] - _LEEWAY:
            raise TokenError("service account token is not valid yet")
        private: Json = claims["kubernetes.io"]
        namespace, named = private["namespace"], private["serviceaccount"]
        account = self._store.find(SERVICE_ACCOUNTS, namespace, named["name"])
        if account is None:
            raise TokenError(f'serviceaccounts "{named["name"]}" not found')
        uid = account["metadata"]["uid"]
        if uid != named["uid"]:
            raise TokenError(f"service account UID ({uid}) does not match claim ({named['uid']})")
        if self._is_gone(account, now):
            raise TokenError(f"service account {namespace}/{named['name']} has been deleted")
        self._check_bound(SECRETS, namespace, private.get("secret"), now)
        self._check_bound(PODS, namespace, private.get("pod"), now)
        if "pod" not in private:
            self._check_bound(NODES, "", private.get("node"), now)
        extra = {f"{_EXTRA}/credential-id": (f"JTI={claims['jti']}",)}
        for kind in ("node", "pod"):
            for field, value in (private.get(kind) or {}).items():
                extra[f"{_EXTRA}/{kind}-{field}"] = (value,)
        name = account_username(namespace, named["name"])
        return User(name, account_groups(namespace), uid, extra)

    def _check_bound(self, resource: Resource, namespace: str, named: Json | None, now: float) -> None:
        """Raises `TokenError` if the object that a token is bound to is no more."""
        if named is None:
            return
        obj = self._store.find(resource, namespace, named["name"])
        if obj is None or self._is_gone(obj, now):
            raise TokenError("service account token has been invalidated")
        uid, kind = obj["metadata"]["uid"], resource.kind.lower()
        if uid != named["uid"]:
            why = f"does not match service account {kind} ref claim ({named['uid']})"
            raise TokenError(f"{kind} UID ({uid}) {why}")

    def _is_gone(self, obj: Json, now: float) -> bool:
        deleted = obj["metadata"].get("deletionTimestamp")
        return deleted is not None and seconds_of(deleted) < now - _LEEWAY

    def _legacy_user(self, claims: Json, token: str) -> User:
        namespace = claims[f"{_LEGACY_CLAIM}/namespace"]
        name = claims[f"{_LEGACY_CLAIM}/service-account.name"]
        secret = self._store.find(SECRETS, namespace, claims[f"{_LEGACY_CLAIM}/secret.name"])
        if secret is None or "deletionTimestamp" in secret["metadata"]:
            raise TokenError("Token has been invalidated")
        if (secret.get("data") or {}).get("token") != base64.b64encode(token.encode()).decode():
            raise TokenError("Token does not match server's copy")
        account = self._store.find(SERVICE_ACCOUNTS, namespace, name)
        if account is None:
            raise TokenError(f'serviceaccounts "{name}" not found')
        uid, claimed = account["metadata"]["uid"], claims[f"{_LEGACY_CLAIM}/service-account.uid"]
        if uid != claimed:
            raise TokenError(f"ServiceAccount UID ({uid}) does not match claim ({claimed})")
        return User(account_username(namespace, name), account_groups(namespace), uid)


def _read(token: str) -> tuple[Json, Json, bytes] | None:
    """Header, claims and signature, None if it is no JSON Web Token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        raw = [base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in parts]
        header, claims = (msgspec.json.decode(part) for part in raw[:2])
    except (ValueError, msgspec.DecodeError):
        return None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        return None
    return header, claims, raw[2]


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _quoted(texts: Sequence[Any]) -> str:
    return "[" + " ".join(f'"{text}"' for text in texts) + "]"
