"""The z-pages: what runs here since when (/statusz), and with which flags (/flagz)."""

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from aiohttp import web

from stowplan.clock import Clock
from stowplan.serving.pages.answers import answer
from stowplan.serving.pages.negotiation import TEXT, not_acceptable, object_answer, wanted_form
from stowplan.serving.routing import Page

_NOTICE: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only."
)


class Component(NamedTuple):
    """What runs here: its name, since when (seconds since 1970), and of which Kubernetes version it is."""

    name: str
    started: float
    version: str
    emulated_version: str


def statusz_page(component: Component, paths: Iterable[str], clock: Clock) -> Page:
    """The page of what runs here. `paths` are those of the other pages."""
    folders = sorted({f"/{path.split('/')[1]}" for path in paths})
    language = "python" + ".".join(map(str, sys.version_info[:3]))
    started = datetime.fromtimestamp(int(component.started), UTC)

    async def page(request: web.Request) -> web.StreamResponse:
        form = wanted_form(request.headers.get("Accept", ""), "Statusz")
        if form is None:
            return not_acceptable(request)
        up = max(0, int(clock.now() - component.started))
        if form.media_type == TEXT:
            lines = {
                "Started": f"{started:%a %b} {started.day:2d} {started:%H:%M:%S UTC %Y}",
                "Up": f"{up // 3600} hr {up // 60 % 60:02d} min {up % 60:02d} sec",
                "Go version": language,
                "Binary version": component.version,
                "Emulation version": component.emulated_version,
                "Paths": " ".join(folders),
            }
            text = "".join(f"{name}: {value}\n" for name, value in lines.items())
            return answer(f"\n{component.name} statusz\n{_NOTICE}\n\n{text}", sniffed=True)
        fields = {
            "metadata": {"name": component.name},
            "startTime": f"{started:%Y-%m-%dT%H:%M:%SZ}",
            "uptimeSeconds": up,
            "goVersion": language,
            "binaryVersion": component.version,
            "emulationVersion": component.emulated_version,
            "paths": folders,
        }
        return object_answer(request, form, "Statusz", fields)

    return page


def flagz_page(component: Component, flags: Callable[[], Mapping[str, str]]) -> Page:
    """The page of all flags with their values, by name; `flags` leaves out what is secret."""

    async def page(request: web.Request) -> web.StreamResponse:
        form = wanted_form(request.headers.get("Accept", ""), "Flagz")
        if form is None:
            return not_acceptable(request)
        given = dict(sorted(flags().items()))
        if form.media_type == TEXT:
            text = "".join(f"{name}={value}\n" for name, value in given.items())
            return answer(f"\n{component.name} flagz\n{_NOTICE}\n{text}", sniffed=True)
        return object_answer(request, form, "Flagz", {"metadata": {"name": component.name}, "flags": given})

    return page
