"""Where a new volume can be reached from: what its driver, its class and the chosen node say."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from zlib import crc32

from stowplan.api.requests import Json
from stowplan.embedded.controllers.objects import labels_of, spec_of

ZONE: Final = "topology.kubernetes.io/zone"
Segments = dict[str, str]
"""One place, by the keys of the topology: a zone, or a zone and a rack."""


def topology_keys(driver: str, csi_node: Json | None, storage_class: Json) -> list[str]:
    """What tells places apart: the driver's own keys, else those the class speaks of, else zones."""
    for one in spec_of(csi_node or {}).get("drivers") or ():
        if one.get("name") == driver and one.get("topologyKeys"):
            return list(one["topologyKeys"])
    named = {expression["key"] for term in _terms(storage_class) for expression in term}
    return sorted(named) or [ZONE]


def place_of_node(node: Json, keys: Sequence[str]) -> Segments:
    labels = labels_of(node)
    return {key: labels[key] for key in keys if key in labels}


def is_allowed(place: Mapping[str, str], storage_class: Json) -> bool:
    """Whether a class has volumes in this place; one that does not say has them everywhere."""
    terms = _terms(storage_class)
    return not terms or any(
        all(place.get(expression["key"]) in expression.get("values", ()) for expression in term)
        for term in terms
    )


def any_place(nodes: Iterable[Json], keys: Sequence[str], storage_class: Json, seed: str) -> Segments:
    """A place for a volume that nobody waits for: evenly over the places there are, by its name."""
    found = {tuple(sorted(place_of_node(node, keys).items())) for node in nodes}
    allowed = sorted(place for place in found if place and is_allowed(dict(place), storage_class))
    return dict(allowed[crc32(seed.encode()) % len(allowed)]) if allowed else {}


def node_affinity(place: Mapping[str, str]) -> Json | None:
    """A volume's node affinity: reachable from this place only."""
    if not place:
        return None
    expressions = [{"key": key, "operator": "In", "values": [place[key]]} for key in sorted(place)]
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}


def _terms(storage_class: Json) -> list[list[Json]]:
    given = storage_class.get("allowedTopologies") or ()
    return [list(term.get("matchLabelExpressions") or ()) for term in given]
