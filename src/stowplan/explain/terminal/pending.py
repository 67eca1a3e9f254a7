"""The causes that pods wait for, as text."""

from msgspec.structs import replace

from stowplan.explain.document.pending import PendingDocument
from stowplan.explain.layout import PLAIN, Palette, cleaned, hanging, middle
from stowplan.explain.sentences import told_pending


def only_of(found: PendingDocument, namespace: str) -> PendingDocument:
    """The causes of the pods of one namespace, of all of them; all namespaces if none is given."""
    causes = tuple(
        cause for cause in found.causes if not namespace or cause.name.partition("/")[0] == namespace
    )
    return told_pending(replace(found, pods=sum(cause.count for cause in causes), causes=causes))


def render_pending(found: PendingDocument, palette: Palette = PLAIN) -> str:
    """The causes as text."""
    found = cleaned(found)
    causes = found.causes
    if not causes:
        return f"{found.headline}\n"
    lines = [palette.paint(found.headline, "bold"), ""]
    names = [middle(cause.name, 32) for cause in causes]
    width, figure = max(map(len, names)), len(str(causes[0].count)) + 1
    for name, cause in zip(names, causes, strict=True):
        count = palette.paint(f"{cause.count:>{figure}}", "yellow")
        lines += hanging(f"{count}  {name:<{width}}  ", cause.reason)
        helped = palette.paint("helped by:", "green")
        lines += hanging(f"{'':>{figure}}  {'':<{width}}  {helped} ", cause.help)
    if found.source:
        lines += ["", *hanging("source: ", found.source)]
    return "\n".join(line.rstrip() for line in lines) + "\n"
