"""A write as admission policies and webhooks see it, and how they take part in the chain."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from stowplan.api.catalogue import NODES, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.store.registry import Lookup
from stowplan.localcluster.store.writer import WriteContext

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
CONNECT: Final = "CONNECT"

_GIVEN_TO_NEW: Final = ("uid", "creationTimestamp", "resourceVersion", "generation")
"""Metadata that an object gets only after it has been mutated."""


class AdmissionAttributes:
    """An attempt to write on its way through the chain.

    `resource` is the one of the request, in the version of the request; `kind` is that of its objects: some
    subresources, such as `scale` and `binding`, have their own. `is_mutating` is true in the mutating phase,
    `is_again` when mutating plugins are invoked for the second time; `kept` has what stages keep until then.
    `stored` is the object that is there and is replaced or deleted, as it is stored.
    """

    __slots__ = (
        "_default",
        "_generated",
        "_new",
        "_old",
        "_shown",
        "_shown_old",
        "by",
        "is_again",
        "is_mutating",
        "kept",
        "kind",
        "lookup",
        "operation",
        "resource",
        "stored",
        "subresource",
    )

    def __init__(
        self,
        lookup: Lookup,
        operation: str,
        resource: Resource,
        new: Json | None,
        old: Json | None,
        by: WriteContext,
        *,
        subresource: str = "",
        kind: Resource | None = None,
        default: Callable[[Json], None] | None = None,
        generated: bool = False,
        stored: Json | None = None,
    ) -> None:
        """`new` and `old` are in their stored form; `new` is changed in place by `replace`, which has
        `default` set its defaults. A name that was `generated` is not shown to those who mutate.
        `stored` is the object that is there, if `old` is only a view of it."""
        self.lookup = lookup
        self.operation = operation
        self.resource = resource if by.served is None else by.served.resource
        self.kind = self.resource if kind is None else kind
        self.subresource = subresource
        self.by = by
        self.is_mutating = True
        self.is_again = False
        self.kept: dict[str, Any] = {}
        self._new = new
        self._old = old
        self.stored = old if stored is None else stored
        self._default = default
        self._generated = generated
        self._shown: Json | None = None
        self._shown_old: Json | None = None

    @property
    def object(self) -> Json | None:
        """The object to write, None if one is deleted. It must not be changed in place."""
        if self._shown is None and self._new is not None:
            shown = self._served(self._new)
            self._shown = self._as_requested(shown) if self.is_mutating else shown
        return self._shown

    @property
    def old(self) -> Json | None:
        """The object that is there, None if there is none."""
        if self._shown_old is None and self._old is not None:
            self._shown_old = self._served(self._old)
        return self._shown_old

    @property
    def options(self) -> Json:
        """The options of the request."""
        verb = "patch" if self.operation == UPDATE and self.by.verb == "patch" else self.operation.lower()
        kind = f"{verb.capitalize()}Options"
        return dict(self.by.options) or {"kind": kind, "apiVersion": "meta.k8s.io/v1"}

    @property
    def namespace(self) -> str:
        """The namespace of the object; a Namespace is in itself."""
        metadata = self._metadata
        if self.resource.plural == "namespaces" and not self.resource.group:
            return str(metadata.get("name", ""))
        return str(metadata.get("namespace", ""))

    @property
    def name(self) -> str:
        """The name of the object, empty as long as it is to be generated."""
        shown = self.object if self.is_mutating else None
        return str((self._metadata if shown is None else shown["metadata"]).get("name", ""))

    def replace(self, new: Json) -> None:
        """Have another object be written. Metadata that only the server sets stays as it is."""
        held = self._new
        assert held is not None
        metadata = {**new["metadata"]}
        metadata.pop("managedFields", None)
        if "managedFields" in held.get("metadata", {}):
            metadata["managedFields"] = held["metadata"]["managedFields"]
        if self.operation == CREATE and not self.subresource:
            metadata |= {
                field: held["metadata"][field] for field in _GIVEN_TO_NEW if field in held["metadata"]
            }
            metadata["name"] = metadata.get("name") or held["metadata"]["name"]
            new = {**new, "metadata": metadata}
            if self.resource.status and self.resource != NODES:
                new = {field: value for field, value in new.items() if field != "status"}
                if "status" in held:
                    new["status"] = held["status"]
        else:
            new = {**new, "metadata": metadata}
        if self.by.served is not None and self.kind is self.resource:
            new = self.by.served.to_stored(new)
        held.clear()
        held.update(new)
        if self._default is not None:
            self._default(held)
        self._shown = None

    def validate(self, new: Json | None) -> None:
        """Begin the validating phase, with the object as it will be stored."""
        self.is_mutating = False
        self._new = new
        self._shown = None

    @property
    def _metadata(self) -> Json:
        found = self._new if self._new is not None else self._old
        metadata: Json = {} if found is None else found["metadata"]
        return metadata

    def _served(self, obj: Json) -> Json:
        served = self.by.served
        return obj if served is None or self.kind is not self.resource else served.to_served(obj)

    def _as_requested(self, obj: Json) -> Json:
        """A new object without what it gets after it has been mutated."""
        if self.operation != CREATE or self.subresource:
            return obj
        metadata = {field: value for field, value in obj["metadata"].items() if field not in _GIVEN_TO_NEW}
        if self._generated:
            del metadata["name"]
        shown = {**obj, "metadata": metadata}
        if self.resource.status and self.resource != NODES and "status" in shown:
            if self.resource.custom:
                del shown["status"]
            else:
                shown["status"] = {}
        return shown


class AdmissionStage(Protocol):
    """Admission that the cluster's own objects configure: Pod Security, policies, webhooks.

    `is_active` is false while there is nothing to call; the chain then leaves the stage out.
    """

    @property
    def is_active(self) -> bool: ...

    def mutate(self, write: AdmissionAttributes) -> bool:
        """Change the object by `write.replace`; true if mutating plugins are to be invoked again for that.

        Raises `ApiError`, or `UnansweredError` if the caller has to wait for an answer.
        """
        ...

    def validate(self, write: AdmissionAttributes) -> None:
        """Raises `ApiError` or `UnansweredError`."""
        ...
