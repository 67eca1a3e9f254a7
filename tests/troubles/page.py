"""docs/troubles.md, made from the corpus: `PYTHONPATH=tests python -m troubles --page`.

The answers in it are those of the cluster with few nodes; a test compares each section with a new answer.
"""

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from troubles.corpus import Trouble, troubles

PAGE: Final = Path(__file__).parents[2] / "docs" / "troubles.md"

_HEAD: Final = """# Troubles

{count} causes that keep pods from running, from a controller that creates no pod to a container that never
becomes ready: what people see, what stowplan says, what it means and what helps. Each is a test: it starts
the trouble in a cluster of 8 and of 200 nodes, compares the answer, and runs every command that is offered,
as it is printed, until the pod runs. The answers below are those of the small cluster. On any cluster, ask
`kubectl why pod/web -n shop`, or `kubectl why deployment/web -n shop`.

[explain.md](explain.md) says how to read an answer. `make troubles` writes this page.
"""

_STAGES: Final = {
    "created": "No pod is created",
    "admitted": "The pod is refused",
    "gated": "The pod is held back",
    "queued": "Nothing schedules the pod",
    "placed": "No node fits",
    "bound": "The pod is not bound",
    "volumes": "The volume is not ready",
    "started": "The containers do not run",
}


def page(answers: Mapping[str, str]) -> str:
    """The page. `answers` has the text of `stowplan explain` by the name of the trouble."""
    parts = [_HEAD.format(count=len(troubles()))]
    for stage, members in groupby(troubles(), key=lambda one: one.stage):
        parts.append(f"\n## {_STAGES[stage]}\n")
        parts += [f"\n{section(one, answers[one.name])}" for one in members]
    return "".join(parts)


def section(trouble: Trouble, answer: str) -> str:
    """The section of one trouble."""
    said = "\n".join(_first_paragraphs(answer))
    return (
        f"### {trouble.title}\n\n{trouble.see.strip()}\n\n```text\n{said}\n```\n\n"
        f"{trouble.means.strip()} {trouble.helps.strip()}\n"
    )


def section_of(text: str, trouble: Trouble) -> str:
    """The section about a trouble as a page has it; empty if it has none."""
    _, found, rest = text.partition(f"### {trouble.title}\n")
    end = min((place for mark in ("\n## ", "\n### ") if (place := rest.find(mark)) >= 0), default=len(rest))
    return f"{found}{rest[:end]}".rstrip("\n") + "\n" if found else ""


def _first_paragraphs(answer: str) -> list[str]:
    """The answer without its evidence: everything up to the second empty line, and no times or sources."""
    kept: list[str] = []
    blanks = 0
    for line in answer.splitlines():
        blanks += not line.strip()
        if blanks == 2:
            break
        if "source: " not in line:
            kept.append(line.rstrip())
    while kept and not kept[-1]:
        kept.pop()
    return kept
