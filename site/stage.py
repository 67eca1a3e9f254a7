"""Lay out the pages of the documentation site, and look at what was built of them.

`stage` copies the pages to build/site with the folders they have here, so that their links lead to the same
places, and writes the reference: commands and flags as they print themselves, and pages on which the
docstrings of our interfaces are put. `check` makes sure that the site loads nothing from elsewhere.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.run.flags.parser import Flag

ROOT = Path(__file__).parents[1]
STAGED = ROOT / "build" / "site"
SETTINGS = Path(__file__).parent / "mkdocs.yml"
BUILT = ROOT / "dist" / "site"
PAGES = ("README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "examples")

INTERFACES = {
    "framework": ("The plugin interface", "stowplan.framework", "docs/plugins.md"),
    "testing": ("Testing", "stowplan.testing", "docs/plugins.md"),
    "simulate": ("Simulation", "stowplan.simulate", "docs/simulate.md"),
}
"""Pages of the reference: title, module whose public names are shown, page that explains it."""

_LOADED = re.compile(
    r'<(?:script|img|iframe)\b[^>]*\bsrc="(https?:[^"]+)"|<link\b[^>]*\bhref="(https?:[^"]+)"'
)


def stage() -> None:
    """Make build/site anew."""
    shutil.rmtree(STAGED, ignore_errors=True)
    for name in PAGES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, STAGED / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            STAGED.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, STAGED / name)
    reference = STAGED / "reference"
    reference.mkdir()
    (reference / "commands.md").write_text("\n".join(commands()))
    (reference / "flags.md").write_text("\n".join(flags()))
    for page, (title, module, about) in INTERFACES.items():
        (reference / f"{page}.md").write_text("\n".join(interface(title, module, about)))
    (STAGED.parent / "mkdocs.yml").write_text(SETTINGS.read_text() + "".join(others()))


def others() -> Iterator[str]:
    """The navigation of pages that have no place in it yet."""
    named = set(re.findall(r"([\w./-]+\.md)$", SETTINGS.read_text(), flags=re.MULTILINE))
    pages = {path.relative_to(STAGED).as_posix() for path in STAGED.rglob("*.md")}
    if pages - named:
        yield "- More:\n"
    for page in sorted(pages - named):
        yield f"  - {page}\n"


def commands() -> Iterator[str]:
    """Every command with its help."""
    from click import Context

    from stowplan.cli.main import stowplan

    top = Context(stowplan, info_name="stowplan", max_content_width=100, terminal_width=100)
    yield "# Commands\n"
    for name in stowplan.list_commands(top):
        command = stowplan.get_command(top, name)
        assert command is not None
        if name == "run":
            yield "## stowplan run\n\nIts flags are those of kube-scheduler: [flags](flags.md).\n"
            continue
        yield from _help(command, Context(command, info_name=name, parent=top))


def _help(command: object, context: object) -> Iterator[str]:
    from click import Command, Context, Group

    assert isinstance(command, Command)
    assert isinstance(context, Context)
    yield f"## {context.command_path}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _help(inner, Context(inner, info_name=name, parent=context))


def flags() -> Iterator[str]:
    """The flags of `stowplan run`, by their groups."""
    from stowplan.run.flags.table import GROUPS

    yield "# Flags of stowplan run\n"
    for group in GROUPS:
        yield f"## {group.heading}\n\n| flag | what it does |\n| --- | --- |"
        for flag in group.flags:
            notes = (flag.help, *(f"{word}: {text}." for word, text in _remarks(flag) if text))
            yield f"| `--{flag.name}` | {' '.join(notes)} |".replace("\n", " ")
        yield ""


def _remarks(flag: "Flag") -> Iterator[tuple[str, str]]:
    yield "Deprecated", flag.deprecated
    yield "Has no effect", flag.ignored


def interface(title: str, module: str, about: str) -> Iterator[str]:
    """The public names of a module."""
    import importlib

    names = getattr(importlib.import_module(module), "__all__", ())
    assert names, f"{module} has no __all__"
    page = Path(about).name
    yield f"# {title}\n\nWhat `{module}` offers, from the code. [{page}](../{about}) explains it.\n"
    for name in sorted(names):
        yield f"::: {module}.{name}\n"


def check() -> None:
    """Exit with a line for every page that loads something from elsewhere."""
    pages = sorted(BUILT.rglob("*.html"))
    found = [
        f"{page.relative_to(BUILT)}: loads {address}"
        for page in pages
        for match in _LOADED.finditer(page.read_text())
        for address in match.groups()
        if address and 'rel="canonical"' not in match[0]
    ]
    if not pages or found:
        sys.exit("\n".join(found) or f"{BUILT}: has no pages")
    print(f"{BUILT.relative_to(ROOT)}: {len(pages)} pages, nothing is loaded from elsewhere")


if __name__ == "__main__":
    {"stage": stage, "check": check}[sys.argv[1]]()
