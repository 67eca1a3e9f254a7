"""Users and groups, and what service accounts are called as users."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from stowplan.api.names import dns_label_problems, subdomain_problems
from stowplan.api.requests import Json

MASTERS: Final = "system:masters"
"""The group that may do everything, regardless of roles."""

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
ALL_ACCOUNTS: Final = "system:serviceaccounts"
_ACCOUNT_PREFIX: Final = "system:serviceaccount:"
_NO_EXTRA: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


class User(NamedTuple):
    """Somebody who asks. `extra` is what the authenticator knows besides."""

    name: str
    groups: tuple[str, ...] = (AUTHENTICATED,)
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = _NO_EXTRA

    @property
    def is_admin(self) -> bool:
        return MASTERS in self.groups

    def info(self) -> Json:
        """The user as reviews show it (UserInfo)."""
        shown: Json = {"username": self.name}
        if self.uid:
            shown["uid"] = self.uid
        if self.groups:
            shown["groups"] = list(self.groups)
        if self.extra:
            shown["extra"] = {key: list(values) for key, values in sorted(self.extra.items())}
        return shown


ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))
ADMIN: Final = User("stowplan-admin", (MASTERS, AUTHENTICATED), "stowplan-admin")
"""The owner of the token in the kubeconfig."""


def account_username(namespace: str, name: str) -> str:
    return f"{_ACCOUNT_PREFIX}{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    return (ALL_ACCOUNTS, f"{ALL_ACCOUNTS}:{namespace}")


def split_account_username(username: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that goes by this user name, None if none can."""
    if not username.startswith(_ACCOUNT_PREFIX):
        return None
    namespace, colon, name = username[len(_ACCOUNT_PREFIX) :].partition(":")
    if not colon or ":" in name or dns_label_problems(namespace) or subdomain_problems(name):
        return None
    return namespace, name
