"""Conversion webhooks of custom resources: objects of one version as another version has them."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final
from uuid import uuid4

import msgspec

from stowplan.api import status
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.apply import plain_json
from stowplan.localcluster.customresources.kept import with_metadata_of
from stowplan.localcluster.customresources.versions import ServedVersion
from stowplan.localcluster.remote.calls import CallError, RemoteServers
from stowplan.localcluster.remote.clientconfig import service_of, target_of, url_of
from stowplan.localcluster.remote.services import UnreachableServiceError

_GROUP: Final = "apiextensions.k8s.io"
_SECONDS: Final = 30.0
_MOST_KEPT: Final = 2_000
"""Converted objects that are remembered: lists and watches convert each version of an object once."""

_AT_ONCE: Final = 100
"""Objects in one review."""

_Key = tuple[str, str, str, int]
_encode: Final = msgspec.json.Encoder(enc_hook=plain_json).encode


class ConversionWebhooks:
    """Converts objects by the webhooks of their definitions."""

    def __init__(self, remote: RemoteServers) -> None:
        self._remote = remote
        self._known: OrderedDict[_Key, Json] = OrderedDict()

    def is_called(self, version: ServedVersion) -> bool:
        """True if the webhook of a definition is called: it can be reached, or is not allowed to be away."""
        service = service_of(_client(version))
        return service is None or self._remote.strict or self._remote.services.is_reachable(*service)

    async def convert(
        self, version: ServedVersion, objects: Sequence[Json], api_version: str, seconds: float = _SECONDS
    ) -> list[Json]:
        """Stored objects in another version, with the metadata they have. Raises `ApiError` 500.

        Those that have been converted before are not sent again.
        """
        generation = version.definition["metadata"].get("generation", 0)
        keys = [_key(obj, api_version, generation) for obj in objects]
        found = dict(zip(keys, map(self._known.get, keys), strict=True))
        missing = [obj for key, obj in zip(keys, objects, strict=True) if found[key] is None]
        for begin in range(0, len(missing), _AT_ONCE):
            some = missing[begin : begin + _AT_ONCE]
            for obj, new in zip(some, await self.ask(version, some, api_version, seconds), strict=True):
                key = _key(obj, api_version, generation)
                found[key] = self._known[key] = new
        while len(self._known) > _MOST_KEPT:
            self._known.popitem(last=False)
        return [with_metadata_of(obj, found[key] or {}) for key, obj in zip(keys, objects, strict=True)]

    async def ask(
        self, version: ServedVersion, objects: Sequence[Json], api_version: str, seconds: float
    ) -> list[Json]:
        """Converted objects as the webhook gives them back. Raises `ApiError` 500."""
        kind = version.resource.kind
        group, _, number = str(objects[0]["apiVersion"]).rpartition("/")
        prefix = f"conversion webhook for {group}/{number}, Kind={kind}"
        try:
            return await self._asked(version, objects, api_version, min(seconds, _SECONDS), prefix)
        except (CallError, UnreachableServiceError) as error:
            where = f'Post "{url_of(_client(version))}?timeout=30s": ' if _is_away(error) else ""
            raise status.internal_error(f"{prefix} failed: {where}{error}") from None

    async def _asked(
        self, version: ServedVersion, objects: Sequence[Json], api_version: str, seconds: float, prefix: str
    ) -> list[Json]:
        webhook = version.definition["spec"]["conversion"]["webhook"]
        accepted = webhook.get("conversionReviewVersions") or ()
        review = next((one for one in accepted if one in ("v1", "v1beta1")), "")
        if not review:
            raise status.internal_error("no supported conversion review versions")
        uid = str(uuid4())
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": list(objects)}
        target = target_of(_client(version), self._remote.services)
        body = {"kind": "ConversionReview", "apiVersion": f"{_GROUP}/{review}", "request": request}
        answer = await self._remote.caller.post(target, _encode(body), seconds)
        converted = _objects_of(answer, uid, review)
        if len(converted) != len(objects):
            text = f"{prefix} returned {len(converted)} objects, expected {len(objects)}"
            raise status.internal_error(text)
        for number, (given, new) in enumerate(zip(objects, converted, strict=True)):
            problem = _problem(given, new, api_version)
            if problem:
                text = f"{prefix} returned invalid converted object at index {number}: {problem}"
                raise status.internal_error(text)
        return converted


def _client(version: ServedVersion) -> Json:
    conversion = version.definition["spec"].get("conversion") or {}
    client: Json = (conversion.get("webhook") or {}).get("clientConfig") or {}
    return client


def _is_away(error: Exception) -> bool:
    return isinstance(error, UnreachableServiceError)


def _key(obj: Json, api_version: str, generation: int) -> _Key:
    metadata = obj["metadata"]
    return metadata.get("uid", ""), metadata.get("resourceVersion", ""), api_version, generation


def _objects_of(answer: Any, uid: str, review: str) -> list[Any]:
    """The converted objects of an answer. Raises `CallError`, in kube-apiserver's words."""
    found = answer if isinstance(answer, dict) else {}
    if review == "v1":
        group, _, number = str(found.get("apiVersion") or "").rpartition("/")
        wanted, given = (
            f"{_GROUP}/v1, Kind=ConversionReview",
            f"{group}/{number}, Kind={found.get('kind') or ''}",
        )
        if given != wanted:
            raise CallError(f"expected webhook response of {wanted}, got {given}")
    response = found.get("response")
    if not isinstance(response, dict):
        raise CallError("no response provided")
    if review == "v1" and response.get("uid") != uid:
        raise CallError(f"expected response.uid={quote(uid)}, got {quote(str(response.get('uid') or ''))}")
    result = response.get("result")
    result = result if isinstance(result, dict) else {}
    if result.get("status") != "Success":
        said = f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        raise CallError(str(result.get("message") or said))
    objects = response.get("convertedObjects")
    return objects if isinstance(objects, list) else []


def _problem(given: Json, new: Any, api_version: str) -> str:
    """The reason why an object is no conversion of another one, empty if it is."""
    if not isinstance(new, dict):
        return "not an object"
    if new.get("apiVersion") != api_version:
        return f"invalid groupVersion (expected {api_version}, received {new.get('apiVersion') or ''})"
    if new.get("kind") != given["kind"]:
        return f"invalid kind (expected {given['kind']}, received {new.get('kind') or ''})"
    metadata = new.get("metadata")
    if not isinstance(metadata, dict):
        return "missing metadata in converted object"
    for field, name in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        before, after = given["metadata"].get(field) or "", metadata.get(field) or ""
        if before != after:
            return f"must have the same {name}: {before} != {after}"
    for field in ("labels", "annotations"):
        values = metadata.get(field)
        if values is not None and not _is_text(values):
            return f"invalid metadata.{field} in converted object"
    return ""


def _is_text(values: Any) -> bool:
    return isinstance(values, dict) and all(isinstance(value, str) for value in values.values())
