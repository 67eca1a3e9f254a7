"""The order in which nodes are visited: zone by zone in turn, so that neighbours in it are far apart."""

from collections.abc import Iterable

from stowplan.api.node import Node
from stowplan.gocompat.quoting import quote

_ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
_REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")


class NodeTreeError(LookupError):
    """A node that is not where it should be."""


def zone_key(node: Node) -> str:
    """One text per region and zone, empty for a node in neither. The beta labels take precedence."""
    zone, region = _label(node, _ZONE_LABELS), _label(node, _REGION_LABELS)
    return f"{region}:\0:{zone}" if region or zone else ""


class NodeTree:
    """Node names by zone: zones in the order in which they first got a node, nodes in order of arrival."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        # Nodes of a zone are keys without a value: a set that keeps their order.
        self._zones: dict[str, dict[str, None]] = {}
        for node in nodes:
            self.add(node)

    def __len__(self) -> int:
        return sum(map(len, self._zones.values()))

    def add(self, node: Node) -> None:
        """Add a node; one that is in its zone already stays where it is."""
        self._zones.setdefault(zone_key(node), {}).setdefault(node.name)

    def remove(self, node: Node) -> None:
        """Remove a node, and its zone with the last one. Raises `NodeTreeError` if it is not there."""
        zone = zone_key(node)
        names = self._zones.get(zone, {})
        if node.name not in names:
            raise NodeTreeError(f"node {quote(node.name)} in group {quote(zone)} was not found")
        del names[node.name]
        if not names:
            del self._zones[zone]

    def update(self, old: Node, new: Node) -> None:
        """Move a node whose zone changed; it goes to the end of its new zone."""
        old_zone = zone_key(old)
        if old_zone == zone_key(new):
            return
        if old.name in self._zones.get(old_zone, {}):
            self.remove(old)
        self.add(new)

    def names(self) -> list[str]:
        """All nodes: the first of each zone, then the second of each, and so on."""
        ordered: list[str] = []
        rows = [iter(names) for names in self._zones.values()]
        while rows:
            remaining = []
            for row in rows:
                name = next(row, None)
                if name is not None:
                    ordered.append(name)
                    remaining.append(row)
            rows = remaining
        return ordered


def _label(node: Node, keys: tuple[str, ...]) -> str:
    """The value of the first of these labels that is there, even if it is empty."""
    labels = node.metadata.labels
    return next((labels[key] for key in keys if key in labels), "")
