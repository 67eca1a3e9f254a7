"""A stowplan that runs, asked through the API of the cluster's own API server (`/stowplan/v1`)."""

from collections.abc import Sequence
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from stowplan.api.status import ApiError
from stowplan.client.http import HttpClient
from stowplan.explain.document.cluster import Overview
from stowplan.explain.document.group import GroupDocument
from stowplan.explain.document.pending import PendingDocument
from stowplan.explain.document.pod import PodDocument

PREFIX: Final = "/stowplan/v1"

_Document = TypeVar("_Document")


class RunningScheduler:
    """The scheduler of a cluster, as it explains itself."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    @classmethod
    async def find(cls, client: HttpClient) -> "RunningScheduler | None":
        """The stowplan that schedules the cluster; None if none does, or it does not answer us."""
        running = cls(client)
        overview = await running.ask("", Overview)
        if overview is None or overview.api_version != "stowplan/v1":
            return None
        return running if overview.scheduler.leader else None

    async def ask(self, path: str, document: type[_Document]) -> _Document | None:
        """The document of a path below the prefix; None if there is none for us.

        That of a scheduler whose documents have another form is none either: then lists are read instead.
        """
        try:
            return msgspec.convert(await self._client.get_path(PREFIX + path), document)
        except (ApiError, msgspec.ValidationError):
            return None

    async def pod(self, namespace: str, name: str) -> PodDocument | None:
        return await self.ask(f"/pods/{quote(namespace, safe='')}/{quote(name, safe='')}", PodDocument)

    async def pods(self, keys: Sequence[str]) -> list[PodDocument | None]:
        """Explanations of pods, None for those that it does not explain to us."""
        return [
            await self.pod(namespace, name) for namespace, _, name in (key.partition("/") for key in keys)
        ]

    async def group(self, kind: str, namespace: str, name: str) -> GroupDocument | None:
        """The explanation of a group of pods, `kind` as objects say it; None if there is none."""
        path = f"/{kind.lower()}s/{quote(namespace, safe='')}/{quote(name, safe='')}"
        return await self.ask(path, GroupDocument)

    async def pending(self) -> PendingDocument | None:
        return await self.ask("/pending", PendingDocument)
