"""What somebody may see: some groups and paths always, the rest if the API server agrees."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from stowplan.api.requests import Json
from stowplan.client import Writer
from stowplan.clock import Clock
from stowplan.logs import Journal
from stowplan.serving.errors import ServingError
from stowplan.serving.observer import UNOBSERVED, AccessObserver
from stowplan.serving.remembered import Remembered
from stowplan.serving.reviews import ACCESS_REVIEWS, Reviewer
from stowplan.serving.settings import AuthorizationSettings
from stowplan.serving.users import User

_CAPACITY: Final = 8192


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether somebody may, and why not if there is something to say about it."""

    allowed: bool
    reason: str = ""


class AllowedPaths:
    """Paths that everybody may see; with a `*` at the end, all that begin like it."""

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
    """Decides about requests; without a writer nobody gets past what is always allowed."""

    def __init__(
        self,
        settings: AuthorizationSettings,
        writer: Writer | None,
        *,
        clock: Clock,
        rng: random.Random,
        journal: Journal,
        observer: AccessObserver = UNOBSERVED,
    ) -> None:
        self._settings = settings
        self._groups = frozenset(settings.always_allow_groups)
        self._paths = AllowedPaths(settings.always_allow_paths)
        self._reviewer = None if writer is None else Reviewer(writer, rng, clock, observer.access_reviewed)
        self._known: Remembered[Verdict] = Remembered(clock, _CAPACITY)
        if writer is None:
            journal.warning(
                "No authorization-kubeconfig provided,"
                " so SubjectAccessReview of authorization tokens won't work."
            )

    def always_allows(self, path: str) -> bool:
        return path in self._paths

    async def verdict(self, user: User, verb: str, path: str) -> Verdict:
        """Raises `ReviewError` if the API server does not say."""
        if not self._groups.isdisjoint(user.groups) or path in self._paths:
            return Verdict(True)
        if self._reviewer is None:
            return Verdict(False)
        spec = _spec(user, verb, path)
        reviewer = self._reviewer
        return await self._known.get(
            msgspec.json.encode(spec), lambda: _review(reviewer, spec), self._seconds_to_keep
        )

    def forget(self) -> None:
        self._known.forget()

    def _seconds_to_keep(self, verdict: Verdict) -> float:
        return self._settings.allowed_cache_ttl if verdict.allowed else self._settings.denied_cache_ttl


async def _review(reviewer: Reviewer, spec: Json) -> Verdict:
    status = await reviewer.ask(ACCESS_REVIEWS, spec, {"allowed": False})
    allowed = status.get("allowed") is True and not status.get("denied")
    return Verdict(allowed, str(status.get("reason") or ""))


def _spec(user: User, verb: str, path: str) -> Json:
    spec: Json = {"nonResourceAttributes": {"path": path, "verb": verb}, "user": user.name}
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {key: list(values) for key, values in sorted(user.extra.items())}
    if user.uid:
        spec["uid"] = user.uid
    return spec
