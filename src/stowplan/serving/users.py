"""Who asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ANONYMOUS: Final = "system:anonymous"
AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who asks, as far as it matters for what they may see."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def authenticated(self) -> "User":
        """The same, counted among those who have proven who they are."""
        if self.name == ANONYMOUS or AUTHENTICATED in self.groups or UNAUTHENTICATED in self.groups:
            return self
        return User(self.name, self.uid, (*self.groups, AUTHENTICATED), self.extra)


NOBODY: Final = User(ANONYMOUS, groups=(UNAUTHENTICATED,))
"""Somebody who did not say who they are."""


class CredentialsError(Exception):
    """Credentials that prove nothing: the answer is 401, whatever was asked for."""


def readable(text: str) -> str:
    """Text of a header with whatever is no UTF-8 replaced, so that it can be sent on."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
