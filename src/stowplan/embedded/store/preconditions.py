"""Whether the object a writer means is the one there is: its uid, its version."""

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import DeleteOptions, Json


def check_uid(resource: Resource, obj: Json, uid: str | None) -> None:
    """Raises `ApiError` 409 if a writer means another object of the same name."""
    metadata = obj["metadata"]
    if uid and uid != metadata["uid"]:
        raise other_uid(resource, metadata.get("namespace", ""), metadata["name"], uid, metadata["uid"])


def other_uid(resource: Resource, namespace: str, name: str, expected: str, found: str) -> status.ApiError:
    key = "/".join(part for part in ("/registry", resource.plural, namespace, name) if part)
    return status.conflict(
        resource,
        name,
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {expected}, UID in object meta: {found}",
    )


def check_version(resource: Resource, obj: Json, version: str | None) -> None:
    """Raises `ApiError` 409 if the object has changed since the writer read it."""
    metadata = obj["metadata"]
    if version and version != metadata["resourceVersion"]:
        raise status.conflict(resource, metadata["name"], status.MODIFIED_MEANWHILE)


def check_deletion(resource: Resource, obj: Json, options: DeleteOptions) -> None:
    """Raises `ApiError` 409 if the object is not the one that was to be deleted."""
    metadata = obj["metadata"]
    name, uid, version = metadata["name"], metadata["uid"], metadata["resourceVersion"]
    if options.uid is not None and options.uid != uid:
        raise status.conflict(
            resource,
            name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({uid}). "
            "The object might have been deleted and then recreated",
        )
    if options.resource_version is not None and options.resource_version != version:
        raise status.conflict(
            resource,
            name,
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({version}). The object might have been modified",
        )
