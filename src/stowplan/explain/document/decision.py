"""The decision of one attempt in a document: the nodes that were ruled out, and the scores of the best."""

import msgspec

from stowplan.explain.document.part import Part


class Rejection(Part, frozen=True, kw_only=True):
    """Nodes that one plugin was the first to rule out, for the same reasons.

    `near_misses` counts those that no other plugin rules out. A filter written by node is only asked about
    nodes that are still left when its turn comes, so for nodes rejected earlier its word is not known.
    """

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: int
    examples: tuple[str, ...] = ()
    near_misses: int = 0


class Candidate(Part, frozen=True, kw_only=True):
    """A node that can take the pod, with its total and what each plugin added to it (score times weight)."""

    node: str
    total: int
    scores: dict[str, int]


class Decision(Part, frozen=True, kw_only=True):
    """Result of one attempt.

    `funnel` is in the order in which filters run. `best` begins with the chosen node; it is empty where no
    scores were asked for or there was nothing to choose from. `ties` is how many nodes share the highest
    total, `margin` how far the next best one is behind (None: not known, or there is none).
    """

    pod: str
    node: str | None
    nodes: int
    feasible: int
    message: str
    ties: int = 0
    margin: int | None = None
    nominated: bool = False
    """The pod was given the node that an earlier attempt had made room on; no other was looked at."""
    funnel: tuple[Rejection, ...] = ()
    best: tuple[Candidate, ...] = ()
    weights: dict[str, int] = msgspec.field(default_factory=dict)
    old_names: dict[str, str] = msgspec.field(default_factory=dict)
    """The priorities that plugins stand for, if the profile was made of predicates and priorities."""

    @property
    def scheduled(self) -> bool:
        return self.node is not None

    @property
    def decided_by(self) -> str | None:
        """The plugin that gave the winner most over the runner-up; None without one."""
        if len(self.best) < 2 or not self.margin:
            return None
        first, second = self.best[:2]
        lead = {plugin: points - second.scores.get(plugin, 0) for plugin, points in first.scores.items()}
        return max(lead, key=lambda plugin: lead[plugin])
