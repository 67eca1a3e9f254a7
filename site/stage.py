"""Lay out the pages of the documentation site, and look at what was built of them.

`stage` copies the pages to build/site with the folders they have here, so that their links lead to the same
places, and writes the reference: commands, flags and metrics from the code, and pages on which the docstrings
of our interfaces are put. `check` makes sure that the site loads nothing from elsewhere.
"""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.server.flags.parser import Flag

ROOT = Path(__file__).parents[1]
STAGED = ROOT / "build" / "site"
SETTINGS = Path(__file__).parent / "mkdocs.yml"
FILES = (Path(__file__).parent / "wide.css", Path(__file__).parent / "iframe-worker.js")
BUILT = ROOT / "dist" / "site"
PAGES = (
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs",
    "examples",
    "deploy",
)

INTERFACES = {
    "framework": (
        "The plugin interface",
        "stowplan.framework",
        "docs/plugins.md",
        (
            "Plugin",
            "unschedulable",
            "unresolvable",
            "Status",
            "Code",
            "Cycle",
            "PodInfo",
            "NodeRow",
            "Handle",
        ),
    ),
    "testing": ("Testing", "stowplan.testing", "docs/plugins.md", ("cluster", "node", "pod", "Cluster")),
    "simulate": ("Simulation", "stowplan.simulate", "docs/simulate.md", ("Cluster", "Outcome")),
}
"""Pages of the reference: title, module whose public names are shown, page that explains it, names that come
first because everybody needs them."""

TASKS = {
    "docs/up.md": ("Start a cluster", "API server, controllers, kubelets and scheduler in one process."),
    "docs/explain.md": ("Find out why a pod is pending", "On any cluster, whoever schedules it."),
    "docs/plugins.md": ("Write a plugin", "In Python, tested in milliseconds."),
    "docs/deploy.md": ("Run it on a real cluster", "Beside kube-scheduler, or instead of it."),
    "docs/whatif.md": ("Plan a change", "Will it fit, what does a drain do, how many nodes to buy."),
    "docs/simulate.md": ("Simulate a day", "Arrivals, failures, autoscaling, cost; compare configurations."),
}
"""What the first page leads to."""

_NAMED_BY_FILE = re.compile(r"\[(?:[\w./-]*/)?\w[\w-]*\.md\]\((?P<path>[\w./-]+\.md)(?P<anchor>#[^)]+)?\)")
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
    (reference / "metrics.md").write_text("\n".join(metrics()))
    for page, about in INTERFACES.items():
        (reference / f"{page}.md").write_text("\n".join(interface(*about)))
    for path in STAGED.rglob("*.md"):
        path.write_text(titled(path))
    home = STAGED / "README.md"
    home.write_text("\n".join(welcome(home.read_text())))
    for file in FILES:
        shutil.copy(file, STAGED)
    (STAGED.parent / "mkdocs.yml").write_text(SETTINGS.read_text() + "".join(others()))


def titled(path: Path) -> str:
    """The text of a page, where links to other pages are named by their titles instead of their files."""

    def named(link: re.Match[str]) -> str:
        target = path.parent / link["path"]
        title = re.match(r"# (.+)", target.read_text()) if target.exists() else None
        return link[0] if title is None else f"[{title[1]}]({link['path']}{link['anchor'] or ''})"

    return _NAMED_BY_FILE.sub(named, path.read_text())


def welcome(readme: str) -> Iterator[str]:
    """The first page: what it is, where to go, then what the README says."""
    heading, _, rest = readme.partition("\n")
    description = re.search(r"^site_description: (.+)$", SETTINGS.read_text(), flags=re.MULTILINE)
    assert description is not None
    yield f"{heading}\n\n{description[1]}.\n{{: .tagline }}\n"
    yield '<div class="grid cards" markdown>\n'
    yield from (f"- [**{title}**]({page})  \n  {text}" for page, (title, text) in TASKS.items())
    yield f"\n</div>\n{rest}"


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
    from stowplan.server.flags.table import GROUPS

    yield "# Flags of stowplan run\n"
    for group in GROUPS:
        yield f"## {group.heading}\n\n| flag | type | default | what it does |\n| --- | --- | --- | --- |"
        for flag in group.flags:
            notes = (flag.help, *(f"{word}: {text}." for word, text in _remarks(flag) if text))
            default = flag.kind.show(flag.default)
            shown = "" if default in flag.kind.zeros else f"`{default}`"
            about = _in_table(" ".join(notes))
            yield f"| `--{flag.name}` | {_in_table(flag.kind.name)} | {_in_table(shown)} | {about} |"
        yield ""


def metrics() -> Iterator[str]:
    """The metrics of scheduling and of the process, as the newest release has them."""
    from stowplan.api.releases import NEWEST
    from stowplan.scheduler.metrics.catalogue import SCHEDULING
    from stowplan.scheduler.metrics.process_catalogue import ACCESS, FACTS, HEALTH, PROCESS, REQUESTS

    yield f"# Metrics\n\nWhat `/metrics` serves as Kubernetes {NEWEST.name}, from the code."
    yield "[metrics.md](../docs/metrics.md) explains it.\n"
    catalogues = {
        "Scheduling": SCHEDULING,
        "The process": PROCESS,
        "Requests to the API server": REQUESTS,
        "Requests to the secure port": ACCESS,
        "Health": HEALTH,
        "Facts": FACTS,
    }
    for heading, catalogue in catalogues.items():
        yield f"## {heading}\n\n| metric and its labels | kind | stability | what it counts |"
        yield "| --- | --- | --- | --- |"
        for kind, described in zip(("counter", "gauge", "histogram"), catalogue, strict=True):
            for one in described:
                now = one.in_release(NEWEST)
                if now is not None:
                    name = "<br>".join((f"`{now.full_name}`", ", ".join(now.labels)))
                    gate = f" Only with the feature gate {now.gate}." if now.gate else ""
                    text = _in_table(now.help + gate)
                    yield f"| {name} | {kind} | {now.stability} | {text} |"
        yield ""


def _in_table(text: str) -> str:
    return text.replace("\n", "<br>").replace("|", "\\|")


def _remarks(flag: "Flag") -> Iterator[tuple[str, str]]:
    yield "Deprecated", flag.deprecated
    yield "Has no effect", flag.ignored


def interface(title: str, module: str, about: str, first: tuple[str, ...]) -> Iterator[str]:
    """The public names of a module, some before the others."""
    import importlib

    names = getattr(importlib.import_module(module), "__all__", ())
    assert names, f"{module} has no __all__"
    page = Path(about).name
    yield f"# {title}\n\nWhat `{module}` offers, from the code. [{page}](../{about}) explains it.\n"
    assert set(first) <= set(names), f"{module}: {set(first) - set(names)} are not in __all__"
    for name in (*first, *sorted(set(names) - set(first))):
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
