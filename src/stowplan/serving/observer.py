"""Who wants to know how it is decided about requests, as metrics do."""

from typing import Protocol


class AccessObserver(Protocol):
    """Is told how it went to find out who asks and whether they may, and how long it took in seconds."""

    def authenticated(self, result: str, seconds: float, username: str = "") -> None:
        """It is known who asks (`success`), or what they show proves nothing (`error`)."""
        return

    def authorized(self, result: str, seconds: float) -> None:
        """They may (`allowed`), nobody says that they may (`no-opinion`), or nobody can say (`error`)."""
        return

    def looked_up(self, hit: bool, seconds: float) -> None:
        """The owner of a token was known already, or had to be asked for."""
        return

    def fetching(self, status: str, change: int) -> None:
        """So many questions about tokens more or fewer are under way (`in_flight`) or waited for
        (`blocked`)."""
        return

    def fetched(self, good: bool) -> None:
        """The API server was asked about a token."""
        return

    def token_reviewed(self, code: str, seconds: float) -> None:
        """It answered a TokenReview with a status code, or not at all (`<error>`)."""
        return

    def access_reviewed(self, code: str, seconds: float) -> None:
        """It answered a SubjectAccessReview with a status code, or not at all (`<error>`)."""
        return

    def certificate_shown(self, good_for: float) -> None:
        """A client showed a certificate that is good for so many seconds."""
        return


class _Unobserved(AccessObserver):
    """Nobody wants to know."""


UNOBSERVED = _Unobserved()
