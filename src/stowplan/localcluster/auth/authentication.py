"""Authentication: whose request it is, and as whom it is to be treated (impersonation)."""

import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote

from multidict import CIMultiDictProxy

from stowplan.api import status
from stowplan.api.status import ApiError
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.auth.rbac import AccessRules, Attributes, RbacDecision, forbidden
from stowplan.localcluster.auth.tokens import TokenError, TokenIssuer
from stowplan.localcluster.auth.users import (
    ADMIN,
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    UNAUTHENTICATED,
    User,
    account_groups,
    split_account_username,
)

INVALID_TOKEN: Final = "invalid bearer token"
_AUTHENTICATION: Final = "authentication.k8s.io"
_IMPERSONATE: Final = "Impersonate-"
_EXTRA: Final = "impersonate-extra-"
_NODE: Final = "system:node:"
_NODES: Final = "system:nodes"
_NODE_EXTRA: Final = "authentication.kubernetes.io/node-name"


class Identified(NamedTuple):
    """A user and the audiences that the user's token is for."""

    user: User
    audiences: tuple[str, ...]


class Authenticator:
    """Knows the token of the administrator, and those of service accounts.

    Without an administrator's token everybody is the administrator.
    """

    def __init__(self, token: str | None, issuer: TokenIssuer) -> None:
        self._token = token
        self._secret = b"" if token is None else token.encode()
        self._issuer = issuer

    @property
    def token(self) -> str | None:
        return self._token

    def authenticate(self, headers: Mapping[str, str], by_certificate: User | None = None) -> User:
        """User of a request: the anonymous user without credentials. Raises `ApiError` 401 for wrong ones.

        The user of a client certificate takes precedence over that of a token.
        """
        if self._token is None:
            return ADMIN
        if by_certificate is not None:
            return by_certificate
        given = headers.get("Authorization", "").strip()
        scheme, _, rest = given.partition(" ")
        token = rest.split(" ", 1)[0]
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        try:
            return self.identify(token).user
        except TokenError:
            raise ApiError(401, "Unauthorized", "Unauthorized") from None

    def identify(self, token: str, audiences: Sequence[str] = ()) -> Identified:
        """Whose token it is, for any of these audiences or for the server itself. Raises `TokenError`."""
        if self._token is not None and hmac.compare_digest(
            token.encode("utf-8", "surrogateescape"), self._secret
        ):
            return Identified(ADMIN, tuple(audiences) or self._issuer.audiences)
        found = self._issuer.user_of(token, audiences)
        if found is None:
            raise TokenError(INVALID_TOKEN)
        user, shared = found
        return Identified(user._replace(groups=(*user.groups, AUTHENTICATED)), shared)


def impersonated(
    user: User, headers: "CIMultiDictProxy[str]", access: AccessRules, request: Attributes | None
) -> User:
    """Effective user of a request: its sender, unless its headers impersonate another user.

    `request` are its attributes, None if they do not matter (the sender may do everything). Raises `ApiError`
    400, or 403 if the sender may not impersonate that user.
    """
    wanted = wanted_user(headers)
    if wanted is None:
        return user
    refusal: ApiError | None = None
    for mode, groups in _modes(user, wanted):
        on = None if request is None else request._replace(verb=f"impersonate-on:{mode}:{request.verb}")
        needed = _needed(user, wanted, f"impersonate:{mode}", _AUTHENTICATION, mode)
        denied = _first_denied(access, [on, *needed] if on is not None else needed)
        if denied is None and MASTERS not in wanted.groups and "" not in wanted.groups:
            return _completed(wanted, groups)
        refusal = refusal or denied
    denied = _first_denied(access, _needed(user, wanted, "impersonate", "", ""))
    if denied is None:
        return _completed(wanted, None)
    raise refusal or denied


def wanted_user(headers: "CIMultiDictProxy[str]") -> User | None:
    """The user that headers name. Raises `ApiError` 400 if they name only a part of one."""
    if not any(header.lower().startswith("impersonate-") for header in headers):
        return None
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        if header.lower().startswith(_EXTRA):
            key = unquote(header.lower()[len(_EXTRA) :])
            extra[key] = (*extra.get(key, ()), value)
    groups = tuple(headers.getall(f"{_IMPERSONATE}Group", ()))
    wanted = User(
        headers.get(f"{_IMPERSONATE}User", ""), groups, headers.get(f"{_IMPERSONATE}Uid", ""), extra
    )
    if not wanted.name and (groups or extra or wanted.uid):
        raise status.bad_request(f"requested {_as_go(wanted)} without impersonating a user name")
    return wanted if wanted.name else None


def _modes(user: User, wanted: User) -> Iterable[tuple[str, tuple[str, ...] | None]]:
    """The ways of constrained impersonation that a user can be had by, with the groups that come with it."""
    only_name = not wanted.groups and not wanted.uid and not wanted.extra
    is_node = wanted.name.startswith(_NODE) and wanted.name != _NODE
    is_account = split_account_username(wanted.name) is not None
    if is_node and only_name:
        on_node = user.extra.get(_NODE_EXTRA, ())
        if split_account_username(user.name) is not None and on_node == (wanted.name[len(_NODE) :],):
            yield "associated-node", (_NODES,)
        yield "arbitrary-node", (_NODES,)
    if is_account and only_name:
        yield "serviceaccount", None
    if not is_node and not is_account:
        yield "user-info", None


def _needed(user: User, wanted: User, verb: str, group: str, mode: str) -> list[Attributes]:
    """Rights a user needs to impersonate another."""
    account = split_account_username(wanted.name)
    if account is not None:
        first = Attributes(user, verb, group, "serviceaccounts", "", *account)
    elif mode in ("associated-node", "arbitrary-node"):
        name = "*" if mode == "associated-node" else wanted.name[len(_NODE) :]
        first = Attributes(user, verb, group, "nodes", name=name)
    else:
        first = Attributes(user, verb, group, "users", name=wanted.name)
    needed = [first]
    if wanted.uid:
        needed.append(Attributes(user, verb, _AUTHENTICATION, "uids", name=wanted.uid))
    needed += [Attributes(user, verb, group, "groups", name=name) for name in wanted.groups]
    for key, values in wanted.extra.items():
        needed += [Attributes(user, verb, _AUTHENTICATION, "userextras", key, name=value) for value in values]
    return needed


def _first_denied(access: AccessRules, needed: Iterable[Attributes]) -> ApiError | None:
    for attributes in needed:
        decision: RbacDecision = access.decide(attributes)
        if not decision.allowed:
            return forbidden(attributes, decision.reason)
    return None


def _completed(wanted: User, groups: tuple[str, ...] | None) -> User:
    """The user with the implied groups."""
    account = split_account_username(wanted.name)
    if groups is None:
        groups = account_groups(account[0]) if account and not wanted.groups else wanted.groups
    implied = AUTHENTICATED
    if wanted.name == ANONYMOUS.name or UNAUTHENTICATED in groups:
        implied = UNAUTHENTICATED
    return wanted._replace(groups=groups if implied in groups else (*groups, implied))


def _as_go(user: User) -> str:
    """The user in Go's notation."""
    groups = "[]string{" + ", ".join(map(quote, user.groups)) + "}" if user.groups else "[]string(nil)"
    extra = "map[string][]string(nil)"
    if user.extra:
        shown = (
            f"{quote(key)}:[]string{{{', '.join(map(quote, values))}}}"
            for key, values in sorted(user.extra.items())
        )
        extra = "map[string][]string{" + ", ".join(shown) + "}"
    return (
        f"&user.DefaultInfo{{Name:{quote(user.name)}, UID:{quote(user.uid)}, Groups:{groups}, Extra:{extra}}}"
    )
