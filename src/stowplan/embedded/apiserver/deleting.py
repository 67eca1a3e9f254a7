"""The body of a request to delete, which may be left out."""

from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.apiserver.bodies import as_json, decode_as
from stowplan.embedded.schema import the_schema

_OPTIONS: Final = Resource("meta.k8s.io", "v1", "deleteoptions", "DeleteOptions")


def deletion_body(text: bytes, content_type: str) -> Json:
    """How to delete, as data. Raises `ApiError` 400."""
    if not text.strip():
        return {}
    type_ = the_schema().types["meta.v1.DeleteOptions"]
    data = decode_as(type_, as_json(text, content_type), _OPTIONS).data
    if not isinstance(data, dict):
        raise status.bad_request("DeleteOptions: expected a map")
    return data
