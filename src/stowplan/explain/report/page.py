"""A report as one HTML file: opens from disk, asks nobody for anything, and shows names only as text.

The modules that draw the live page draw the report, too. They are put into the file, and a content security
policy lets nothing else run: the hashes of script and style are in it, and the report is data.
"""

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

from stowplan.explain.report.model import Report

FOLDER: Final[Traversable] = files(__package__).joinpath("page")
"""Modules and styles that the live page and reports share."""

_MODULES: Final = ("dom.js", "charts.js", "tiles.js", "report.js")
_STYLES: Final = ("base.css", "report.css")
_IMPORT: Final = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(async )?(function|class|const|let) )", re.MULTILINE)


def render(report: Report) -> str:
    """The report as an HTML document."""
    script, style = _script(), _style()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = {"title": report.title, "summary": report.summary, "parts": report.parts, "data": report.data}
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(report.title)}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body class="report">
<noscript>
<h1>{escape(report.title)}</h1>
<p>{escape(report.summary)}</p>
<p>The charts need JavaScript.</p>
</noscript>
<script type="application/json" id="report">{_data(shown)}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def _data(document: object) -> str:
    """JSON in which nothing can end the element it is in."""
    return msgspec.json.encode(document).decode().replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


@cache
def _script() -> str:
    """Our modules as one: without their imports of each other."""
    sources = (FOLDER.joinpath(name).read_text(encoding="utf-8") for name in _MODULES)
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", source)) for source in sources)


@cache
def _style() -> str:
    return "\n".join(FOLDER.joinpath(name).read_text(encoding="utf-8") for name in _STYLES)
