"""The documents themselves: version 2 for everything at once, version 3 for each group."""

import hashlib
from typing import Final

import msgspec
from aiohttp import web

from stowplan.api.catalogue import Catalogue, Resource
from stowplan.api.requests import Json
from stowplan.embedded.apiserver.answers import answer
from stowplan.embedded.apiserver.openapi.gnostic import encoded
from stowplan.embedded.apiserver.openapi.operations import paths_of
from stowplan.embedded.apiserver.openapi.schemas import closure
from stowplan.embedded.schema import the_schema

_INFO: Final = {"title": "stowplan", "version": "v1.36"}
_PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class OpenApi:
    """Documents about the resources of a catalogue, each made when first asked for."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._made: dict[str, bytes] = {}

    def answer(self, path: str, accept: str) -> web.Response | None:
        """A document, None if there is none at this path."""
        parts = path.strip("/").split("/")
        if parts == ["openapi", "v2"]:
            if "protobuf" in accept:
                return answer(self._bytes("v2.pb"), content_type=_PROTOBUF)
            return answer(self._bytes("v2"))
        if parts == ["openapi", "v3"]:
            return answer(msgspec.json.encode({"paths": self._index()}))
        if parts[:2] == ["openapi", "v3"]:
            place = "/".join(parts[2:])
            return answer(self._bytes(place)) if place in self._groups() else None
        return None

    def _index(self) -> Json:
        index: Json = {}
        for place in self._groups():
            digest = hashlib.sha256(self._bytes(place)).hexdigest()[:32].upper()
            index[place] = {"serverRelativeURL": f"/openapi/v3/{place}?hash={digest}"}
        return index

    def _groups(self) -> dict[str, list[Resource]]:
        """What is served, by the place of its group and version."""
        found: dict[str, list[Resource]] = {}
        for resource in self._catalogue:
            found.setdefault(resource.prefix.strip("/"), []).append(resource)
        return found

    def _bytes(self, which: str) -> bytes:
        made = self._made.get(which)
        if made is None:
            if which == "v2.pb":
                made = encoded(self._second())
            else:
                made = msgspec.json.encode(self._second() if which == "v2" else self._third(which))
            self._made[which] = made
        return made

    def _second(self) -> Json:
        resources = [resource for group in self._groups().values() for resource in group]
        return {
            "swagger": "2.0",
            "info": _INFO,
            "paths": _paths(resources, third=False),
            "definitions": closure(_types(resources), third=False),
        }

    def _third(self, place: str) -> Json:
        resources = self._groups()[place]
        return {
            "openapi": "3.0.0",
            "info": _INFO,
            "paths": _paths(resources, third=True),
            "components": {"schemas": closure(_types(resources), third=True)},
        }


def _types(resources: list[Resource]) -> set[str]:
    found = (the_schema().of_kind(r.group, r.version, r.kind) for r in resources)
    return {type_.full_name for type_ in found if type_ is not None}


def _paths(resources: list[Resource], *, third: bool) -> Json:
    paths: Json = {}
    for resource in resources:
        paths |= paths_of(resource, third)
    return paths
