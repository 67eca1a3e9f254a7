"""In-tree volumes as the CSI drivers that took them over see them (CSI migration).

A migrated volume counts against the limits of its CSI driver, and its zone is looked for under the driver's
topology key. Scheduling needs three things of the translation: the driver, the handle of the volume there,
and where it can be reached from.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from stowplan.api.pod import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Volume
from stowplan.api.storage import (
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)

AWS_EBS: Final = "kubernetes.io/aws-ebs"
GCE_PD: Final = "kubernetes.io/gce-pd"
AZURE_DISK: Final = "kubernetes.io/azure-disk"
CINDER: Final = "kubernetes.io/cinder"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER: Final = "__"
"""Stands between the zones of a volume that is in several."""


class TranslationError(ValueError):
    """A volume that cannot be translated for its CSI driver."""


@dataclass(frozen=True, slots=True)
class InTreeKind:
    """One kind of volume that was built in, named by the field that holds it.

    `migrated`: every node that has a CSINode uses the CSI driver for it. `inline_handle` gets the source, the
    name of the volume and the namespace of the pod; `volume_handle` the source and the persistent volume.
    """

    field: str
    plugin: str
    driver: str
    inline_handle: Callable[[Any, str, str], str]
    volume_handle: Callable[[Any, PersistentVolume], str]
    zone_key: str | None = None
    region_key: str | None = None
    migrated: bool = True


def in_tree_kind(holder: Volume | PersistentVolumeSpec) -> InTreeKind | None:
    """The kind of a volume of a pod or of a persistent volume, None if it never was built in."""
    for kind in _KINDS:
        if getattr(holder, kind.field) is not None:
            return kind
    return None


def kind_of_plugin(plugin: str) -> InTreeKind | None:
    """The kind that a storage class provisions by such a name."""
    return _BY_PLUGIN.get(plugin)


def kind_of_driver(driver: str) -> InTreeKind | None:
    """The kind that a CSI driver took over."""
    return _BY_DRIVER.get(driver)


def translated_inline(volume: Volume, namespace: str) -> CSIPersistentVolumeSource:
    """A built-in volume of a pod as its CSI driver sees it. Raises TranslationError."""
    kind = in_tree_kind(volume)
    if kind is None:
        raise TranslationError(f'could not find in-tree plugin translation logic for "{volume.name}"')
    source = getattr(volume, kind.field)
    return CSIPersistentVolumeSource(
        driver=kind.driver, volume_handle=kind.inline_handle(source, volume.name, namespace)
    )


def translated_source(volume: PersistentVolume) -> CSIPersistentVolumeSource:
    """CSI source of a persistent volume after `translated`. Raises TranslationError."""
    kind = in_tree_kind(volume.spec)
    if kind is None:
        raise TranslationError(f'could not find in-tree plugin translation logic for "{volume.name}"')
    source = getattr(volume.spec, kind.field)
    return CSIPersistentVolumeSource(driver=kind.driver, volume_handle=kind.volume_handle(source, volume))


def translated(volume: PersistentVolume) -> PersistentVolume:
    """A persistent volume as its CSI driver sees it. Raises TranslationError."""
    source = translated_source(volume)
    kind = _BY_DRIVER[source.driver]
    affinity = translated_affinity(volume, kind.zone_key, kind.region_key)
    return replace(
        volume, spec=replace(volume.spec, csi=source, node_affinity=affinity, **{kind.field: None})
    )


# Handles


def _ebs_handle(volume_id: str) -> str:
    if not volume_id.startswith("aws://"):
        return volume_id
    handle = urlsplit(volume_id).path.strip("/")
    if re.fullmatch(r"vol-[^/]*", handle) is None:
        raise TranslationError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )
    return handle


def _gce_handle(name: str, place: str = "zones/UNSPECIFIED") -> str:
    return f"projects/UNSPECIFIED/{place}/disks/{name}"


def _gce_volume_handle(name: str, volume: PersistentVolume) -> str:
    labels = volume.metadata.labels
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or "").split(ZONE_DELIMITER)
    if len(zones) > 1:
        return _gce_handle(name, f"regions/{_gce_region(zones)}")
    return _gce_handle(name, f"zones/{zones[0]}") if zones[0] else _gce_handle(name)


def _gce_region(zones: list[str]) -> str:
    regions = {zone.rpartition("-")[0] for zone in zones}
    if any(zone.count("-") != 2 for zone in zones) or len(regions) != 1:
        raise TranslationError(f"failed to get region from zones: {', '.join(zones)}")
    return regions.pop()


def _azure_disk_handle(kind: str | None, uri: str) -> str:
    if kind is not None and kind.lower() != "managed":
        raise TranslationError(f"kind({kind}) is not supported in csi migration")
    return uri


def _azure_file_handle(group: str, secret: str, share: str, name: str, namespace: str) -> str:
    account = re.search(r"azure-storage-account-(.+)-secret", secret)
    return f"{group}#{account[1] if account else secret}#{share}#{name}#{namespace}"


def _azure_file_volume_handle(source: Any, volume: PersistentVolume) -> str:
    claim = volume.spec.claim_ref
    namespace = source.secret_namespace
    if namespace is None:
        namespace = claim.namespace if claim is not None else ""
    if not namespace:
        raise TranslationError("could not find a secret namespace in PersistentVolumeSource or ClaimRef")
    group = volume.metadata.annotations.get("kubernetes.io/azure-file-resource-group", "")
    return _azure_file_handle(group, source.secret_name, source.share_name, volume.name, namespace)


_KINDS: Final = (
    InTreeKind(
        "gce_persistent_disk",
        GCE_PD,
        "pd.csi.storage.gke.io",
        lambda source, name, namespace: _gce_handle(source.pd_name),
        lambda source, volume: _gce_volume_handle(source.pd_name, volume),
        "topology.gke.io/zone",
    ),
    InTreeKind(
        "aws_elastic_block_store",
        AWS_EBS,
        "ebs.csi.aws.com",
        lambda source, name, namespace: _ebs_handle(source.volume_id),
        lambda source, volume: _ebs_handle(source.volume_id),
        "topology.ebs.csi.aws.com/zone",
    ),
    InTreeKind(
        "cinder",
        CINDER,
        "cinder.csi.openstack.org",
        lambda source, name, namespace: str(source.volume_id),
        lambda source, volume: str(source.volume_id),
        "topology.cinder.csi.openstack.org/zone",
    ),
    InTreeKind(
        "azure_disk",
        AZURE_DISK,
        "disk.csi.azure.com",
        lambda source, name, namespace: _azure_disk_handle(source.kind, source.disk_uri),
        lambda source, volume: _azure_disk_handle(source.kind, source.disk_uri),
    ),
    InTreeKind(
        "azure_file",
        "kubernetes.io/azure-file",
        "file.csi.azure.com",
        lambda source, name, namespace: _azure_file_handle(
            "", source.secret_name, source.share_name, name, namespace or "default"
        ),
        _azure_file_volume_handle,
        migrated=False,
    ),
    InTreeKind(
        "vsphere_volume",
        "kubernetes.io/vsphere-volume",
        "csi.vsphere.vmware.com",
        lambda source, name, namespace: str(source.volume_path),
        lambda source, volume: str(source.volume_path),
        "topology.csi.vmware.com/zone",
        "topology.csi.vmware.com/region",
        migrated=False,
    ),
    InTreeKind(
        "portworx_volume",
        "kubernetes.io/portworx-volume",
        "pxd.portworx.com",
        lambda source, name, namespace: str(source.volume_id),
        lambda source, volume: str(source.volume_id),
    ),
)
_BY_PLUGIN: Final = {kind.plugin: kind for kind in _KINDS}
_BY_DRIVER: Final = {kind.driver: kind for kind in _KINDS}


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
    terms = _move_key(terms, zone, zone_key, labels, single=region_key is not None)
    if region_key is not None:
        terms = _move_key(terms, region, region_key, labels, single=True)
    elif region == BETA_REGION:
        terms = _rename_key(terms, BETA_REGION, REGION)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms)) if terms else affinity


def _keys_in_use(terms: tuple[NodeSelectorTerm, ...], labels: dict[str, str]) -> tuple[str, str]:
    """The keys of zone and region that a volume is described with: the current ones, or the beta ones."""
    named = {requirement.key for term in terms for requirement in term.match_expressions}
    for found in (named, labels):
        if ZONE in found:
            return ZONE, REGION
        if BETA_ZONE in found:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _move_key(
    terms: tuple[NodeSelectorTerm, ...], old: str, new: str, labels: dict[str, str], *, single: bool
) -> tuple[NodeSelectorTerm, ...]:
    """Requirements on one key made requirements on another; without any, a label becomes one."""
    if any(r.key == old and r.values for term in terms for r in term.match_expressions):
        return _rename_key(terms, old, new)
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


def _rename_key(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
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
