"""A proxy in front that has found out already who asks, and says so in headers."""

from collections.abc import Sequence
from urllib.parse import unquote

from cryptography import x509
from multidict import CIMultiDictProxy

from stowplan.serving.clientcertificates import Authorities, common_name
from stowplan.serving.settings import RequestHeaderSettings
from stowplan.serving.users import CredentialsError, User, readable

Headers = CIMultiDictProxy[str]


class FrontProxy:
    """Believes headers if whoever sends them shows a certificate that may speak for others."""

    def __init__(self, authorities: Authorities, settings: RequestHeaderSettings) -> None:
        self._authorities = authorities
        self._settings = settings

    def user(self, chain: Sequence[x509.Certificate], headers: Headers, now: float) -> User | None:
        """Whom the headers name, None if nobody. Raises `CredentialsError` for any other certificate."""
        if not chain:
            return None
        self._authorities.verify(chain, now)
        name = common_name(chain[0])
        if self._settings.allowed_names and name not in self._settings.allowed_names:
            raise CredentialsError(f"x509: subject with cn={name} is not in the allowed list")
        user = _first(headers, self._settings.username_headers)
        if not user:
            return None
        groups = [
            readable(group)
            for header in self._settings.group_headers
            for group in headers.getall(header, ())
            if group
        ]
        return User(user, _first(headers, self._settings.uid_headers), tuple(groups), self._extra(headers))

    def _extra(self, headers: Headers) -> dict[str, tuple[str, ...]]:
        extra: dict[str, tuple[str, ...]] = {}
        for prefix in self._settings.extra_headers_prefix:
            for header, value in headers.items():
                if header.lower().startswith(prefix.lower()):
                    key = unquote(readable(header[len(prefix) :].lower()))
                    extra[key] = (*extra.get(key, ()), readable(value))
        return extra


def _first(headers: Headers, names: Sequence[str]) -> str:
    values = (headers.getall(name, ("",))[0] for name in names)
    return readable(next((value for value in values if value), ""))
