"""A server's API documents match its release: discovery, OpenAPI documents, `kubectl explain`."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from localcluster.apiserver.served import Served, serving
from releases import EACH, V1_36, V1_37
from stowplan.api.catalogue import BUILT_IN, Resource
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release, Version
from stowplan.localcluster.admission import devicefeatures
from stowplan.localcluster.schema import Form, TypeDef, schema_of, the_schema
from waiting import PATIENCE

RESOURCE_VERSIONS = ("v1", "v1beta2", "v1beta1")
NEW_KINDS = {
    "compositepodgroups.v1alpha3.scheduling.k8s.io",
    "devicetaintrules.v1.resource.k8s.io",
    "podgroups.v1alpha3.scheduling.k8s.io",
    "podgroups.v1beta1.scheduling.k8s.io",
    "storageversionmigrations.v1.storagemigration.k8s.io",
    "workloads.v1alpha3.scheduling.k8s.io",
    "workloads.v1beta1.scheduling.k8s.io",
}
"""Kinds that Kubernetes 1.37 serves and 1.36 does not know."""
NEW_FIELDS = {
    "batch.v1.JobSpec.scheduling",
    "core.v1.NodeAllocatableResourceClaimStatus.mapping",
    "core.v1.NodeAllocatableResourceClaimStatus.overhead",
    *(
        f"resource.{version}.{field}"
        for version in RESOURCE_VERSIONS
        for field in (
            "DeviceCounterConsumption.compatibilityGroups",
            "DeviceRequestAllocationResult.skipNodeOperations",
            "DeviceSubRequest.derivedAttributes",
            "ResourceSliceSpec.partitionTypeAttribute",
            "ResourceSliceSpec.skipNodeOperations",
        )
    ),
    "resource.v1.Device.nodeAllocatableResources",
    "resource.v1beta2.Device.nodeAllocatableResources",
    "resource.v1beta1.BasicDevice.nodeAllocatableResources",
    "resource.v1.ExactDeviceRequest.derivedAttributes",
    "resource.v1beta2.ExactDeviceRequest.derivedAttributes",
    "resource.v1beta1.DeviceRequest.derivedAttributes",
}
"""Fields that 1.37 added to types which 1.36 has, too."""
OLD_FIELDS = {
    "core.v1.NodeAllocatableResourceClaimStatus.resources",
    "resource.v1.Device.nodeAllocatableResourceMappings",
    "resource.v1beta2.Device.nodeAllocatableResourceMappings",
    "resource.v1beta1.BasicDevice.nodeAllocatableResourceMappings",
}
"""Fields that it took away."""


class Published(NamedTuple):
    """A server of a release, and kubectl for it."""

    release: Release
    api: Served
    environment: dict[str, str]

    def kubectl(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["kubectl", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )


def _published(release: Release, home: Path) -> Iterator[Published]:
    config = home / "kubeconfig"
    with serving(plain=False, gates=FeatureGates(release=release)) as api:
        config.write_text(api.server.kubeconfig())
        yield Published(release, api, {**os.environ, "KUBECONFIG": str(config), "HOME": str(home)})


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    yield from _published(V1_36, tmp_path_factory.mktemp("older"))


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    yield from _published(V1_37, tmp_path_factory.mktemp("newer"))


def in_discovery(api: Served) -> set[str]:
    """All resources that discovery lists, which has to be the same in both of its forms."""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    aggregated = set()
    for root in ("/api", "/apis"):
        for group in api.ask("GET", root, Accept=accept).body["items"]:
            name = group["metadata"].get("name", "")
            for version in group["versions"]:
                listed = (entry["resource"] for entry in version["resources"])
                aggregated |= {f"{plural}.{version['version']}.{name}" for plural in listed}
    paths = [
        ("", "v1", "/api/v1"),
        *(
            (group["name"], version["version"], f"/apis/{version['groupVersion']}")
            for group in api.ask("GET", "/apis").body["groups"]
            for version in group["versions"]
        ),
    ]
    single = {
        f"{entry['name']}.{version}.{group}"
        for group, version, path in paths
        for entry in api.ask("GET", path).body["resources"]
        if "/" not in entry["name"]
    }
    assert single == aggregated
    return single


def in_documents(api: Served) -> set[str]:
    """All fields of all types in the documents, which must be the same in both versions of OpenAPI."""
    second = _fields(api.ask("GET", "/openapi/v2").body["definitions"])
    third: set[str] = set()
    for entry in api.ask("GET", "/openapi/v3").body["paths"].values():
        third |= _fields(api.ask("GET", entry["serverRelativeURL"]).body["components"]["schemas"])
    assert second == third
    return second


def _fields(schemas: dict[str, Any]) -> set[str]:
    return {
        f"{name.removeprefix('io.k8s.api.')}.{field}"
        for name, schema in schemas.items()
        for field in schema.get("properties", ())
    }


def test_discovery_has_the_kinds_of_the_release(older: Published, newer: Published) -> None:
    before, after = in_discovery(older.api), in_discovery(newer.api)
    assert (after - before, before - after) == (NEW_KINDS, set())


def test_the_documents_have_the_fields_of_the_release(older: Published, newer: Published) -> None:
    before, after = in_documents(older.api), in_documents(newer.api)
    types = {name.rpartition(".")[0] for name in before} & {name.rpartition(".")[0] for name in after}
    changed = {name for name in before ^ after if name.rpartition(".")[0] in types}
    assert changed & after == NEW_FIELDS
    assert changed & before == OLD_FIELDS


def test_a_type_is_published_where_a_field_has_it(older: Published, newer: Published) -> None:
    path = "/openapi/v3/apis/resource.k8s.io/v1"
    before, after = (one.api.ask("GET", path).body["components"]["schemas"] for one in (older, newer))
    names = {name.removeprefix("io.k8s.api.resource.v1.") for name in after.keys() ^ before.keys()}
    assert names == {
        "DeviceDerivedAttribute",
        "DeviceTaintRule",
        "DeviceTaintRuleSpec",
        "DeviceTaintRuleStatus",
        "DeviceTaintSelector",
        "NodeAllocatableMapping",
        "NodeAllocatableOverhead",
        "NodeAllocatableResource",
        "NodeAllocatableResourceMapping",
    }


@pytest.mark.parametrize("dotted", sorted(NEW_KINDS))
def test_nothing_is_found_where_a_kind_of_another_release_would_be(
    older: Published, newer: Published, dotted: str
) -> None:
    resource = next(one for one in BUILT_IN if one.dotted == dotted)
    path = f"{resource.prefix}/{resource.plural}"
    assert (older.api.ask("GET", path).code, newer.api.ask("GET", path).code) == (404, 200)
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    assert str(kind) not in str(older.api.ask("GET", "/openapi/v2").body)


def test_rules_of_taints_are_written_in_the_versions_that_1_36_has(older: Published) -> None:
    taint = {"key": "a.example/b", "effect": "NoSchedule"}
    body = {
        "apiVersion": "resource.k8s.io/v1beta2",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "r"},
        "spec": {"deviceSelector": {"driver": "d.example"}, "taint": taint},
    }
    created = older.api.ask("POST", "/apis/resource.k8s.io/v1beta2/devicetaintrules", body)
    assert (created.code, created.body["apiVersion"]) == (201, "resource.k8s.io/v1beta2")
    shown = older.api.ask("GET", "/apis/resource.k8s.io/v1alpha3/devicetaintrules/r").body
    assert (shown["apiVersion"], shown["spec"]["taint"]["key"]) == ("resource.k8s.io/v1alpha3", "a.example/b")


# kubectl


@pytest.mark.parametrize(
    ("what", "field", "release"),
    [
        ("resourceslice.spec.devices", "nodeAllocatableResources", V1_37),
        ("resourceslice.spec.devices", "nodeAllocatableResourceMappings", V1_36),
        ("resourceslice.spec.devices.consumesCounters", "compatibilityGroups", V1_37),
        ("resourceslice.spec", "partitionTypeAttribute", V1_37),
        ("resourceclaim.spec.devices.requests.exactly", "derivedAttributes", V1_37),
        ("resourceclaim.status.allocation.devices.results", "skipNodeOperations", V1_37),
        ("job.spec", "scheduling", V1_37),
    ],
)
def test_explain_shows_the_fields_of_the_release(
    older: Published, newer: Published, what: str, field: str, release: Release
) -> None:
    for published in (older, newer):
        of_type = published.kubectl("explain", what)
        assert of_type.returncode == 0, of_type.stderr
        shown = [line.split("\t")[0].strip() for line in of_type.stdout.splitlines() if "\t" in line]
        of_field = published.kubectl("explain", f"{what}.{field}")
        if published.release is release:
            assert field in shown
            assert of_field.returncode == 0, of_field.stderr
        else:
            assert field not in shown
            assert f'field "{field}" does not exist' in of_field.stderr


def test_explain_and_api_resources_know_the_kinds_of_the_release(older: Published, newer: Published) -> None:
    for kind in ("podgroups", "workloads", "compositepodgroups", "storageversionmigrations"):
        assert newer.kubectl("explain", kind).returncode == 0
        refused = older.kubectl("explain", kind)
        assert f'the server doesn\'t have a resource type "{kind}"' in refused.stderr
        assert kind not in older.kubectl("api-resources").stdout
    for published, version in ((older, "v1beta2"), (newer, "v1")):
        explained = published.kubectl("explain", "devicetaintrules").stdout
        assert f"VERSION:    {version}\n" in explained


# The table


def test_of_every_release_all_types_that_fields_have_are_there(each_release: Release) -> None:
    schema = schema_of(each_release)
    named = {
        form.name
        for type_ in schema.types.values()
        for field in type_.fields.values()
        for form in _forms(field.form)
        if form.shape == "type"
    }
    assert named <= schema.types.keys()


def test_a_kind_or_field_of_no_release_is_a_mistake_in_the_table() -> None:
    known = {release.minor for release in EACH}
    for type_ in the_schema().types.values():
        for span in (type_.span, *(field.span for field in type_.fields.values())):
            assert any(span.has(version) for version in known), type_.full_name
            assert {span.first, span.last} <= {None, *known}, type_.full_name


def test_fields_that_need_a_gate_are_dropped_by_the_releases_that_do_not_publish_them() -> None:
    groups = (devicefeatures._FIELDS, devicefeatures._STATUS_FIELDS)
    for resource, gated in (item for fields in groups for item in fields.items()):
        for one in gated:
            having = {str(version) for version in _versions_with(resource, one.path)}
            assert having == ({one.only} if one.only else {release.name for release in EACH}), one


def _versions_with(resource: Resource, path: tuple[str, ...]) -> set[Version]:
    return {
        release.minor
        for release in EACH
        if _has(release, schema_of(release).of_kind(resource.group, resource.version, resource.kind), path)
    }


def _has(release: Release, type_: TypeDef | None, path: tuple[str, ...]) -> bool:
    """True if there is a field at the end of a path of fields, in which `*` is any element."""
    for name in (part for part in path if part != "*"):
        if type_ is None or name not in type_.fields:
            return False
        [*_, inner] = _forms(type_.fields[name].form)
        type_ = schema_of(release).referred(inner)
    return True


def _forms(form: Form) -> Iterator[Form]:
    yield form
    if form.of is not None:
        yield from _forms(form.of)
