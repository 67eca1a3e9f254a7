"""Authorization: some groups and paths are always allowed, the rest is delegated to SubjectAccessReviews."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from stowplan.api.requests import Json
from stowplan.client import Writer
from stowplan.runtime.clock import Clock
from stowplan.runtime.logs import Logger
from stowplan.server.serving.clientcertificates import CertificateUser
from stowplan.server.serving.reviews import (
    SUBJECT_ACCESS_REVIEWS,
    UNOBSERVED,
    AccessObserver,
    ReviewCache,
    ReviewClient,
)
from stowplan.server.serving.settings import AuthorizationSettings, ServingError

_CACHE_SIZE: Final = 8192


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Result of an access review, with the API server's reason."""

    allowed: bool
    reason: str = ""


class AllowedPaths:
    """Paths that need no authorization; one that ends in `*` is a prefix."""

    def __init__(self, paths: Sequence[str]) -> None:
        bare = [path.removeprefix("/") for path in paths]
        for path in bare:
            if "*" in path[:-1]:
                raise ServingError(f'only trailing * allowed in "{path}"')
        self._exact = frozenset(path for path in bare if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in bare if path.endswith("*"))

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._exact or bare.startswith(self._prefixes)


class Authorizer:
    """Authorizes requests. Without a writer only what is always allowed is."""

    def __init__(
        self,
        settings: AuthorizationSettings,
        writer: Writer | None,
        *,
        clock: Clock,
        rng: random.Random,
        logger: Logger,
        observer: AccessObserver = UNOBSERVED,
    ) -> None:
        self._settings = settings
        self._groups = frozenset(settings.always_allow_groups)
        self._paths = AllowedPaths(settings.always_allow_paths)
        self._client = None if writer is None else ReviewClient(writer, rng, clock, observer.access_reviewed)
        self._cache: ReviewCache[AccessDecision] = ReviewCache(clock, _CACHE_SIZE)
        if writer is None:
            logger.warning(
                "No authorization-kubeconfig provided,"
                " so SubjectAccessReview of authorization tokens won't work."
            )

    def always_allows(self, path: str) -> bool:
        return path in self._paths

    async def authorize(self, user: CertificateUser, verb: str, path: str) -> AccessDecision:
        """Raises `ReviewError` if the API server gives no usable answer."""
        if not self._groups.isdisjoint(user.groups) or path in self._paths:
            return AccessDecision(True)
        if self._client is None:
            return AccessDecision(False)
        spec = _spec(user, verb, path)
        client = self._client
        return await self._cache.get(msgspec.json.encode(spec), lambda: _review(client, spec), self._ttl)

    async def may_read(self, user: CertificateUser, resource: str, namespace: str) -> bool:
        """True if a user may get objects of a resource (`deployments.apps`). Raises `ReviewError`."""
        if not self._groups.isdisjoint(user.groups):
            return True
        if self._client is None:
            return False
        plural, _, group = resource.partition(".")
        wanted = {
            "verb": "get",
            **({"group": group} if group else {}),
            "resource": plural,
            **({"namespace": namespace} if namespace else {}),
        }
        spec = _subject(user, {"resourceAttributes": wanted})
        client = self._client
        decision = await self._cache.get(msgspec.json.encode(spec), lambda: _review(client, spec), self._ttl)
        return decision.allowed

    def clear(self) -> None:
        self._cache.clear()

    def _ttl(self, decision: AccessDecision) -> float:
        return self._settings.allowed_cache_ttl if decision.allowed else self._settings.denied_cache_ttl


async def _review(client: ReviewClient, spec: Json) -> AccessDecision:
    status = await client.create(SUBJECT_ACCESS_REVIEWS, spec, {"allowed": False})
    allowed = status.get("allowed") is True and not status.get("denied")
    return AccessDecision(allowed, str(status.get("reason") or ""))


def _spec(user: CertificateUser, verb: str, path: str) -> Json:
    return _subject(user, {"nonResourceAttributes": {"path": path, "verb": verb}})


def _subject(user: CertificateUser, attributes: Json) -> Json:
    spec: Json = {**attributes, "user": user.name}
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in sorted(user.extra.items())}
    if user.uid:
        spec["uid"] = user.uid
    return spec
