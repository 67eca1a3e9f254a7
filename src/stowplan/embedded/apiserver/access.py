"""Who asks, and what they may: the owner of the token everything, everybody else next to nothing."""

import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

from stowplan.api.status import ApiError

ADMINISTRATORS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"
_ANYBODY_READS: Final = ("/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz")


class User(NamedTuple):
    """Somebody who asks."""

    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)

    @property
    def may_all(self) -> bool:
        return ADMINISTRATORS in self.groups


class Access:
    """Knows the one token there is. There are no roles: only administrators may do anything.

    An administrator may act as somebody else, and then is refused as that person would be.
    """

    def __init__(self, token: str | None) -> None:
        self._header = None if token is None else f"Bearer {token}".encode()
        self._token = token
        self._owner = User("stowplan-admin", (ADMINISTRATORS, AUTHENTICATED))

    @property
    def token(self) -> str | None:
        return self._token

    def user(self, headers: Mapping[str, str]) -> User:
        """Who asks. Raises `ApiError` 401 for a request without the right credentials."""
        if self._header is not None:
            given = headers.get("Authorization", "").encode("utf-8", "surrogateescape")
            if not hmac.compare_digest(given, self._header):
                raise ApiError(401, "Unauthorized", "Unauthorized")
        if "Impersonate-User" in headers:
            return User(headers["Impersonate-User"], _groups(headers))
        return self._owner

    def owner_of(self, token: str) -> User | None:
        """Whose token this is, None if it is nobody's."""
        if self._token is None or not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        return self._owner


def may_read_path(user: User, path: str) -> bool:
    """Whether somebody may read something that is not an object."""
    return user.may_all or any(path == open_ or path.startswith(f"{open_}/") for open_ in _ANYBODY_READS)


def forbidden(user: User, verb: str, group: str, plural: str, namespace: str, name: str = "") -> ApiError:
    """What somebody is told who may not do this."""
    qualified = f"{plural}.{group}" if group else plural
    shown = f'{qualified} "{name}"' if name else qualified
    scope = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    text = (
        f'{shown} is forbidden: User "{user.name}" cannot {verb} resource "{plural}" '
        f'in API group "{group}" {scope}'
    )
    details = {"name": name, "group": group, "kind": plural}
    return ApiError(403, "Forbidden", text, {key: value for key, value in details.items() if value})


def _groups(headers: Mapping[str, str]) -> tuple[str, ...]:
    getall = getattr(headers, "getall", None)
    given = getall("Impersonate-Group", ()) if getall is not None else ()
    return (*given, AUTHENTICATED)
