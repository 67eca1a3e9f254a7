"""The causes that pods wait for, as text."""

from collections.abc import Mapping
from typing import Any

from stowplan.explain.layout import PLAIN, Palette, cleaned, hanging, middle, plural


def only_of(document: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """The causes of the pods of one namespace, of all of them; all namespaces if none is given."""
    causes = [
        cause for cause in document["causes"] if not namespace or cause["name"].partition("/")[0] == namespace
    ]
    return {**document, "pods": sum(cause["count"] for cause in causes), "causes": causes}


def render(found: Mapping[str, Any], palette: Palette = PLAIN) -> str:
    """The causes as text, of the document that JSON shows."""
    found = cleaned(found)
    causes = found["causes"]
    if not causes:
        return "No pod waits.\n"
    heading = f"{plural(found['pods'], 'pod waits', 'pods wait')} on {plural(len(causes), 'cause')}"
    lines = [palette.paint(heading, "bold"), ""]
    names = [middle(cause["name"], 32) for cause in causes]
    width, figure = max(map(len, names)), len(str(causes[0]["count"])) + 1
    for name, cause in zip(names, causes, strict=True):
        count = palette.paint(f"{cause['count']:>{figure}}", "yellow")
        lines += hanging(f"{count}  {name:<{width}}  ", cause["reason"])
        helped = palette.paint("helped by:", "green")
        lines += hanging(f"{'':>{figure}}  {'':<{width}}  {helped} ", cause["help"])
    if found.get("source"):
        lines += ["", *hanging("source: ", found["source"])]
    return "\n".join(line.rstrip() for line in lines) + "\n"
