"""Reading documentation pages: their code blocks, commands, files and links."""

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
    ROOT / "examples" / "README.md",
]

_BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(?:\.venv/bin/)?(stowplan [^`]+)`")
_LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_FILE = re.compile(r"# (\S+\.(?:py|yaml|csv))\n")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block. One that begins with a comment naming a file is that file."""

    language: str
    text: str

    @property
    def file(self) -> str | None:
        named = _FILE.match(self.text)
        return named.group(1) if named else None


def blocks(page: Path) -> list[Block]:
    return [Block(language, text) for language, text in _BLOCK.findall(page.read_text())]


def commands(page: Path) -> list[str]:
    """The command lines of a page: lines of console blocks that begin with `$ `, and those in sentences."""
    shown = [
        line.removeprefix("$ ")
        for block in blocks(page)
        if block.language == "console"
        for line in block.text.splitlines()
        if line.startswith("$ ")
    ]
    return list(dict.fromkeys((*shown, *_INLINE.findall(_BLOCK.sub("", page.read_text())))))


def shown(page: Path) -> dict[str, str]:
    """The output that a page shows of commands: a block of text right after the command's block.

    Blocks with commands are left out: they show what happens elsewhere meanwhile.
    """
    text = page.read_text()
    return {
        command.text.removeprefix("$ ").strip(): output.text
        for command, output in pairwise(blocks(page))
        if f"```console\n{command.text}```\n\n```text\n{output.text}" in text
        and not output.text.startswith("$ ")
    }


def links(page: Path) -> list[tuple[Path, str]]:
    """Where a page links to in the repository: files, and headings in them."""
    found = _LINK.findall(_BLOCK.sub("", page.read_text()))
    return [
        (page.parent / path if path else page, anchor)
        for path, anchor in found
        if not path.startswith(("http://", "https://"))
    ]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = _HEADING.findall(_BLOCK.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def write_files(page: Path, folder: Path) -> None:
    """Write the files of a page into a folder."""
    for block in blocks(page):
        if block.file is not None:
            (folder / block.file).write_text(block.text)
