"""Names, labels and images replaced, so that a snapshot can be given to somebody else.

Equal texts are replaced by equal ones wherever they stand, so selectors still select, affinities still match
and owners still own: the scheduler decides as before. Quantities, times, names of resources and drivers,
words of the API (operators, effects, phases) and keys of Kubernetes' own labels stay; so do whole numbers as
values of labels, because selectors compare them. Annotations go, but for those that volume plugins read.
"""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec

from stowplan.api.decode import KINDS
from stowplan.simulate.snapshot.files import Snapshot

_WELL_KNOWN: Final = ("kubernetes.io", "k8s.io")
_ENUMERATED: Final = frozenset({"kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os"})
"""Labels whose values say nothing about whose cluster it is."""
_DROPPED: Final = frozenset({"message", "finalizers", "managedFields", "generateName"})
_ANNOTATIONS: Final = {
    "pv.kubernetes.io/bind-completed": False,
    "pv.kubernetes.io/bound-by-controller": False,
    "storage.alpha.kubernetes.io/migrated-plugins": False,
    "volume.kubernetes.io/storage-provisioner": False,
    "volume.kubernetes.io/selected-node": True,
    "volume.beta.kubernetes.io/storage-class": True,
    "kubernetes.io/config.mirror": True,
}
"""The annotations that are kept, and whether their value is a name."""
_NAMES: Final = frozenset(
    {
        "name",
        "namespace",
        "namespaces",
        "uid",
        "nodeName",
        "nodeID",
        "nominatedNodeName",
        "claimName",
        "volumeName",
        "volumeHandle",
        "storageClassName",
        "priorityClassName",
        "secretName",
        "pdName",
        "volumeID",
        "diskName",
        "diskURI",
        "pool",
        "device",
        "fsUUID",
        "iqn",
        "targetPortal",
        "resourceClaimName",
        "resourceClaimTemplateName",
        "podGroupName",
        "deviceClassName",
        "persistentVolumeName",
        "volumeAttributesClassName",
        "handler",
    }
)
_KEYS: Final = frozenset({"topologyKey", "topologyKeys", "matchLabelKeys", "mismatchLabelKeys"})
_LABEL_MAPS: Final = frozenset({"labels", "matchLabels", "nodeSelector"})
_KEEPING: Final = frozenset({"ports", "conditions", "drivers", "requests", "firstAvailable"})
"""Lists in which `name` is a word of the API, of a driver or of the claim itself."""
_NAMED_BY_DRIVER: Final = "CSIDriver"
_FIELD: Final = "metadata.name"
_QUOTAS: Final = frozenset({"hard", "used"})
_OF_CLASS: Final = (".storageclass.storage.k8s.io/", ".deviceclass.resource.k8s.io/")
"""Resources that a quota limits by class have the name of the class before them."""


class Redactor:
    """Replaces texts. With the same key the replacements are the same in every file."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(16) if key is None else key
        self._known: dict[str, str] = {}

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        """The same cluster under other names."""
        objects = []
        for obj in snapshot.objects:
            kind = type(obj).__name__
            redacted = self.document(msgspec.to_builtins(obj))
            if kind == _NAMED_BY_DRIVER:
                redacted["metadata"]["name"] = obj.name
            objects.append(msgspec.convert(redacted, KINDS[kind]))
        notes = ["names, labels and images are replaced"]
        return Snapshot(objects, "a redacted snapshot", notes, dict(snapshot.unread))

    def document(self, document: Any) -> Any:
        """An object as plain data."""
        return self._walk(document, "")

    def text(self, text: str) -> str:
        """Replacement of a text; the zones of `zone-a__zone-b` one by one."""
        if not text or text.isdecimal():
            return text
        if "__" in text:
            return "__".join(self.text(part) for part in text.split("__"))
        found = self._known.get(text)
        if found is None:
            digest = hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
            found = self._known[text] = f"r{digest[:10]}"
        return found

    def image(self, image: str) -> str:
        """Replacement of an image; `latest` stays, because no tag means the same."""
        name, colon, tag = image.rpartition(":")
        if not colon or "/" in tag:
            return self.text(image)
        return f"{self.text(name)}:{tag if tag == 'latest' else self.text(tag)}"

    def key(self, key: str) -> str:
        """Replacement of a label, taint or topology key."""
        if key == _FIELD:
            return key
        domain, slash, _ = key.partition("/")
        if slash and (domain in _WELL_KNOWN or domain.endswith(tuple(f".{one}" for one in _WELL_KNOWN))):
            return key
        return self.text(key)

    def _walk(self, value: Any, field: str) -> Any:
        if isinstance(value, dict):
            if field == "annotations":
                return self._annotations(value)
            if field in _LABEL_MAPS:
                return {self.key(key): self._label(key, text) for key, text in value.items()}
            if field in _QUOTAS:
                return {self._limited(name): amount for name, amount in value.items()}
            if "scopeName" in value:
                return {**value, "values": [self.text(one) for one in value.get("values", ())]}
            if "key" in value and ("operator" in value or "effect" in value):
                return self._requirement(value)
            return {key: self._field(key, one, field) for key, one in value.items() if key not in _DROPPED}
        if isinstance(value, list | tuple):
            return [self._walk(one, field) for one in value]
        return value

    def _field(self, key: str, value: Any, parent: str) -> Any:
        if key in _KEYS:
            return self._each(value, self.key)
        if key == "image" or (key == "names" and parent == "images"):
            return self._each(value, self.image)
        if key in _NAMES and parent not in _KEEPING:
            return self._each(value, self.text)
        return self._walk(value, key)

    def _each(self, value: Any, change: Callable[[str], str]) -> Any:
        if isinstance(value, str):
            return change(value)
        if isinstance(value, list | tuple):
            return [self._each(one, change) for one in value]
        return self._walk(value, "")

    def _annotations(self, annotations: dict[str, str]) -> dict[str, str]:
        return {
            key: self.text(value) if _ANNOTATIONS[key] else value
            for key, value in annotations.items()
            if key in _ANNOTATIONS
        }

    def _limited(self, name: str) -> str:
        """A resource that a quota limits, perhaps of one class."""
        for mark in _OF_CLASS:
            of_class, found, rest = name.partition(mark)
            if found:
                return f"{self.text(of_class)}{found}{rest}"
        return name

    def _label(self, key: str, text: str) -> str:
        return text if key in _ENUMERATED else self.text(text)

    def _requirement(self, value: dict[str, Any]) -> dict[str, Any]:
        """A match expression, a taint or a toleration."""
        key = value["key"]
        changed = {**value, "key": self.key(key)}
        if isinstance(value.get("value"), str):
            changed["value"] = self._label(key, value["value"])
        if "values" in value:
            changed["values"] = [self._label(key, text) for text in value["values"]]
        return changed
