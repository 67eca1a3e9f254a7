"""Who asks: a proxy speaks for them, they show a certificate, they have a token, or they say nothing."""

import ssl

from aiohttp import web

from stowplan.clock import Clock
from stowplan.serving.clientcertificates import presented_chain, user_of
from stowplan.serving.observer import UNOBSERVED, AccessObserver
from stowplan.serving.tokens import TokenReviews, bearer_token
from stowplan.serving.trust import Trust
from stowplan.serving.users import NOBODY, CredentialsError, User


class Authenticator:
    """Tries one way after the other. Credentials that prove nothing are held against a request only if no
    other way tells who asks; then they are, even for pages that everybody may see.
    """

    def __init__(
        self,
        trust: Trust,
        tokens: TokenReviews | None,
        clock: Clock,
        observer: AccessObserver = UNOBSERVED,
    ) -> None:
        self._observer = observer
        self._trust = trust
        self._tokens = tokens
        self._clock = clock

    async def user(self, request: web.BaseRequest) -> User:
        """Raises `CredentialsError`."""
        user, problems = self._by_certificate(request)
        token = bearer_token(request.headers) if user is None else ""
        if token and self._tokens is not None:
            try:
                user = await self._tokens.owner(token)
            except CredentialsError as error:
                problems.append(str(error))
        if user is not None:
            return user.authenticated()
        if problems:
            raise CredentialsError("; ".join(problems))
        return NOBODY

    def _by_certificate(self, request: web.BaseRequest) -> tuple[User | None, list[str]]:
        clients, front_proxy, now = self._trust.clients, self._trust.front_proxy, self._clock.now()
        connection: ssl.SSLObject | None = request.get_extra_info("ssl_object")
        problems: list[str] = []
        try:
            chain = presented_chain(connection)
        except ValueError as error:
            return None, [f"unreadable client certificate: {error}"]
        if not chain:
            return None, problems
        if front_proxy is not None:
            try:
                user = front_proxy.user(chain, request.headers, now)
            except CredentialsError as error:
                problems.append(str(error))
            else:
                if user is not None:
                    return user, problems
        if clients is not None:
            try:
                clients.verify(chain, now)
                self._observer.certificate_shown(chain[0].not_valid_after_utc.timestamp() - now)
                return user_of(chain[0]), problems
            except CredentialsError as error:
                problems.append(str(error))
        return None, problems
