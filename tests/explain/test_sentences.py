"""Sentences are made once: the text shows those of the document, and the page makes none of its own."""

from importlib.resources import files

import pytest

from stowplan.explain.document.group import GroupDocument
from stowplan.explain.document.layers import MissingObject
from stowplan.explain.document.pod import (
    Attempt,
    Change,
    ClaimNote,
    FunnelLine,
    GroupChange,
    NodeGroup,
    NodeScore,
    PodDocument,
    QueueState,
    RequeueEvent,
    TooLarge,
)
from stowplan.explain.document.preemption import Eviction, Preemption
from stowplan.explain.explainers.elsewhere import with_gate_change
from stowplan.explain.explainers.members import as_member
from stowplan.explain.sentences.group import told_group
from stowplan.explain.sentences.placed import obstacle
from stowplan.explain.sentences.pod import told_pod
from stowplan.explain.sentences.words import brief
from stowplan.explain.terminal.pod import render

LONG = "team/" + "a-very-long-name-" * 4 + "0"
NOTHING = PodDocument(pod="team/web", state="pending", source="a test", nodes=3)
SHORT_OF_CPU = FunnelLine("NodeResourcesFit", "Insufficient cpu", 2, ("a", "b"))
TAINTED = FunnelLine("TaintToleration", "node(s) had untolerated taint(s)", 1, ("c",))
GROUP = GroupDocument(
    group="team/train",
    kind="PodGroup",
    state="waiting",
    source="a test",
    reason="2 of 4 needed members would fit in rack-a",
    changes=(GroupChange("minimum", "minCount 2 instead of 4", "rack-a", "rack-a"),),
)


def pod(**fields: object) -> PodDocument:
    plain = {name: getattr(NOTHING, name) for name in NOTHING.__struct_fields__}
    return told_pod(PodDocument(**{**plain, **fields}), 1000.0)


PENDING = pod(
    funnel=(SHORT_OF_CPU, TAINTED),
    groups_of_nodes=(
        NodeGroup(
            name="2 nodes", nodes=2, plugin="NodeResourcesFit", text="1 cpu short", meant=True, size=0.5
        ),
        NodeGroup(name="c", nodes=1, plugin="TaintToleration", text="taint a:NoSchedule"),
    ),
    changes=(Change("requests", "request 2 cpu (now 3)", "a", 1, outcome="a"),),
    preemption=Preemption(None, (), 0, "", 3, (), "Preemption does not help: because"),
    wakes=(RequeueEvent("Node", ("Add",), "NodeResourcesFit"),),
    claims=(ClaimNote("data", "does not exist"),),
    attempts=(Attempt(7, "1970-01-01T00:16:30Z"), Attempt(6, "1970-01-01T00:10:00Z")),
    queue=QueueState("backoff", until="1970-01-01T00:17:00Z"),
)
PLACED = pod(
    state="placed",
    node="a",
    would_go_to="b",
    feasible=2,
    scores=(NodeScore("b", 30, {"X": 30}), NodeScore("a", 20, {"X": 20})),
    weights={"X": 1},
    margin=10,
    decided_by="X",
    evictions=Eviction(node="a", victims=("team/x", "team/y")),
)


@pytest.mark.parametrize(
    ("found", "headline", "cause", "remedy"),
    [
        (
            PENDING,
            "team/web is pending: 1 cpu short on 2 nodes",
            "1 cpu short on 2 nodes",
            "request 2 cpu (now 3)",
        ),
        (
            pod(funnel=(SHORT_OF_CPU,), too_large=(TooLarge("cpu", "9", "8"),)),
            "team/web is pending: larger than any node (cpu 9, largest 8)",
            "larger than any node (cpu 9, largest 8)",
            "a larger node type",
        ),
        (
            pod(gates=("quota",), would_go_to="a", feasible=3),
            "team/web is pending: held by scheduling gate quota",
            "held by scheduling gate quota",
            "the owner of gate quota removes it when its condition is met",
        ),
        (
            as_member(pod(state="fits", would_go_to="a", feasible=3), told_group(GROUP)),
            "team/web is pending: PodGroup team/train is waiting: 2 of 4 needed members would fit in rack-a",
            "PodGroup: 2 of 4 needed members would fit in rack-a",
            "minCount 2 instead of 4 in rack-a",
        ),
        (PLACED, "team/web is on a", "", ""),
        (pod(state="fits", would_go_to="a", feasible=2), "team/web would go to a: 2 nodes of 3 fit", "", ""),
    ],
)
def test_headline_cause_and_remedy(found: PodDocument, headline: str, cause: str, remedy: str) -> None:
    assert (found.headline, found.cause, found.remedy) == (headline, cause, remedy)


def test_the_last_attempt_is_the_one_that_is_named() -> None:
    assert PENDING.situation == ("attempt 7, 10s ago", "in backoff until in 20s", "source: a test")


@pytest.mark.parametrize("found", [PENDING, PLACED], ids=["pending", "placed"])
def test_the_text_has_every_sentence_of_the_document(found: PodDocument) -> None:
    text = " ".join(render(found).split())
    notes = [": ".join(filter(None, (note.about, note.text))) for note in found.notes]
    said = [found.headline, *found.situation, *notes, *found.why, *found.awaits]
    said += [] if found.preemption is None else [found.preemption.headline]
    assert not [sentence for sentence in said if sentence not in text]


def test_names_are_cut_by_the_text_and_not_in_the_document() -> None:
    found = pod(evictions=Eviction(node="a", victims=(LONG,)))
    assert found.notes[0].text == f"evicted {LONG} from a for it"
    assert LONG not in render(found)
    assert "evicted team/a-very-long-nam…" in render(found)


def test_the_gate_of_a_known_controller_is_that_controllers_to_remove() -> None:
    own = told_pod(with_gate_change(pod(gates=("example.com/ok",), would_go_to="a", feasible=3)))
    [change] = own.changes
    assert change.text == "remove gate example.com/ok by hand"
    assert change.command.startswith("kubectl patch pod/web -n team --type json")
    kueue = told_pod(with_gate_change(pod(gates=("kueue.x-k8s.io/admission",), would_go_to="a", feasible=3)))
    assert not kueue.changes
    assert kueue.remedy == (
        "Kueue removes gate kueue.x-k8s.io/admission: "
        "kubectl get workloads.kueue.x-k8s.io -n team says why it waits"
    )
    assert not with_gate_change(pod(gates=("example.com/ok",))).changes


def test_a_gate_and_a_node_that_is_missing_are_both_told() -> None:
    request = Change("request", "request 2 cpu", "a", 1, patch={"spec": {}})
    found = told_pod(with_gate_change(pod(gates=("ok",), funnel=(SHORT_OF_CPU,), changes=(request,))))
    assert found.headline == "team/web is pending: held by scheduling gate ok; then: " + obstacle(
        pod(funnel=(SHORT_OF_CPU,))
    )
    assert not found.changes
    assert found.remedy.endswith("; then request 2 cpu")


def test_objects_that_do_not_exist_are_the_cause_before_any_node() -> None:
    missing = MissingObject("ResourceClaim", "gpu", "gpus"), MissingObject("ResourceClaimTemplate", "big")
    found = told_pod(pod(missing=missing, funnel=(SHORT_OF_CPU,)))
    named = "ResourceClaim gpu and ResourceClaimTemplate big do not exist"
    assert (found.headline, found.cause) == (f"team/web is pending: {named}", named)
    remedy = "create ResourceClaim gpu, or name gpus, which exists; create ResourceClaimTemplate big"
    assert found.remedy == remedy
    assert found.stopped_at == "queued"


def test_messages_in_brief() -> None:
    message = "pod group is unschedulable, 0/3 nodes are available: 3 Insufficient cpu."
    assert brief(message) == "3 Insufficient cpu."
    assert brief("something else") == "something else"


@pytest.mark.parametrize("name", ["pod.js", "group.js", "pending.js", "queue.js", "node.js"])
def test_the_page_makes_no_sentence(name: str) -> None:
    """Words that only headlines, causes and remedies have stand in the document, not in the page's code."""
    source = (files("stowplan.explain.web") / "page" / name).read_text("utf-8")
    words = (
        "no node fits (",
        "equally good",
        "had to leave",
        "would be placed",
        "is pending",
        "of lower",
    )
    assert not [word for word in words if word in source]
