"""Refusals by admission."""

from stowplan.api import status
from stowplan.api.catalogue import PODS, Resource
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.admission.attributes import AdmissionAttributes


def forbidden(resource: Resource, name: str, why: str) -> status.ApiError:
    """A 403 that says which object was not admitted."""
    details = {"name": name, "group": resource.group, "kind": resource.plural}
    return status.ApiError(
        403,
        "Forbidden",
        f"{resource.qualified} {quote(name)} is forbidden: {why}",
        {key: value for key, value in details.items() if value},
    )


def forbidden_write(write: AdmissionAttributes, why: str) -> status.ApiError:
    """A 403 for a request; an object whose name is to be generated is named by its beginning."""
    metadata = {} if write.object is None else write.object["metadata"]
    name = write.name or metadata.get("generateName") or "Unknown"
    return forbidden(write.resource, name, why)


def forbidden_pod(pod: Json, why: str) -> status.ApiError:
    return forbidden(PODS, pod["metadata"]["name"], why)


def refused_by_webhook(webhook: str, why: str) -> status.ApiError:
    """A 403 in the words of a request that a validating webhook denied."""
    return status.ApiError(403, "Forbidden", f"admission webhook {quote(webhook)} denied the request: {why}")
