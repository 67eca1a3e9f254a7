"""Answer to a question that was tried on a copy of the cluster: fit, what-if, compare, explain."""

from typing import Any

import msgspec

from stowplan.explain.document.cluster import NodesDocument
from stowplan.explain.document.part import Part
from stowplan.explain.document.pod import PodDocument


class TryLimits(Part, frozen=True):
    """Limits of one question: seconds, and MiB of memory besides those of the scheduler."""

    seconds: float = 10.0
    memory: int = 1024


class TriedDocument(Part, frozen=True, kw_only=True, tag_field="document", tag="tried"):
    """Result of a question. Nothing was written to the cluster.

    `result` is the document that the command prints with `-o json` (fit, whatif, compare), `pods` are the
    explanations (explain). `before` and `after` are the nodes at both moments and `report` an HTML file, if
    they are asked for.
    """

    question: str
    summary: str
    command: str
    """The command line that gives the same answer."""
    result: dict[str, Any] | None = None
    pods: tuple[PodDocument, ...] = ()
    edits: tuple[str, ...] = ()
    """Manifests of one pod or workload with each of its `changes` made; "" for a change of something else."""
    notes: tuple[str, ...] = ()
    """Objects that were not read or used, with the effect on the answer."""
    before: NodesDocument | None = None
    after: NodesDocument | None = None
    report: str = ""
    seconds: float = 0.0
    """CPU time of the answer."""
    limits: TryLimits = msgspec.field(default_factory=TryLimits)
