"""Rolling updates of LeaderWorkerSets: how many groups there are, and from which one on they are updated.

Groups are updated from the last to the first, like the pods of a stateful set: the partition of the leaders'
stateful set moves down as groups become ready. With `maxSurge` there are more groups meanwhile.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stowplan.api.requests import Json
from stowplan.localcluster.controllers.workloads.podcontrol import scaled_value
from stowplan.localcluster.objects.fields import (
    annotations_of,
    count_in,
    is_ready,
    labels_of,
    phase_of,
    spec_of,
    status_of,
)
from stowplan.localcluster.objects.leaderworkersets import REPLICAS, REVISION, size_of


class GroupState(NamedTuple):
    """State of one group: all its pods ready, and all of the latest revision."""

    ready: bool = False
    updated: bool = False


class Rollout(NamedTuple):
    """Partition and replicas of the leaders' stateful set."""

    partition: int
    replicas: int


class Limits(NamedTuple):
    """`rollingUpdateConfiguration` in numbers of groups."""

    partition: int
    surge: int
    unavailable: int

    @classmethod
    def of(cls, obj: Json) -> "Limits":
        replicas = count_in(spec_of(obj), "replicas", 1)
        rolling = spec_of(obj)["rolloutStrategy"]["rollingUpdateConfiguration"]
        surge = scaled_value(rolling.get("maxSurge"), replicas, 0, round_up=True)
        unavailable = scaled_value(rolling.get("maxUnavailable"), replicas, 1, round_up=False)
        return cls(count_in(rolling, "partition"), min(surge, replicas), unavailable)


def group_states(
    obj: Json, leaders: Mapping[int, Json], workers: Mapping[int, Json], groups: int, revision: str
) -> list[GroupState]:
    """States of the groups by index, from their leader pods and the stateful sets of their workers."""
    found: list[GroupState] = []
    alone = size_of(obj) == 1
    for index in range(groups):
        leader, others = leaders.get(index), workers.get(index)
        if leader is None or (others is None and not alone):
            found.append(GroupState())
            continue
        ready, updated = is_running(leader), labels_of(leader).get(REVISION) == revision
        if others is not None and not alone:
            ready = ready and are_available(others)
            updated = updated and labels_of(others).get(REVISION) == revision
        found.append(GroupState(ready, updated))
    return found


def is_running(pod: Json) -> bool:
    return phase_of(pod) == "Running" and is_ready(pod)


def are_available(workers: Json) -> bool:
    """True if all workers of a group are available, of one revision."""
    status = status_of(workers)
    return count_in(spec_of(workers), "replicas", 1) == count_in(status, "availableReplicas") and status.get(
        "currentRevision"
    ) == status.get("updateRevision")


def next_rollout(
    obj: Json, leader_set: Json | None, states: Sequence[GroupState], *, changed: bool
) -> Rollout:
    """Next partition and replicas. `changed`: the template has just become another one."""
    limits = Limits.of(obj)
    found = _next(obj, limits, leader_set, states, changed=changed)
    return found._replace(partition=max(found.partition, limits.partition))


def _next(
    obj: Json, limits: Limits, leader_set: Json | None, states: Sequence[GroupState], *, changed: bool
) -> Rollout:
    wanted = count_in(spec_of(obj), "replicas", 1)
    if leader_set is None:
        return Rollout(0, wanted)
    held = count_in(spec_of(leader_set), "replicas", 1)
    if changed:
        # Scaling up comes first: new groups are of the new template anyhow.
        partition = min(wanted, held)
        return Rollout(partition, wanted if held < wanted else _replicas(wanted, limits, wanted))
    partition = partition_of(leader_set)
    if partition == 0 and held == wanted:
        return Rollout(0, wanted)
    if held < wanted:
        return Rollout(partition, wanted)
    pending = sum(1 for i in range(wanted) if i >= len(states) or not (states[i].ready and states[i].updated))
    burst = wanted + limits.surge
    if annotations_of(leader_set).get(REPLICAS) != str(wanted):
        return Rollout(min(partition, burst), _replicas(wanted, limits, pending))
    step = limits.unavailable + limits.surge - (burst - held)
    return Rollout(_next_partition(states, held, step, partition), _replicas(wanted, limits, pending))


def partition_of(leader_set: Json) -> int:
    return count_in((spec_of(leader_set).get("updateStrategy") or {}).get("rollingUpdate") or {}, "partition")


def _replicas(wanted: int, limits: Limits, pending: int) -> int:
    """Groups to keep: extra ones go as soon as the unready ones are within `maxUnavailable`."""
    if pending <= limits.surge:
        return wanted + max(pending - limits.unavailable, 0)
    return wanted + limits.surge


def _next_partition(states: Sequence[GroupState], held: int, step: int, current: int) -> int:
    done = 0
    for state in reversed(states):
        if not (state.ready and state.updated):
            break
        done += 1
    lowest = max(held - done - step, 0)
    # Groups below that are down already count against maxUnavailable.
    partition = lowest + sum(1 for state in states[:lowest] if not state.ready)
    # Groups that are not ready are updated at once: that costs no availability, and an update in which all
    # groups are down would never go on otherwise.
    for index in range(min(partition, held - 1), lowest - 1, -1):
        if states[index].ready and not states[index].updated:
            break
        partition = index
    return min(partition, current)
