"""A stowplan that runs, asked through the API of the cluster's own API server (`/stowplan/v1`)."""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from stowplan.api.status import ApiError
from stowplan.client.http import HttpClient

PREFIX: Final = "/stowplan/v1"

Document = dict[str, Any]


class RunningScheduler:
    """The scheduler of a cluster, as it explains itself."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    @classmethod
    async def find(cls, client: HttpClient) -> "RunningScheduler | None":
        """The stowplan that schedules the cluster; None if none does, or it does not answer us."""
        running = cls(client)
        overview = await running.ask("")
        if overview is None or overview.get("apiVersion") != "stowplan/v1":
            return None
        return running if overview.get("scheduler", {}).get("leader") else None

    async def ask(self, path: str) -> Document | None:
        """The document of a path below the prefix; None if there is none for us."""
        try:
            return await self._client.get_path(PREFIX + path)
        except ApiError:
            return None

    async def pod(self, namespace: str, name: str) -> Document | None:
        return await self.ask(f"/pods/{quote(namespace, safe='')}/{quote(name, safe='')}")

    async def pods(self, keys: Sequence[str]) -> list[Document] | None:
        """Explanations of pods; None if there is not one for each of them."""
        found = []
        for key in keys:
            namespace, _, name = key.partition("/")
            document = await self.pod(namespace, name)
            if document is None:
                return None
            found.append(document)
        return found

    async def group(self, kind: str, namespace: str, name: str) -> Document | None:
        """The explanation of a group of pods, `kind` as objects say it; None if there is none."""
        return await self.ask(f"/{kind.lower()}s/{quote(namespace, safe='')}/{quote(name, safe='')}")

    async def pending(self) -> Document | None:
        document = await self.ask("/pending")
        return None if document is None else {**document, "source": "the running scheduler"}
