"""The configuration in use."""

from collections.abc import Callable

from aiohttp import web

from stowplan.config.dump import dump
from stowplan.config.types import SchedulerConfig
from stowplan.gocompat.jsontext import as_json
from stowplan.serving.pages.answers import answer
from stowplan.serving.routing import Page


def configz_page(config: Callable[[], SchedulerConfig]) -> Page:
    """The page of the configuration, as an object of version v1."""

    async def page(request: web.Request) -> web.StreamResponse:
        return answer(as_json({"componentconfig": dump(config())}), "application/json")

    return page
