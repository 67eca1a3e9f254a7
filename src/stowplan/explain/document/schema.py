"""The JSON schema of all documents, generated from their types."""

from inspect import cleandoc
from typing import Any, Final

import msgspec

from stowplan.explain.document.cluster import (
    GroupMap,
    GroupsDocument,
    NodeDocument,
    NodesDocument,
    Overview,
    PodMap,
    PodsDocument,
)
from stowplan.explain.document.group import GroupDocument
from stowplan.explain.document.objects import EventsDocument, ObjectDocument
from stowplan.explain.document.part import Part
from stowplan.explain.document.past import AttentionDocument, MomentDocument
from stowplan.explain.document.pending import PendingDocument
from stowplan.explain.document.pod import PodDocument, SchedulingDocument
from stowplan.explain.document.queue import Board, CostsDocument, DecisionsDocument, QueueDocument
from stowplan.explain.document.tried import TriedDocument
from stowplan.explain.document.workload import WorkloadDocument, WorkloadsDocument

Explained = PodDocument | GroupDocument | WorkloadDocument
"""The answer to a question about a pod, a group or a workload."""


class Explanations(Part, frozen=True, tag_field="document", tag="list"):
    """Several pods, groups or workloads that were asked about at once."""

    items: tuple[Explained, ...]


DOCUMENTS: Final = (
    PodDocument,
    GroupDocument,
    WorkloadDocument,
    Explanations,
    PendingDocument,
    NodeDocument,
    SchedulingDocument,
    Board,
    Overview,
    NodesDocument,
    PodsDocument,
    GroupsDocument,
    PodMap,
    GroupMap,
    QueueDocument,
    DecisionsDocument,
    CostsDocument,
    ObjectDocument,
    EventsDocument,
    AttentionDocument,
    MomentDocument,
    WorkloadsDocument,
    TriedDocument,
)
"""All documents; the field `document` of their JSON tells them apart."""


def json_schema() -> dict[str, Any]:
    """The schema (JSON Schema 2020-12) of whatever is served, printed or rendered."""
    found, parts = msgspec.json.schema_components(DOCUMENTS, ref_template="#/$defs/{name}")
    for part in parts.values():
        part["description"] = cleandoc(part["description"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Documents of stowplan",
        "description": "Explanations and views of a scheduler. The field `document` says which one it is.",
        "oneOf": list(found),
        "$defs": parts,
    }


def schema_text() -> str:
    """The schema as it is published: `make schema` writes it to docs/decision-document.schema.json."""
    return (
        msgspec.json.format(msgspec.json.encode(json_schema(), order="deterministic"), indent=2).decode()
        + "\n"
    )
