"""`stowplan man`: manual pages, made from the help of the commands and the flags of `stowplan run`."""

import inspect
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from stowplan import __version__

Page = list[str]
"""Lines of roff."""

_SEE: Final = "https://kubernetes.io/docs/reference/command-line-tools-reference/kube-scheduler/"


@click.command("man")
@click.argument("command", nargs=-1)
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the pages of all commands into this directory.",
)
@click.pass_context
def man(ctx: click.Context, command: tuple[str, ...], directory: Path | None) -> None:
    """Print the manual page of a command.

    \b
    stowplan man up | man -l -
    stowplan man --directory ~/.local/share/man/man1
    """
    root = ctx.find_root().command
    if directory is None:
        click.echo(page(*_find(root, command)), nl=False)
        return
    if command:
        raise click.UsageError("expected a COMMAND or --directory, not both")
    directory.mkdir(parents=True, exist_ok=True)
    for words, one in every_command(("stowplan",), root):
        (directory / f"{'-'.join(words)}.1").write_text(page(words, one), "utf-8")


def _find(root: click.Command, names: Sequence[str]) -> tuple[tuple[str, ...], click.Command]:
    words: tuple[str, ...] = ("stowplan",)
    found = root
    for name in names:
        inner = found.commands.get(name) if isinstance(found, click.Group) else None
        if inner is None:
            raise click.ClickException(f"no such command: {' '.join((*words, name))}")
        words, found = (*words, name), inner
    return words, found


def every_command(
    words: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and everything below it, each with the words that it is called by."""
    yield words, command
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            yield from every_command((*words, name), command.commands[name])


# A page


def page(words: tuple[str, ...], command: click.Command) -> str:
    """The manual page of one command."""
    ctx = click.Context(command, info_name=" ".join(words))
    lines = [
        f'.TH "{"-".join(words).upper()}" 1 "" "stowplan {__version__}" "stowplan"',
        ".SH NAME",
        f"{_text('-'.join(words))} \\- {_text(command.get_short_help_str(200).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {_text(' '.join(words))}",
        _text(" ".join(command.collect_usage_pieces(ctx)) or "[FLAGS]"),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
        *_options(command, ctx),
        *_commands(words, command),
        *_see_also(words, command),
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _options(command: click.Command, ctx: click.Context) -> Page:
    if command.name == "run":
        return _run_flags()
    records = [record for one in command.get_params(ctx) if (record := one.get_help_record(ctx)) is not None]
    lines: Page = [".SH OPTIONS"] if records else []
    for option, text in records:
        lines += [".TP", f".B {_text(option)}", _text(text)]
    return lines


def _run_flags() -> Page:
    """`stowplan run` reads its arguments itself, as kube-scheduler does."""
    from stowplan.server.flags.table import GROUPS

    lines: Page = [".SH FLAGS"]
    for group in GROUPS:
        shown = [flag for flag in group.flags if not flag.deprecated]
        if shown:
            lines += [f".SS {_text(group.name[:1].upper() + group.name[1:])} flags"]
        for flag in shown:
            lines += [".TP", f".B {_text(flag.shown)}", _text(flag.help)]
    return [*lines, ".SH NOTES", f"Flags of kube-scheduler are described at {_text(_SEE)}"]


def _commands(words: tuple[str, ...], command: click.Command) -> Page:
    if not isinstance(command, click.Group):
        return []
    lines: Page = [".SH COMMANDS"]
    for name in sorted(command.commands):
        summary = command.commands[name].get_short_help_str(200)
        lines += [".TP", f".BR {_text('-'.join((*words, name)))} (1)", _text(summary)]
    return lines


def _see_also(words: tuple[str, ...], command: click.Command) -> Page:
    others = [words[:-1]] if len(words) > 1 else [(*words, "up"), (*words, "run"), (*words, "explain")]
    return [".SH SEE ALSO", ", ".join(f"\\fB{_text('-'.join(one))}\\fR(1)" for one in others)]


def _paragraphs(text: str) -> Page:
    """Help text as roff: paragraphs that click does not wrap stay as they are."""
    lines: Page = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        lines.append(".PP")
        if part.startswith("\b"):
            lines += [".nf", ".RS 4", *map(_text, part.splitlines()[1:]), ".RE", ".fi"]
        else:
            lines.append(_text(" ".join(part.split())))
    return lines[1:]


def _text(text: str) -> str:
    """Text that roff prints as it is."""
    escaped = " ".join(text.split("\n")).replace("\\", "\\e").replace("-", "\\-")
    escaped = "".join(c if c.isascii() else f"\\[u{ord(c):04X}]" for c in escaped)
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped
