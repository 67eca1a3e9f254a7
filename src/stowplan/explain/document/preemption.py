"""Preemption in a document: what was done or would be done, for a pod or for a group of pods."""

from stowplan.explain.document.part import Part, SparsePart


class RuledOutExample(Part, frozen=True):
    """A node that was not chosen, what stands against it, and which pods would have had to go."""

    node: str
    text: str
    victims: tuple[str, ...]


class PreemptionLine(Part, frozen=True):
    """Nodes that were not chosen for one reason; candidates by the criterion by which they lost."""

    criterion: str | None
    reason: str
    nodes: int
    examples: tuple[RuledOutExample, ...]


class ChosenBy(Part, frozen=True):
    """The criterion that decided between the candidates, by name and as a phrase."""

    criterion: str
    text: str


class Spared(SparsePart, frozen=True):
    """Pods of lower priority that stay on the chosen node: some by name, and how many there are."""

    pods: tuple[str, ...]
    count: int
    headline: str = ""


class Preemption(SparsePart, frozen=True):
    """A search for victims: the node and the pods that have to go, or why there are none.

    `funnel` adds up to `nodes` where the nodes that were no candidates are known; a search that was recorded
    has only the candidates.
    """

    node: str | None
    victims: tuple[str, ...]
    candidates: int
    message: str
    nodes: int
    funnel: tuple[PreemptionLine, ...]
    headline: str = ""
    """Its effect, done or predicted, in a sentence; empty if there is none."""
    chosen_by: ChosenBy | None = None
    spared: Spared | None = None


class Eviction(Part, frozen=True):
    """Pods that were evicted, for whom, and why these; what is not known is null."""

    by: tuple[str, ...] = ()
    """For whom: pods, and groups as `group namespace/name`."""
    message: str = ""
    node: str | None = None
    victims: tuple[str, ...] = ()
    candidates: int | None = None
    time: str | None = None
    preemption: Preemption | None = None
    headline: str = ""


class VictimUnit(Part, frozen=True):
    """Pods that are evicted together or not at all. `why` says why they have to go; null if they stay."""

    unit: str
    priority: int
    pods: int
    pdb_violations: int
    why: str | None


class GroupPreemption(Part, frozen=True):
    """Preemption for a group of pods, predicted."""

    helps: bool
    message: str
    priority: int
    victims: tuple[str, ...]
    candidates: int
    units: tuple[VictimUnit, ...]
    victim_units: int
    spared: tuple[VictimUnit, ...]
    pdb_violations: int
    without_victims: str | None
    headline: str = ""
    details: tuple[str, ...] = ()
    """More sentences, if it helps: violated budgets, and who stays."""
