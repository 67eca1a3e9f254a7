"""A recorded scenario as it stands in a file: a cluster, pods to place in order, and what came of each.

The same types hold what stowplan makes of an attempt, so that the two can be laid side by side.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from stowplan.api.decode import DecodeError, decode, decode_any
from stowplan.api.meta import Object
from stowplan.api.pod import Pod

NULL = msgspec.Raw(b"null")


class _Recorded(msgspec.Struct, rename="camel"):
    """Base of the parts of a recording."""


class PreFilter(_Recorded):
    """All PreFilter plugins together; `node_names` are the only nodes they ask for, if they ask for some."""

    code: str
    plugin: str
    reasons: list[str]
    node_names: list[str] | None
    skipped: list[str]


class Verdict(_Recorded):
    """Why a node was rejected, and by whom."""

    code: str
    plugin: str
    reasons: list[str]


class Candidate(_Recorded):
    """Pods that would have to go for the pod to fit on a node."""

    victims: list[str]
    num_pdb_violations: int = msgspec.field(name="numPDBViolations")


class Preemption(_Recorded):
    """What the PostFilter plugins came to."""

    code: str
    nominated_node: str | None
    victims: list[str]
    message: str
    candidates: dict[str, Candidate] | None = None
    ties: list[str] | None = None


class Attempt(_Recorded, kw_only=True):
    """One attempt to place a pod. An `error` means that a plugin failed and the attempt was given up.

    From `reserve_failure` on it is about reserving and about devices, which is not built.
    """

    pod: str
    attempt: int
    pre_filter: PreFilter
    via_nominated_node: bool = False
    rejected: dict[str, Verdict]
    feasible: list[str]
    skipped_score: list[str] | None = None
    scores: dict[str, dict[str, int]] | None = None
    total: dict[str, int] | None = None
    best: list[str]
    assigned: str | None
    fit_error: str | None
    error: str | None = None
    error_nodes: list[str] = []
    preemption: Preemption | None
    reserve_failure: Any = None
    pre_bind_failure: Any = None
    claims: Any = None
    claim_status: Any = None
    node_allocations: Any = None
    extended_requests: Any = None
    extended_mappings: Any = None
    deallocated: Any = None


class Scenario(_Recorded, kw_only=True):
    """Objects of the cluster and pods are kept as text until they are needed."""

    name: str
    config: msgspec.Raw = NULL
    objects: list[msgspec.Raw]
    pods: list[msgspec.Raw]
    expected: list[Attempt]
    prebind: bool = False

    def cluster(self) -> list[Object]:
        """The objects that exist at the start. Raises DecodeError."""
        found = [_object(f"objects[{index}]", raw) for index, raw in enumerate(self.objects)]
        return [obj for obj in found if obj is not None]

    def pending(self) -> list[Pod]:
        """The pods to place, in order. Raises DecodeError."""
        return [_pod(f"pods[{index}]", raw) for index, raw in enumerate(self.pods)]

    @property
    def has_extenders(self) -> bool:
        return self.config != NULL and bool(msgspec.json.decode(self.config, type=_Config).extenders)


class _Config(_Recorded):
    extenders: list[msgspec.Raw] = []


_scenarios = msgspec.json.Decoder(Scenario)


def decode_scenario(data: bytes) -> Scenario:
    """Read a line of a recording. Raises DecodeError."""
    try:
        return _scenarios.decode(data)
    except msgspec.MsgspecError as error:
        raise DecodeError(f"scenario: {error}") from None


def _object(where: str, raw: msgspec.Raw) -> Object | None:
    with _named(where):
        return decode_any(bytes(raw))


def _pod(where: str, raw: msgspec.Raw) -> Pod:
    with _named(where):
        return decode(bytes(raw), Pod)


@contextmanager
def _named(where: str) -> Iterator[None]:
    try:
        yield
    except DecodeError as error:
        raise DecodeError(f"{where}: {error}") from None
