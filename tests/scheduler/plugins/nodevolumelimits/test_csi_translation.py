"""Volumes of built-in kinds in the words of their CSI drivers."""

from typing import Any

import pytest

from scheduler.plugins.volume_objects import volume
from stowplan.api.pod import (
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    GCEPersistentDisk,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PortworxVolume,
    Volume,
    VsphereVirtualDisk,
)
from stowplan.api.rules.csitranslation import (
    TranslationError,
    in_tree_kind,
    kind_of_driver,
    kind_of_plugin,
    translated,
    translated_inline,
)
from stowplan.api.storage import ObjectReference, PersistentVolume, VolumeNodeAffinity

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
EBS = {"aws_elastic_block_store": AWSElasticBlockStore(volume_id="vol-1")}
VSPHERE = {"vsphere_volume": VsphereVirtualDisk(volume_path="[ds] d.vmdk")}


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        (EBS, "ebs.csi.aws.com", "vol-1"),
        (
            {"aws_elastic_block_store": AWSElasticBlockStore(volume_id="aws://us-east-1a/vol-2")},
            "ebs.csi.aws.com",
            "vol-2",
        ),
        (
            {"gce_persistent_disk": GCEPersistentDisk(pd_name="d")},
            "pd.csi.storage.gke.io",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        ),
        ({"cinder": Cinder(volume_id="c")}, "cinder.csi.openstack.org", "c"),
        ({"azure_disk": AzureDisk(disk_name="d", disk_uri="/d", kind="managed")}, "disk.csi.azure.com", "/d"),
        (
            {"azure_file": AzureFile(secret_name="azure-storage-account-acc-secret", share_name="s")},
            "file.csi.azure.com",
            "#acc#s#x#ns",
        ),
        (VSPHERE, "csi.vsphere.vmware.com", "[ds] d.vmdk"),
        ({"portworx_volume": PortworxVolume(volume_id="p")}, "pxd.portworx.com", "p"),
    ],
)
def test_each_kind_has_a_driver_and_a_handle(source: dict[str, Any], driver: str, handle: str) -> None:
    inline = translated_inline(Volume(name="x", **source), "ns")
    assert (inline.driver, inline.volume_handle) == (driver, handle)
    claimed = volume("x", claim_ref=ObjectReference(namespace="ns", name="c"), **source)
    moved = translated(claimed).spec
    assert moved.csi == inline
    assert in_tree_kind(moved) is None
    kind = in_tree_kind(claimed.spec)
    assert kind is not None
    assert kind_of_driver(driver) is kind is kind_of_plugin(kind.plugin)


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({ZONE: "us-east1-b"}, "zones/us-east1-b"),
        ({OLD_ZONE: "us-east1-c", ZONE: "us-east1-b"}, "zones/us-east1-c"),
        ({ZONE: "us-east1-b__us-east1-c"}, "regions/us-east1"),
    ],
)
def test_a_disk_of_gce_is_told_with_its_zone_or_region(labels: dict[str, str], place: str) -> None:
    moved = translated(volume("x", labels, gce_persistent_disk=GCEPersistentDisk(pd_name="d")))
    assert moved.spec.csi is not None
    assert moved.spec.csi.volume_handle == f"projects/UNSPECIFIED/{place}/disks/d"


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (volume("x", {ZONE: "a-b-c__d-e-f"}, gce_persistent_disk=GCEPersistentDisk(pd_name="d")), "region"),
        (volume("x", {ZONE: "a__b"}, gce_persistent_disk=GCEPersistentDisk(pd_name="d")), "region"),
        (
            volume("x", aws_elastic_block_store=AWSElasticBlockStore(volume_id="aws://z/disk")),
            "Invalid format",
        ),
        (volume("x", azure_disk=AzureDisk(disk_name="d", kind="Shared")), r"kind\(Shared\) is not supported"),
        (volume("x", azure_file=AzureFile(share_name="s")), "secret namespace"),
        (volume("x"), "could not find"),
    ],
)
def test_what_cannot_be_translated_is_refused(made: PersistentVolume, text: str) -> None:
    with pytest.raises(TranslationError, match=text):
        translated(made)


def requirement(key: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator="In", values=values)


def reached_from(*terms: tuple[NodeSelectorRequirement, ...]) -> VolumeNodeAffinity:
    made = tuple(NodeSelectorTerm(match_expressions=term) for term in terms)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=made))


EBS_ZONE = "topology.ebs.csi.aws.com/zone"


@pytest.mark.parametrize(
    ("labels", "before", "after"),
    [
        ({}, None, None),
        ({ZONE: "z2__z1"}, None, reached_from((requirement(EBS_ZONE, "z1", "z2"),))),
        ({OLD_ZONE: "z1"}, None, reached_from((requirement(EBS_ZONE, "z1"),))),
        (
            {ZONE: "other"},
            reached_from((requirement(ZONE, "z1"), requirement("disk", "ssd"))),
            reached_from((requirement(EBS_ZONE, "z1"), requirement("disk", "ssd"))),
        ),
        (
            {ZONE: "z1"},
            reached_from((requirement("disk", "ssd"),), (requirement("disk", "hdd"),)),
            reached_from(
                (requirement("disk", "ssd"), requirement(EBS_ZONE, "z1")),
                (requirement("disk", "hdd"), requirement(EBS_ZONE, "z1")),
            ),
        ),
        (
            {},
            reached_from((requirement(OLD_ZONE, "z1"), requirement(OLD_REGION, "r1"))),
            reached_from((requirement(EBS_ZONE, "z1"), requirement(REGION, "r1"))),
        ),
        (
            {},
            reached_from((requirement(ZONE, "z1"), requirement(REGION, "r1"))),
            reached_from((requirement(EBS_ZONE, "z1"), requirement(REGION, "r1"))),
        ),
    ],
)
def test_zones_are_looked_for_under_the_key_of_the_driver(
    labels: dict[str, str], before: VolumeNodeAffinity | None, after: VolumeNodeAffinity | None
) -> None:
    assert translated(volume("x", labels, node_affinity=before, **EBS)).spec.node_affinity == after


def test_vsphere_has_keys_for_zones_and_regions() -> None:
    moved = translated(volume("x", {ZONE: "z1__z2", REGION: "r1"}, **VSPHERE)).spec.node_affinity
    own = "topology.csi.vmware.com"
    assert moved == reached_from((requirement(f"{own}/zone", "z1__z2"), requirement(f"{own}/region", "r1")))


def test_azure_disks_keep_their_affinity() -> None:
    affinity = reached_from((requirement(ZONE, "z1"),))
    made = volume("x", {ZONE: "z2"}, node_affinity=affinity, azure_disk=AzureDisk(disk_uri="/d"))
    assert translated(made).spec.node_affinity == affinity
