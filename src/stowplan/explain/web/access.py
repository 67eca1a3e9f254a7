"""Rights of a viewer: pods of namespaces whose pods they may read, and nodes if they may list nodes."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from stowplan.api.catalogue import Resource
from stowplan.api.status import ApiError

MayRead = Callable[[str, str], Awaitable[bool]]
"""True if a user may read objects of a resource in a namespace, "" for the whole cluster.

Resources are named by their plural, with their group: `pods`, `deployments.apps`.
"""


class Viewer:
    """Somebody who looks. Each question about their rights is asked once, until `ask_again`.

    Without `objects` they read what is said about objects, not the objects themselves.
    """

    def __init__(self, may_read: MayRead, *, objects: bool = True) -> None:
        self._may_read = may_read
        self._objects = objects
        self._known: dict[tuple[str, str], bool] = {}

    def ask_again(self) -> None:
        """Forget what was answered: rights that are taken away end what is being shown, too."""
        self._known.clear()

    async def may_see(self, namespace: str) -> bool:
        """True if pods of a namespace may be shown."""
        return await self._may("pods", "") or await self._may("pods", namespace)

    async def may_see_all_pods(self) -> bool:
        """True if nothing has to be searched for names of pods that are hidden from this viewer."""
        return await self._may("pods", "")

    async def may_see_nodes(self) -> bool:
        return await self._may("nodes", "")

    async def visible(self, namespaces: Iterable[str]) -> frozenset[str]:
        """Those of the namespaces whose pods may be shown."""
        return frozenset([namespace for namespace in set(namespaces) if await self.may_see(namespace)])

    async def hidden(self, namespaces: Iterable[str]) -> frozenset[str]:
        """Those of the namespaces whose pods must not be shown."""
        if await self._may("pods", ""):
            return frozenset()
        some = set(namespaces)
        return frozenset(some - await self.visible(some))

    async def require_nodes(self) -> None:
        """Raises ApiError 403."""
        if not await self.may_see_nodes():
            raise ApiError(403, "Forbidden", "nodes is forbidden: reading nodes is not allowed")

    def require_objects(self) -> None:
        """Raises ApiError 403."""
        if not self._objects:
            raise ApiError(403, "Forbidden", "objects are not shared: their YAML may contain passwords")

    async def require_pod(self, namespace: str, name: str) -> None:
        """Raises ApiError 403, whether the pod exists or not."""
        if not await self.may_see(namespace):
            text = f'pods "{name}" is forbidden: reading pods in the namespace "{namespace}" is not allowed'
            raise ApiError(403, "Forbidden", text)

    async def may_list(self, resource: Resource, namespace: str) -> bool:
        """True if objects of a resource may be read in a namespace."""
        return await self._may(resource.qualified, "") or (
            bool(namespace) and await self._may(resource.qualified, namespace)
        )

    async def _may(self, plural: str, namespace: str) -> bool:
        key = (plural, namespace)
        if key not in self._known:
            self._known[key] = await self._may_read(plural, namespace)
        return self._known[key]


async def _yes(plural: str, namespace: str) -> bool:
    return True


EVERYTHING: Final = Viewer(_yes)
"""A viewer who may see all there is."""
