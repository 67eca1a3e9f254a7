"""Where a migrated volume can be reached from, in the words of its CSI driver."""

from typing import Final

from msgspec.structs import replace

from stowplan.api.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from stowplan.api.storage import PersistentVolume, VolumeNodeAffinity

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER: Final = "__"
"""Stands between the zones of a volume that is in several."""


def translated_affinity(
    volume: PersistentVolume, zone_key: str | None, region_key: str | None
) -> VolumeNodeAffinity | None:
    """Zones (and regions) under a driver's own keys, taken from the affinity or else from the labels.

    A driver without a key for zones leaves everything as it is. One with a key for regions too takes each
    label as a single value; the others know of volumes in several zones.
    """
    affinity = volume.spec.node_affinity
    if zone_key is None:
        return affinity
    terms = affinity.required.node_selector_terms if affinity is not None and affinity.required else ()
    labels = volume.metadata.labels
    zone, region = _keys_in_use(terms, labels)
    terms = _moved(terms, zone, zone_key, labels, single=region_key is not None)
    if region_key is not None:
        terms = _moved(terms, region, region_key, labels, single=True)
    elif region == BETA_REGION:
        terms = _renamed(terms, BETA_REGION, REGION)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms)) if terms else affinity


def _keys_in_use(terms: tuple[NodeSelectorTerm, ...], labels: dict[str, str]) -> tuple[str, str]:
    """The keys of zone and region that a volume is described with: of today, or from before."""
    named = {requirement.key for term in terms for requirement in term.match_expressions}
    for found in (named, labels):
        if ZONE in found:
            return ZONE, REGION
        if BETA_ZONE in found:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _moved(
    terms: tuple[NodeSelectorTerm, ...], old: str, new: str, labels: dict[str, str], *, single: bool
) -> tuple[NodeSelectorTerm, ...]:
    """Requirements on one key made requirements on another; without any, a label becomes one."""
    if any(r.key == old and r.values for term in terms for r in term.match_expressions):
        return _renamed(terms, old, new)
    label = labels.get(old, "")
    zones = [label] if single else label.split(ZONE_DELIMITER)
    values = tuple(sorted({zone.strip() for zone in zones} - {""}))
    if not values:
        return terms
    added = NodeSelectorRequirement(key=new, operator="In", values=values)
    return tuple(
        replace(term, match_expressions=(*term.match_expressions, added))
        for term in terms or (NodeSelectorTerm(),)
    )


def _renamed(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        replace(
            term,
            match_expressions=tuple(
                replace(requirement, key=new) if requirement.key == old else requirement
                for requirement in term.match_expressions
            ),
        )
        for term in terms
    )
