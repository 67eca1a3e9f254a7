"""Bearer tokens, and what can be read from them."""

import base64
import binascii

import msgspec


class CredentialsError(Exception):
    """Credentials that cannot be had now; one line that says why."""


class _Claims(msgspec.Struct):
    exp: float = 0.0


def bearer(token: str) -> str:
    """The header's value for a token. Raises CredentialsError for what would break a header."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise CredentialsError("token: expected printable characters without blanks")
    return f"Bearer {token}"


def expiry_of(token: str) -> float:
    """When a JSON web token expires, in seconds since the epoch; 0 if it does not say."""
    parts = token.split(".")
    if len(parts) != 3:
        return 0.0
    try:
        text = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(text, type=_Claims, strict=False).exp
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return 0.0
