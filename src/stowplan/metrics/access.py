"""What is counted and timed of those who ask for pages: who they are, and whether they may."""

from typing import Final

from stowplan.metrics.families import Families

_NAMED_USERS: Final = frozenset(
    {"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"}
)
"""The only users that are counted by name: there may be many, and names may be private."""


class AccessMetrics:
    """Authentication and authorization on the secure port. Results have kube-scheduler's names."""

    def __init__(self, families: Families) -> None:
        self._users = families.counter("authenticated_user_requests")
        self._authenticated = families.counter("authentication_attempts")
        self._authenticating = families.histogram("authentication_duration_seconds")
        self._authorized = families.counter("authorization_attempts_total")
        self._authorizing = families.histogram("authorization_duration_seconds")
        self._lookups = families.counter("authentication_token_cache_request_total")
        self._looking_up = families.histogram("authentication_token_cache_request_duration_seconds")
        self._fetched = families.counter("authentication_token_cache_fetch_total")
        self._fetching = families.gauge("authentication_token_cache_active_fetch_count")
        self._token_reviews = families.counter("apiserver_delegated_authn_request_total")
        self._token_reviewing = families.histogram("apiserver_delegated_authn_request_duration_seconds")
        self._access_reviews = families.counter("apiserver_delegated_authz_request_total")
        self._access_reviewing = families.histogram("apiserver_delegated_authz_request_duration_seconds")
        self._certificates = families.distribution("apiserver_client_certificate_expiration_seconds")

    def authenticated(self, result: str, seconds: float, username: str = "") -> None:
        """It was found out who asks: `success` with a name, `failure` (nobody known) or `error`."""
        self._authenticated[result,] += 1
        self._authenticating[result,].observe(seconds)
        if username:
            self._users[_shown(username),] += 1

    def authorized(self, result: str, seconds: float) -> None:
        """It was decided who may ask: `allowed`, `denied`, `no-opinion` or `error`."""
        self._authorized[result,] += 1
        self._authorizing[result,].observe(seconds)

    def looked_up(self, hit: bool, seconds: float) -> None:
        """A token was known already or not."""
        labels = ("hit" if hit else "miss",)
        self._lookups[labels] += 1
        self._looking_up[labels].observe(seconds)

    def fetched(self, good: bool) -> None:
        """The API server was asked about a token, and it was good or not."""
        self._fetched["ok" if good else "error",] += 1

    def fetching(self, status: str, change: int) -> None:
        """So many questions more or fewer are under way (`in_flight`) or waited for (`blocked`)."""
        self._fetching[status,] += change

    def token_reviewed(self, code: str, seconds: float) -> None:
        """A TokenReview was answered, or lost (`<error>`)."""
        self._token_reviews[code,] += 1
        self._token_reviewing[code,].observe(seconds)

    def access_reviewed(self, code: str, seconds: float) -> None:
        """A SubjectAccessReview was answered, or lost (`<error>`)."""
        self._access_reviews[code,] += 1
        self._access_reviewing[code,].observe(seconds)

    def certificate_shown(self, good_for: float) -> None:
        """A client showed a certificate that is good for so many seconds."""
        self._certificates.observe(good_for)


def _shown(username: str) -> str:
    if username in _NAMED_USERS:
        return username
    return "email_id" if "@" in username else "other"
