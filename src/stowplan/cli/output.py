"""How commands print their results: a report as text, as data, and as a page."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stowplan.explain.layout import Palette, safe

if TYPE_CHECKING:
    from stowplan.explain.report import Report


def page_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option that writes a page; the command is given its path as `page`."""
    return click.option(
        "--report",
        "--html",
        "page",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        help="Also write the result to this HTML file.",
    )(command)


def report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of commands whose result is a report: `as_json` and `page`."""
    json = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
    return json(page_option(command))


def say(text: str, *, err: bool = False, nl: bool = True, color: bool | None = None) -> None:
    """Print text for people. Names and messages in it are untrusted: see `layout.safe`."""
    click.echo(safe(text, coloured=bool(color)), err=err, nl=nl, color=color)


def show(report: "Report", *, as_json: bool = False, page: Path | None = None, form: str = "text") -> None:
    """Print a report in the form that was asked for, `text`, `json` or `yaml`, and write the page."""
    from stowplan.explain.report.page import render as render_page
    from stowplan.explain.report.terminal import render

    if as_json or form == "json":
        click.echo(report.json())
    elif form == "yaml":
        from stowplan.cli.explain.explain import dump

        dump(report.data, "yaml")
    else:
        palette = Palette.of(sys.stdout, os.environ)
        say("\n".join(render(report, palette=palette)), color=palette.enabled)
    if page is not None:
        page.write_text(render_page(report), encoding="utf-8")
        say(f"report: {page}", err=True)
