"""A plugin's promises: one `Contract` per class, with defaults that are always safe.

    class Quiet(Plugin):
        contract = Contract(reads=Reads.USAGE, signs=Signs.TEMPLATE)

A promise lets the framework reuse an answer, leave a call out, or do two things at once. Without it nothing
goes wrong, only slower; with one that does not hold, decisions are wrong. docs/plugins.md has the table of
all promises and of the check that finds a wrong one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum, IntFlag
from typing import Any, Final


class Reads(IntFlag):
    """Parts of a row."""

    NOTHING = 0
    NODE = 1
    """Labels, taints, annotations, features, conditions: what the node is."""
    USAGE = 2
    """Allocatable resources and the pods on the node: what it can hold and holds."""
    ANYTHING = 3


class Signs(Enum):
    """Parts of a pod that `sign` looks at."""

    POD = "pod"
    """Anything: it is called for every pod."""
    TEMPLATE = "template"
    """Data that all pods of one template share: neither names nor annotations nor status. Called once for
    them."""
    TEMPLATE_WITHOUT_LABELS = "template without labels"
    """The same but for labels. Called once for pods that differ in labels only, such as an index."""
    VOLUMES = "volumes"
    """Volumes that are or become disks: pods without any have equal signatures, and `pre_filter` skips them.
    """
    NODE_NAME = "node name"
    """`spec.nodeName`: pods without it have equal signatures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """The promises of a plugin. `dataclasses.replace` makes one for a subclass that differs in some."""

    reads: Reads = Reads.ANYTHING
    """Parts of a node that the plugin's answers about it depend on."""
    reads_others: Reads = Reads.NOTHING
    """Parts of other nodes that the answers depend on. All rows are then evaluated again after a change,
    unless `stale_filter_rows` or `stale_score_rows` name those that may differ."""
    signs: Signs = Signs.POD
    """Parts of the pod that `sign` reads."""
    needs: tuple[str, ...] = ()
    """Resources whose objects the plugin looks up in the table, by plural (`services`). Only those that some
    plugin needs or registered events for are watched."""

    constant_pre_filter: bool = False
    """The return value of `pre_filter` and its state in the cycle depend on the signature alone."""
    constant_pre_score: bool = False
    """The return value of `pre_score` and its state in the cycle depend on the signature alone."""
    constant_normalize: bool = False
    """`normalize` depends on the scores and their extremes alone, not on the pod."""
    filters_by_pods: bool = True
    """False: which pods are on nodes makes no difference to `filter`, though claims and volumes may."""
    scores_only_if_filtering: bool = False
    """`score` gives all nodes the same for pods that `pre_filter` skips."""
    can_fail: bool = False
    """`filter` may return codes below zero: reaching such a row fails the attempt."""
    skips_deferred_resizes: bool = False
    """`pre_filter` skips running pods that wait for room to be resized: what it looks at was decided when
    they got their node. Counts with the gate InPlacePodVerticalScalingSchedulerPreemption."""

    changes_assumed_pods: bool = False
    """`assumed_pod` may change the status of a pod that is assumed on a node."""
    idle_for_plain_pods: bool = False
    """`reserve` does nothing and `pre_bind_pre_flight` skips for pods without disks, resource claims and
    extended resources."""
    parallel_pre_bind: bool = False
    """`pre_bind` may run concurrently with that of neighbouring plugins."""

    sorts_by_priority: bool = False
    """`sort_key` orders by `queued.priority`, the highest first, then by `queued.timestamp`. Identical pods
    then move through the queue as one group. A class that overrides `sort_key` has to promise it again."""
    pre_enqueue_by_group: bool = False
    """`pre_enqueue` gives one answer to all pods of a group, or of a tree of groups: it is called once."""
    scores_placements_by_count: bool = False
    """`score_placements` depends on which pods are placed and on the nodes of the placement, not on which of
    these nodes the pods get. Then placements are compared without placing pod by pod."""

    def __post_init__(self) -> None:
        for name, expected in _TYPES.items():
            if not isinstance(value := getattr(self, name), expected):
                raise TypeError(f"Contract: {name}: expected {expected.__name__}, got {value!r}")

    def __str__(self) -> str:
        """The promises that differ from the defaults, as they are written in a class."""
        promises = [
            f"{field.name}={_written(value)}"
            for field in fields(self)
            if (value := getattr(self, field.name)) != field.default
        ]
        return f"Contract({', '.join(promises)})"

    @property
    def row_local(self) -> bool:
        """True if answers about a node depend on no other node."""
        return not self.reads_others

    @property
    def watches_pods(self) -> bool:
        """True if answers can change although no node changed."""
        return bool((self.reads | self.reads_others) & Reads.USAGE)


_TYPES: Final[Mapping[str, type]] = {"reads": Reads, "reads_others": Reads, "signs": Signs, "needs": tuple}


def _written(value: Any) -> str:
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


# Up to version 0.1 each promise was a separate class attribute; plugins written that way still work

_SAME_NAME: Final = frozenset(Contract.__dataclass_fields__) - {"reads_others", "signs"}


def with_attributes(contract: Contract, attributes: Mapping[str, Any]) -> Contract:
    """A contract with the promises that a class makes by attributes, such as `row_local = False`."""
    changes = {name: attributes[name] for name in _SAME_NAME & attributes.keys()}
    if "needs" in changes:
        changes["needs"] = tuple(changes["needs"])
    if "row_local" in attributes:
        changes["reads_others"] = Reads.NOTHING if attributes["row_local"] else Reads.ANYTHING
    if attributes.get("depends_on_pods") is False:
        changes["reads_others"] = changes.get("reads_others", contract.reads_others) & ~Reads.USAGE
    signs = contract.signs
    if "signs_template" in attributes:
        signs = Signs.TEMPLATE if attributes["signs_template"] else Signs.POD
    if attributes.get("signs_labels") is False and signs is Signs.TEMPLATE:
        signs = Signs.TEMPLATE_WITHOUT_LABELS
    if attributes.get("signs_volumes"):
        signs = Signs.VOLUMES
    if attributes.get("signs_node_name"):
        signs = Signs.NODE_NAME
    return replace(contract, signs=signs, **changes) if changes or signs is not contract.signs else contract
