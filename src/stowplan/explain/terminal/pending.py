"""The causes that pods wait for, as text."""

from collections.abc import Sequence

from msgspec.structs import replace

from stowplan.explain.document.pending import Cause, PendingDocument
from stowplan.explain.layout import PLAIN, Palette, cleaned, hanging, middle
from stowplan.explain.sentences.lists import told_pending
from stowplan.explain.states import NOT_CREATED, NOT_OURS, NOT_RUNNING
from stowplan.explain.terminal.pod import incomplete_lines


def only_of(found: PendingDocument, namespace: str) -> PendingDocument:
    """The causes of the pods of one namespace, of all of them; all namespaces if none is given."""

    def of_namespace(causes: Sequence[Cause]) -> tuple[Cause, ...]:
        return tuple(cause for cause in causes if not namespace or cause.name.partition("/")[0] == namespace)

    causes = of_namespace(found.causes)
    return told_pending(
        replace(
            found,
            pods=sum(cause.count for cause in causes),
            causes=causes,
            elsewhere=of_namespace(found.elsewhere),
            not_started=of_namespace(found.not_started),
            not_created=of_namespace(found.not_created),
        )
    )


def render_pending(found: PendingDocument, palette: Palette = PLAIN) -> str:
    """The causes as text."""
    found = cleaned(found)
    lines = [palette.paint(found.headline, "bold"), *incomplete_lines(found.incomplete, palette)]
    for heading, causes in (
        ("", found.causes),
        (NOT_OURS, found.elsewhere),
        (NOT_RUNNING, found.not_started),
        (NOT_CREATED, found.not_created),
    ):
        if causes:
            lines += ["", *([palette.paint(heading, "bold")] if heading else []), *_causes(causes, palette)]
    if found.source and len(lines) > 1:
        lines += ["", *hanging("source: ", found.source)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _causes(causes: Sequence[Cause], palette: Palette) -> list[str]:
    lines: list[str] = []
    names = [middle(cause.name, 32) for cause in causes]
    width, figure = max(map(len, names)), len(str(causes[0].count)) + 1
    for name, cause in zip(names, causes, strict=True):
        count = palette.paint(f"{cause.count:>{figure}}", "yellow")
        lines += hanging(f"{count}  {name:<{width}}  ", cause.reason)
        if cause.help:
            helped = palette.paint("helped by:", "green")
            lines += hanging(f"{'':>{figure}}  {'':<{width}}  {helped} ", cause.help)
    return lines
