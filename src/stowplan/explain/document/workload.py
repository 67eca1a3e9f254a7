"""The document about a workload: how many pods it wants and has, and what keeps it from more."""

from typing import Literal

from stowplan.explain.document.layers import Stage, StageName
from stowplan.explain.document.part import Part, SparsePart
from stowplan.explain.document.pending import Cause

WorkloadState = Literal["running", "waiting", "idle", "failed"]


class WorkloadChange(SparsePart, frozen=True):
    """A change after which the controller creates pods, with the command for it."""

    kind: str
    text: str
    command: str = ""


class WorkloadDocument(Part, frozen=True, kw_only=True, tag_field="document", tag="workload"):
    """Everything that is known about a Deployment, StatefulSet, DaemonSet, Job, CronJob or ReplicaSet.

    `state` is `running` if all wanted pods run, `waiting` if not, `idle` if none is wanted: paused,
    suspended, scaled to 0 or complete. A Job may also have `failed`.
    """

    workload: str
    kind: str
    state: WorkloadState
    source: str
    time: str | None = None

    headline: str = ""
    """The workload, its pods and the first layer that does not go on, in one sentence."""
    remedy: str = ""
    """Remedy in words; empty if nothing is wrong or none was found."""
    situation: tuple[str, ...] = ()
    """The numbers of pods that are wanted, created, placed and running."""
    notes: tuple[str, ...] = ()
    """Other facts about it, such as a rollout that is paused."""
    incomplete: tuple[str, ...] = ()
    """Things not read or not evaluated although the answer depends on them."""

    wanted: int | None = None
    """Pods that it wants at this moment; null if that is not known."""
    created: int = 0
    placed: int = 0
    running: int = 0
    """Pods that run and are ready."""
    succeeded: int = 0
    failed: int = 0
    ending: int = 0
    """Pods that are being deleted."""

    stages: tuple[Stage, ...] = ()
    """The layers that it has passed, and the one that stops it."""
    stopped_at: StageName | None = None
    """The layer that stops it; null if none does."""
    changes: tuple[WorkloadChange, ...] = ()
    """Changes that let the controller create pods. Those that place a pod are in `causes`."""
    causes: tuple[Cause, ...] = ()
    """Its pods that do not run by cause, each with the explanation of one of them."""
    unexplained: int = 0
    """Pods that do not run and were not looked at: they are many."""

    @property
    def stopped(self) -> Stage | None:
        """The layer that does not go on."""
        return next((stage for stage in self.stages if stage.state == "stopped"), None)


class WorkloadLine(Part, frozen=True):
    """A workload as one line of a list."""

    workload: str
    kind: str


class WorkloadsDocument(Part, frozen=True, tag_field="document", tag="workloads"):
    """Workloads that were searched for, and how many were found."""

    items: tuple[WorkloadLine, ...] = ()
    total: int = 0
