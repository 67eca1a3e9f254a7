"""A simulated provisioner: makes volumes for claims of any class, and can be set to fail or to be slow."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final
from zlib import crc32

from stowplan.api.catalogue import (
    CSI_DRIVERS,
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
)
from stowplan.api.requests import Json
from stowplan.api.status import ApiError
from stowplan.localcluster.controllerruntime.controller import Controller, ControllerContext
from stowplan.localcluster.controllerruntime.events import WARNING
from stowplan.localcluster.controllers.storage.persistentvolume import (
    DEFAULT_CLASS,
    FIRST_CONSUMER,
    MIGRATED,
    PROVISIONED_BY,
    PROVISIONER,
    SELECTED_NODE,
    class_of,
    needs_expansion,
)
from stowplan.localcluster.objects.fields import (
    annotations_of,
    claim_reference,
    is_deleting,
    labels_of,
    name_of,
    spec_of,
    status_of,
    uid_of,
)

ZONE: Final = "topology.kubernetes.io/zone"

Segments = dict[str, str]
"""One place, by the keys of the topology: a zone, or a zone and a rack."""


def topology_keys(driver: str, csi_node: Json | None, storage_class: Json) -> list[str]:
    """Keys of the topology: the driver's own keys, else those the class speaks of, else zones."""
    for one in spec_of(csi_node or {}).get("drivers") or ():
        if one.get("name") == driver and one.get("topologyKeys"):
            return list(one["topologyKeys"])
    named = {expression["key"] for term in _terms(storage_class) for expression in term}
    return sorted(named) or [ZONE]


def place_of_node(node: Json, keys: Sequence[str]) -> Segments:
    labels = labels_of(node)
    return {key: labels[key] for key in keys if key in labels}


def is_allowed(place: Mapping[str, str], storage_class: Json) -> bool:
    """True if a class has volumes in this place; one without topologies has them everywhere."""
    terms = _terms(storage_class)
    return not terms or any(
        all(place.get(expression["key"]) in expression.get("values", ()) for expression in term)
        for term in terms
    )


def any_place(nodes: Iterable[Json], keys: Sequence[str], storage_class: Json, seed: str) -> Segments:
    """A place for a volume without a consumer: evenly over the existing places, by its name."""
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


PROVISIONER_NAME: Final = "pretend.stowplan.io"
PV_PROTECTION: Final = "kubernetes.io/pv-protection"
VOLUME: Final = "volume "


@dataclass(frozen=True, slots=True)
class ProvisionerBehaviour:
    """Provisioning of a class's volumes.

    `delay`: its duration in seconds. `fails`: its error, none if empty. `failures`: number of failures before
    it works (None: always). `reschedule`: after a failure the scheduler has to choose another node; else the
    same one is retried.
    """

    delay: float = 0.5
    fails: str = ""
    failures: int | None = None
    reschedule: bool = True


@dataclass(slots=True)
class ProvisionerSettings:
    """How the provisioner behaves: by class, and otherwise. May be changed while it runs.

    `installed_only`: it acts for its own name and for CSI drivers that are installed, which is those with a
    CSIDriver object or on a node. Else it acts for every name.
    """

    otherwise: ProvisionerBehaviour = ProvisionerBehaviour()
    by_class: dict[str, ProvisionerBehaviour] = field(default_factory=dict)
    installed_only: bool = False

    def of(self, class_name: str) -> ProvisionerBehaviour:
        return self.by_class.get(class_name, self.otherwise)


class Provisioner(Controller):
    """Makes volumes for claims that ask for one, and removes those that are to be deleted."""

    name: ClassVar[str] = "pretend-provisioner"
    workers: ClassVar[int] = 4

    def __init__(self, context: ControllerContext, settings: ProvisionerSettings | None = None) -> None:
        super().__init__(context)
        self.settings = ProvisionerSettings() if settings is None else settings
        self.claims = self.follow(PERSISTENT_VOLUME_CLAIMS)
        self.volumes = self.informer(PERSISTENT_VOLUMES)
        self.classes = self.follow(STORAGE_CLASSES)
        self.nodes = self.informer(NODES)
        self.csi_nodes = self.informer(CSI_NODES)
        self.csi_drivers = self.informer(CSI_DRIVERS)
        self._on_nodes = self.csi_nodes.index(_drivers_on)
        self.volumes.add_handler(self._volume_changed)
        self.csi_drivers.add_handler(self._driver_changed)
        self.csi_nodes.add_handler(self._csi_node_changed)
        self._begun: dict[tuple[str, str], float] = {}
        self._failed: dict[str, int] = {}

    def _volume_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None and status_of(new).get("phase") == "Released":
            self.queue.add(VOLUME + name_of(new))

    def _driver_changed(self, old: Json | None, new: Json | None) -> None:
        if old is None and new is not None:
            self._wake_claims_for(name_of(new))

    def _csi_node_changed(self, old: Json | None, new: Json | None) -> None:
        for driver in _drivers_on(new or {}):
            if len(self._on_nodes[driver]) == 1:
                self._wake_claims_for(driver)

    def _wake_claims_for(self, driver: str) -> None:
        """A driver is there: claims may have been waiting for it."""
        for storage_class in self.classes:
            if storage_class.get("provisioner") == driver:
                self._wake_claims_of(name_of(storage_class))

    def serves(self, provisioner: str) -> bool:
        """True if this provisioner serves the name."""
        if not self.settings.installed_only or provisioner == PROVISIONER_NAME:
            return True
        return self.csi_drivers.get(provisioner) is not None or bool(self._on_nodes[provisioner])

    async def sync(self, key: str) -> None:
        if key.startswith(VOLUME):
            await self._reclaim(key)
            return
        claim = self.claims.get(key)
        if claim is None:
            self._wake_claims_of(key)
            return
        if needs_expansion(claim):
            await self._expand(claim)
            return
        storage_class = self.classes.get(class_of(claim))
        if storage_class is None or not wants_volume(claim, storage_class):
            return
        if not self.serves(annotations_of(claim)[PROVISIONER]):
            return
        behaviour = self.settings.of(class_of(claim))
        job = (uid_of(claim), annotations_of(claim).get(SELECTED_NODE, ""))
        left = self._begun.setdefault(job, self.monotonic()) + behaviour.delay - self.monotonic()
        if left > 0:
            self.queue.add_after(key, left)
            return
        problem = self._failure(job[0], behaviour)
        place, misplaced = self._place(claim, storage_class)
        if problem or misplaced:
            await self._give_up(claim, problem or misplaced, behaviour.reschedule or bool(misplaced))
        else:
            await self._provision(claim, storage_class, place)
        del self._begun[job]

    def _wake_claims_of(self, class_name: str) -> None:
        """A class has changed: its claims may have been waiting for it."""
        if class_name in self.classes.objects:
            for key, claim in self.claims.objects.items():
                if class_of(claim) == class_name and not spec_of(claim).get("volumeName"):
                    self.queue.add(key)

    def _failure(self, uid: str, behaviour: ProvisionerBehaviour) -> str:
        failed = self._failed.get(uid, 0)
        if not behaviour.fails or (behaviour.failures is not None and failed >= behaviour.failures):
            self._failed.pop(uid, None)
            return ""
        self._failed[uid] = failed + 1
        return behaviour.fails

    def _place(self, claim: Json, storage_class: Json) -> tuple[Segments, str]:
        """Where the volume of a claim is to be, and what is wrong with that."""
        chosen = annotations_of(claim).get(SELECTED_NODE)
        driver = storage_class.get("provisioner", "")
        if not chosen:
            some = next(iter(self.csi_nodes), None)
            keys = topology_keys(driver, some, storage_class)
            return any_place(self.nodes, keys, storage_class, name_of(claim)), ""
        node = self.nodes.get(chosen)
        if node is None:
            return {}, f'error getting selected node "{chosen}": node "{chosen}" not found'
        keys = topology_keys(driver, self.csi_nodes.get(chosen), storage_class)
        place = place_of_node(node, keys)
        if not is_allowed(place, storage_class):
            return {}, f"selected node '{chosen}' topology is not in allowed topologies"
        return place, ""

    async def _provision(self, claim: Json, storage_class: Json, place: Segments) -> None:
        volume = new_volume(claim, storage_class, place)
        try:
            await self.create(PERSISTENT_VOLUMES, volume)
        except ApiError as error:
            if not error.is_already_exists:
                raise
        note = f"Successfully provisioned volume {volume['metadata']['name']}"
        await self.record_event(claim, "ProvisioningSucceeded", note)

    async def _give_up(self, claim: Json, problem: str, reschedule: bool) -> None:
        note = f'failed to provision volume with StorageClass "{class_of(claim)}": {problem}'
        await self.record_event(claim, "ProvisioningFailed", note, WARNING)
        if reschedule and SELECTED_NODE in annotations_of(claim):
            away = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            await self.change(PERSISTENT_VOLUME_CLAIMS, claim, away)
        else:
            self.queue.add_after(f"{claim['metadata'].get('namespace', '')}/{name_of(claim)}", 1.0)

    async def _reclaim(self, key: str) -> None:
        """Remove a volume whose claim is gone, if that is its policy."""
        volume = self.volumes.get(key.removeprefix(VOLUME))
        if volume is None or status_of(volume).get("phase") != "Released" or is_deleting(volume):
            return
        if spec_of(volume).get("persistentVolumeReclaimPolicy") == "Delete" and self._is_ours(volume):
            await self.delete(PERSISTENT_VOLUMES, volume)

    def _is_ours(self, volume: Json) -> bool:
        driver = (spec_of(volume).get("csi") or {}).get("driver", "")
        return bool(driver) and self.serves(annotations_of(volume).get(PROVISIONED_BY, driver))

    async def _expand(self, claim: Json) -> None:
        """Make the volume of a claim as large as it asks for, and tell it."""
        volume = self.volumes.get(spec_of(claim).get("volumeName", ""))
        if volume is None or not self._is_ours(volume):
            return
        name, size = name_of(volume), spec_of(claim)["resources"]["requests"]["storage"]
        await self.record_event(claim, "Resizing", f"External resizer is resizing volume {name}")
        await self.change(PERSISTENT_VOLUMES, volume, {"spec": {"capacity": {"storage": size}}})
        await self.set_status(PERSISTENT_VOLUME_CLAIMS, claim, {"capacity": {"storage": size}})
        await self.record_event(claim, "VolumeResizeSuccessful", "Resize volume succeeded")


def _drivers_on(csi_node: Json) -> list[str]:
    return [one.get("name", "") for one in spec_of(csi_node).get("drivers") or ()]


def default_storage_class() -> Json:
    """The class of claims that name none, for a cluster that has no other."""
    return {
        "metadata": {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": PROVISIONER_NAME,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": FIRST_CONSUMER,
        "allowVolumeExpansion": True,
    }


def wants_volume(claim: Json, storage_class: Json) -> bool:
    """True if it is time to provision a volume for a claim."""
    if spec_of(claim).get("volumeName") or is_deleting(claim):
        return False
    named = storage_class.get("provisioner", "")
    if annotations_of(claim).get(PROVISIONER) != MIGRATED.get(named, named):
        return False
    waits = storage_class.get("volumeBindingMode") == FIRST_CONSUMER
    return not waits or SELECTED_NODE in annotations_of(claim)


def new_volume(claim: Json, storage_class: Json, place: Segments) -> Json:
    """The volume made for a claim. Its name is the claim's own: a second attempt makes no second volume."""
    spec = spec_of(claim)
    name, driver = f"pvc-{uid_of(claim)}", annotations_of(claim)[PROVISIONER]
    volume: Json = {
        "accessModes": list(spec.get("accessModes") or ()),
        "capacity": {"storage": (spec.get("resources") or {}).get("requests", {}).get("storage", "1Gi")},
        "claimRef": claim_reference(claim),
        "csi": {"driver": driver, "volumeHandle": name},
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": class_of(claim),
        "volumeMode": spec.get("volumeMode") or "Filesystem",
    }
    affinity = node_affinity(place)
    if affinity is not None:
        volume["nodeAffinity"] = affinity
    if spec.get("volumeAttributesClassName"):
        volume["volumeAttributesClassName"] = spec["volumeAttributesClassName"]
    return {
        "metadata": {
            "name": name,
            "annotations": {PROVISIONED_BY: driver},
            "finalizers": [PV_PROTECTION],
        },
        "spec": volume,
    }
