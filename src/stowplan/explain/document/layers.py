"""Parts of documents about layers: which scheduler decides a pod, how far it came, and what was not read."""

from typing import Literal

from stowplan.explain.document.part import Part, SparsePart

DeciderKind = Literal["this", "other", "nobody", "unknown"]
StageName = Literal[
    "wanted", "created", "admitted", "gated", "queued", "placed", "bound", "volumes", "started"
]
StageState = Literal["done", "stopped", "unknown"]


class Decider(Part, frozen=True):
    """The scheduler that decides a pod.

    `this`: the scheduler that answers, or the configuration that is evaluated, with its `profile`. `other`:
    another scheduler that is seen to work. `nobody`: no scheduler of that name is seen. `unknown`: what would
    tell was not read.
    """

    scheduler: str
    kind: DeciderKind
    profile: str | None = None
    text: str = ""


class MissingObject(SparsePart, frozen=True):
    """An object that a pod names and that does not exist. `near` exists and has almost the same name."""

    kind: str
    name: str
    near: str = ""


class Stage(SparsePart, frozen=True):
    """A layer that a pod or workload passes on its way from a wish to running containers.

    The first one that is `stopped` is the headline: `text` says why, in the words of the component that
    stopped it, `remedy` what helps. Layers after it are absent.
    """

    name: StageName
    state: StageState
    text: str = ""
    remedy: str = ""
