"""Changing how much is logged while the process runs."""

from typing import Final

from aiohttp import web

from stowplan.gocompat.quoting import quote
from stowplan.logs import Journal
from stowplan.serving.pages.answers import answer
from stowplan.serving.routing import Page, Pages

_PLAIN: Final = "text/plain"
_LARGEST: Final = 2**32 - 1
_INDEX: Final = """<html>
<head>
<title>/debug/flags/</title>
</head>
<body>
/debug/flags/<br>
<br>
flags:<br>
<table>
<tr>v<br>
</table>
<br>
full flags configurable<br>
</body>
</html>
"""


def verbosity_pages(journal: Journal) -> Pages:
    """`PUT /debug/flags/v` with a number sets the verbosity; the pages above list that this can be done."""
    return {"/debug/flags": _index, "/debug/flags/": _index, "/debug/flags/v": _setting(journal)}


async def _index(request: web.Request) -> web.StreamResponse:
    return answer(_INDEX, "text/html; charset=utf-8", sniffed=True)


def _setting(journal: Journal) -> Page:
    async def page(request: web.Request) -> web.StreamResponse:
        if request.method != "PUT":
            return answer("unsupported http method\n", _PLAIN, status=406)
        given = (await request.read()).decode(errors="replace")
        problem = _problem(given)
        if problem:
            text = f"strconv.ParseUint: parsing {quote(given)}: {problem}\n"
            return answer(text, _PLAIN, status=400)
        journal.set_verbosity(int(given))
        return answer(f"successfully set klog.logging.verbosity to {given}\n", _PLAIN)

    return page


def _problem(text: str) -> str:
    if not text.isascii() or not text.isdigit():
        return "invalid syntax"
    return "value out of range" if len(text) > len(str(_LARGEST)) or int(text) > _LARGEST else ""
