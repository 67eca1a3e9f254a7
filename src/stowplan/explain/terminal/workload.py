"""A workload's document for a terminal: the answer first, then commands, then its waiting pods by cause."""

from collections.abc import Sequence
from typing import Final

from stowplan.explain.document.pending import Cause
from stowplan.explain.document.workload import WorkloadChange, WorkloadDocument
from stowplan.explain.layout import PLAIN, Palette, cleaned, hanging, indented, joined, middle, plural
from stowplan.explain.terminal.pod import NAME, incomplete_lines, render

PODS: Final = 3
"""How many causes are explained with the evidence unless all are asked for."""


def render_workload(found: WorkloadDocument, *, all_nodes: bool = False, palette: Palette = PLAIN) -> str:
    """The explanation as text."""
    found = cleaned(found)
    lines = [*_headline(found, palette), *incomplete_lines(found.incomplete, palette)]
    if found.remedy:
        lines += hanging(palette.paint("helped by: ", "green"), found.remedy)
    lines += joined((*found.situation, f"source: {found.source}"))
    for note in found.notes:
        lines += hanging("", note)
    lines.append("")
    if found.changes:
        lines += [palette.paint("Then its controller creates pods", "bold"), *_changes(found.changes), ""]
    shown = found.causes if all_nodes else found.causes[:PODS]
    for cause in shown:
        lines += [*_cause(cause, all_nodes, palette), ""]
    left = found.causes[len(shown) :]
    for cause in left:
        lines += hanging(f"{plural(cause.count, 'pod')}  {middle(cause.name, NAME)}  ", cause.reason)
    return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"


def _headline(found: WorkloadDocument, palette: Palette) -> list[str]:
    begin = f"{found.kind} {found.workload}"
    says = found.headline.removeprefix(begin)
    return hanging(f"{found.kind} {palette.paint(found.workload, 'bold')}", says)


def _changes(changes: Sequence[WorkloadChange]) -> list[str]:
    """Each change with its command, which stays on one line to be copied."""
    lines: list[str] = []
    for change in changes:
        lines += hanging("  ", change.text)
        lines += indented(change.command.splitlines(), 4)
    return lines


def _cause(cause: Cause, all_nodes: bool, palette: Palette) -> list[str]:
    """The pods of a cause, with the explanation of one of them."""
    if cause.explanation is None:
        return hanging(f"{plural(cause.count, 'pod')}  {middle(cause.name, NAME)}  ", cause.reason)
    lines = render(cause.explanation, all_nodes=all_nodes, palette=palette).rstrip("\n").split("\n")
    if cause.count == 1:
        return lines
    heading = f"{plural(cause.count, 'pod')}, such as {middle(cause.explanation.pod, NAME)}"
    return [palette.paint(heading, "bold"), *lines]
