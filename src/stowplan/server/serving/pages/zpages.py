"""The z-pages: /statusz, /flagz and /configz."""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import yaml
from aiohttp import web

from stowplan.api.releases import NEWEST, Release
from stowplan.config.dump import dump
from stowplan.config.types import SchedulerConfig
from stowplan.gocompat.jsontext import as_json
from stowplan.runtime.clock import Clock
from stowplan.server.serving.filters import Page
from stowplan.server.serving.responses import AcceptClause, parse_accept, response

_WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only."
)

GROUP: Final = "config.k8s.io"
VERSIONS: Final = ("v1alpha1", "v1beta1")
DEPRECATED: Final = frozenset({"v1alpha1"})

JSON: Final = "application/json"
YAML: Final = "application/yaml"
TEXT: Final = "text/plain"
_MEDIA_TYPES: Final = (JSON, YAML, TEXT)
_OBJECT_PARAMETERS: Final = frozenset({"as", "g", "v"})
_NOT_ACCEPTABLE: Final = f"only the following media types are accepted: {', '.join(_MEDIA_TYPES)}"
_PRETTY_USER_AGENTS: Final = ("curl", "Wget", "Mozilla/5.0")
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class Component(NamedTuple):
    """The component: name, start time (seconds since 1970), version of the installation, emulated version."""

    name: str
    started: float
    version: str
    emulated_version: str

    @classmethod
    def of(cls, started: float, release: Release) -> "Component":
        """A scheduler that is a release."""
        return cls("kube-scheduler", started, NEWEST.version, str(release.emulated))


def statusz_page(component: Component, paths: Iterable[str], clock: Clock) -> Page:
    """/statusz. `paths` are those of the other pages."""
    prefixes = sorted({f"/{path.split('/')[1]}" for path in paths})
    language = "python" + ".".join(map(str, sys.version_info[:3]))
    started = datetime.fromtimestamp(int(component.started), UTC)

    async def page(request: web.Request) -> web.StreamResponse:
        format = negotiate(request.headers.get("Accept", ""), "Statusz")
        if format is None:
            return not_acceptable(request)
        up = max(0, int(clock.monotonic() - component.started))
        if format.media_type == TEXT:
            lines = {
                "Started": f"{started:%a %b} {started.day:2d} {started:%H:%M:%S UTC %Y}",
                "Up": f"{up // 3600} hr {up // 60 % 60:02d} min {up % 60:02d} sec",
                "Go version": language,
                "Binary version": component.version,
                "Emulation version": component.emulated_version,
                "Paths": " ".join(prefixes),
            }
            text = "".join(f"{name}: {value}\n" for name, value in lines.items())
            return response(f"\n{component.name} statusz\n{_WARNING}\n\n{text}", sniffed=True)
        fields = {
            "metadata": {"name": component.name},
            "startTime": f"{started:%Y-%m-%dT%H:%M:%SZ}",
            "uptimeSeconds": up,
            "goVersion": language,
            "binaryVersion": component.version,
            "emulationVersion": component.emulated_version,
            "paths": prefixes,
        }
        return object_response(request, format, "Statusz", fields)

    return page


def flagz_page(component: Component, flags: Callable[[], Mapping[str, str]]) -> Page:
    """/flagz: all flags with their values, by name."""

    async def page(request: web.Request) -> web.StreamResponse:
        format = negotiate(request.headers.get("Accept", ""), "Flagz")
        if format is None:
            return not_acceptable(request)
        given = dict(sorted(flags().items()))
        if format.media_type == TEXT:
            text = "".join(f"{name}={value}\n" for name, value in given.items())
            return response(f"\n{component.name} flagz\n{_WARNING}\n{text}", sniffed=True)
        return object_response(
            request, format, "Flagz", {"metadata": {"name": component.name}, "flags": given}
        )

    return page


def configz_page(config: Callable[[], SchedulerConfig]) -> Page:
    """/configz: the configuration in use, as a v1 object."""

    async def page(request: web.Request) -> web.StreamResponse:
        return response(as_json({"componentconfig": dump(config())}), "application/json")

    return page


# Formats: plain text, or a versioned object as JSON or YAML


class ObjectFormat(NamedTuple):
    """A media type, and the version of the object unless it is text."""

    media_type: str
    version: str = ""


def negotiate(header: str, kind: str) -> ObjectFormat | None:
    """The format an Accept header asks for, None if it is not supported."""
    if not header.strip():
        return ObjectFormat(TEXT)
    for clause in parse_accept(header):
        for media_type in _MEDIA_TYPES:
            if clause.matches(media_type) and (format := _format(clause, media_type, kind)) is not None:
                return format
    return None


def _format(clause: AcceptClause, media_type: str, kind: str) -> ObjectFormat | None:
    """Text takes no object parameters; JSON and YAML need a known kind, group and version."""
    parameters = clause.parameters
    if parameters.get("stream") or parameters.get("sv"):
        return None
    if media_type == TEXT:
        return None if parameters.keys() & _OBJECT_PARAMETERS else ObjectFormat(TEXT)
    known = parameters.get("as") == kind and parameters.get("g") == GROUP and parameters.get("v") in VERSIONS
    return ObjectFormat(media_type, parameters["v"]) if known else None


def object_response(
    request: web.Request, format: ObjectFormat, kind: str, fields: Mapping[str, Any]
) -> web.Response:
    """An object in the negotiated format."""
    body = {"kind": kind, "apiVersion": f"{GROUP}/{format.version}", **fields}
    content_type = f"{format.media_type};g={GROUP};v={format.version};as={kind}"
    headers = {}
    if format.version in DEPRECATED:
        page = kind.lower()
        warning = f"This version of the {page} endpoint is deprecated. Please use a newer version."
        headers["Warning"] = f'299 - "{warning}"'
    return response(_encode(request, format.media_type, body), content_type, sniffed=True, headers=headers)


def not_acceptable(request: web.Request) -> web.Response:
    """406, as YAML if that is accepted, else as JSON."""
    clauses = parse_accept(request.headers.get("Accept", ""))
    plain = (media for one in clauses for media in (JSON, YAML) if one.matches(media) and not one.parameters)
    media_type = next(plain, JSON)
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": _NOT_ACCEPTABLE,
        "reason": "NotAcceptable",
        "code": 406,
    }
    return response(_encode(request, media_type, status), media_type, status=406, sniffed=True)


def _encode(request: web.Request, media_type: str, body: Mapping[str, Any]) -> str:
    if media_type == YAML:
        return yaml.safe_dump(dict(body), default_flow_style=False, allow_unicode=True)
    if _wants_pretty(request):
        return json.dumps(body, ensure_ascii=False, indent=2)
    return as_json(dict(body)) + "\n"


def _wants_pretty(request: web.Request) -> bool:
    """True to indent JSON: `?pretty`, or the user agent is a browser or command line tool."""
    asked = request.query.get("pretty", "")
    if asked:
        return asked in _TRUE
    return request.headers.get("User-Agent", "").startswith(_PRETTY_USER_AGENTS)
