"""A mix of pods: templates with counts per set or proportions, and the pods of one set after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import gcd
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan.api.pod import Pod
from stowplan.scheduler.table.changes import NO_ROWS, Rows
from stowplan.simulate.cluster import Cluster
from stowplan.simulate.creation.manifests import ManifestReader, Manifests, read_manifests
from stowplan.simulate.creation.pods import PodSource
from stowplan.simulate.creation.workloads import DAEMON_SET, Workload
from stowplan.simulate.outcome import Refusal
from stowplan.simulate.snapshot.places import Place, read_document

_FINEST: Final = 1000
"""Proportions are taken as fractions of numbers up to this."""


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One template of a mix: a manifest, here or in another file, with a count or a proportion."""

    manifest: dict[str, Any] | None = None
    file: str | None = None
    count: int | None = None
    proportion: float | None = None


class _Mix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mix: list[_Part]


@dataclass(slots=True)
class Mix:
    """A set: workloads and how many pods of each there are in it."""

    parts: list[tuple[Workload, int]]
    manifests: Manifests

    @property
    def pods(self) -> int:
        return sum(count for _, count in self.parts)

    @property
    def all_manifests(self) -> Manifests:
        """The other objects, and the workloads of all parts."""
        return Manifests([workload for workload, _ in self.parts], self.manifests.others)


def read_mix(path: Path, namespace: str = "default") -> Mix:
    """The mix of a file. Raises SnapshotError with file, line and field."""
    found, place = read_document(path, _Mix)
    if not found.mix:
        raise place.wrong("mix", "expected at least one template")
    manifests = Manifests()
    amounts: list[tuple[Workload, int | None, Fraction | None]] = []
    for number, part in enumerate(found.mix):
        field_ = f"mix[{number}]"
        if (part.manifest is None) == (part.file is None):
            raise place.wrong(field_, "expected either manifest or file")
        if part.count is not None and part.proportion is not None:
            raise place.wrong(f"{field_}.proportion", "expected either count or proportion")
        amount = part.count if part.count is not None else part.proportion
        if amount is not None and amount <= 0:
            raise place.wrong(
                f"{field_}.{'count' if part.count is not None else 'proportion'}", "expected more than 0"
            )
        share = None if part.proportion is None else Fraction(part.proportion).limit_denominator(_FINEST)
        for workload in _workloads(part, place, field_, path, namespace, manifests):
            if workload.kind == DAEMON_SET:
                raise place.wrong(field_, "a DaemonSet is on every node: expected something with replicas")
            amounts.append((workload, part.count, share))
    return Mix(list(_counts(amounts, place)), manifests)


def _workloads(
    part: _Part, place: Place, field_: str, path: Path, namespace: str, found: Manifests
) -> list[Workload]:
    if part.file is not None:
        own = read_manifests([path.parent / part.file], namespace)
    else:
        assert part.manifest is not None
        if "kind" not in part.manifest:
            raise place.wrong(f"{field_}.manifest.kind", "required field is missing")
        reader = ManifestReader(namespace)
        reader.take_in(part.manifest, Place(place.file, place.text, inside=f"{field_}.manifest"))
        own = reader.found
    if not own.workloads:
        raise place.wrong(field_, "expected a pod or something that makes pods")
    found.others += own.others
    return own.workloads


def _counts(
    amounts: Sequence[tuple[Workload, int | None, Fraction | None]], place: Place
) -> Iterator[tuple[Workload, int]]:
    shares = [share for _, _, share in amounts if share is not None]
    if shares and len(shares) < len(amounts):
        raise place.wrong("mix", "expected counts for all templates or proportions for all")
    if not shares:
        for workload, count, _ in amounts:
            yield workload, workload.replicas if count is None else count
        return
    whole = reduce(lambda one, other: one * other // gcd(one, other), (share.denominator for share in shares))
    numbers = [int(share * whole) for share in shares]
    common = reduce(gcd, numbers)
    for (workload, _, _), number in zip(amounts, numbers, strict=True):
        yield workload, number // common


class SetSource:
    """The pods of one set after the other. Each set has groups of its own."""

    def __init__(self, cluster: Cluster, mix: Mix) -> None:
        self._cluster = cluster
        self._mix = mix
        self._sets = 0
        self._sources = [(PodSource(cluster, workload), count) for workload, count in mix.parts]

    def samples(self) -> list[tuple[Pod | None, Rows]]:
        """A pod of every part (None: the API server refuses it), and the nodes that could take it."""
        found: list[tuple[Pod | None, Rows]] = []
        for workload, _ in self._mix.parts:
            with self._cluster.fork():
                pod = next(iter(PodSource(self._cluster, workload).create(1)), None)
                found.append(
                    (pod, NO_ROWS if pod is None else self._cluster.evaluate(pod).feasible_rows.copy())
                )
        return found

    def next_set(self) -> list[tuple[Workload, list[Pod]]]:
        """The pods of the parts in turn, so that they come mixed; fewer if the API server refuses some."""
        self._sets += 1
        return [(source.workload, self._grouped(source.create(count))) for source, count in self._sources]

    def _grouped(self, pods: list[Pod]) -> list[Pod]:
        """Pods of groups as members of this set's groups: those of the first set keep their names."""
        groups = self._cluster.table.groups
        if self._sets == 1 or not groups.enabled:
            return pods
        return [self._regrouped(self._cluster.seen(pod)) for pod in pods]

    def _regrouped(self, pod: Pod) -> Pod:
        key = self._cluster.table.groups.key_of(pod)
        known = None if key is None else self._cluster.table.groups.object(key)
        if known is None or pod.spec.scheduling_group is None:
            return pod
        name = f"{known.name}-{self._sets}"
        if (type(known), f"{known.namespace}/{name}") not in self._cluster.objects:
            metadata = replace(known.metadata, name=name, uid=f"{known.metadata.uid}-{self._sets}")
            self._cluster.add(replace(known, metadata=metadata))
        group = replace(pod.spec.scheduling_group, pod_group_name=name)
        return replace(pod, spec=replace(pod.spec, scheduling_group=group))

    @property
    def refusal(self) -> Refusal | None:
        """Why the last set is not complete, if the API server refused a pod of it."""
        for source, _ in self._sources:
            if source.refusal:
                return Refusal(source.workload.title, 1, source.refusal)
        return None
