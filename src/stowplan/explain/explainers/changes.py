"""Changes that would place a pending pod, each verified by the engine: those that keep what it wants first.

Proposals come from the plugins (a smaller request, a toleration, another label) and from here (a pod that
ends, one more node, a higher priority). A proposal counts only if the filters, run again on the changed pod
or the changed cluster, let the pod pass. The table is changed for that, asked, and put back. If no single
change helps, two together are tried.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.api.workloads import PriorityClass
from stowplan.explain.commands import joined_patches, kubectl
from stowplan.explain.document.pod import Change, NodeGroup
from stowplan.explain.explainers.claims import ClaimProblem
from stowplan.explain.explainers.rejections import NearRow, Rejections
from stowplan.explain.explainers.relevance import NodesMeant
from stowplan.explain.explainers.trials import (
    added_node,
    added_object,
    added_slices,
    changed_node,
    like,
    merged,
    patched_pod,
    shapes,
    without_pod,
)
from stowplan.explain.layers.wider import Wider
from stowplan.explain.sentences.words import outcome
from stowplan.scheduler.cycle.scheduling_cycle import choose_node
from stowplan.scheduler.framework.budget import Budget
from stowplan.scheduler.framework.evaluation import Evaluation
from stowplan.scheduler.framework.explanation import Remedy, RemedyPlugin
from stowplan.scheduler.framework.extension_points import post_filter_steps
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.nominations import Nominations
from stowplan.scheduler.framework.runtime import Framework
from stowplan.scheduler.framework.status import PluginError
from stowplan.scheduler.plugins.dynamicresources.explanation.remedies import template_of
from stowplan.scheduler.table.podinfo import PodInfo

BUDGET: Final = 2.0
"""Seconds that the search for changes may take in all. What was not tried by then is said."""
_TRIAL: Final = 0.01
"""Seconds that a trial counts where time stands still: explanations of files repeat themselves."""
NEAREST: Final = 64
"""Nodes that are asked for remedies, the nearest first."""
MEANT: Final = 16
"""Nodes of those with the same obstacle that are asked for remedies, the nearest first."""
TRIES: Final = 6
"""Proposals of one kind that are tried before the kind is given up."""
SHAPES: Final = 6
"""Different shapes of nodes that are tried."""
FREED_FROM: Final = 16
"""Nearest nodes from which a pod is taken away to see whether that is enough."""
FIRSTS: Final = 3
"""Changes that do not help alone and for which a second one is looked for."""
CLASSES: Final = 4
"""Priority classes that are tried, the lowest first."""
SHOWN: Final = 8
"""Changes that are offered at most."""

RECOVER: Final = "recover"
"""Kind of a remedy that mends a node: it is tried like all others and then told as advice."""
_CORRECT, _ALLOW, _LESS, _RELAX, _GROW, _END, _ABANDON = range(7)
"""Ranks of kinds of changes: corrections of what was meant, permissions, smaller wishes, weaker wishes, more
nodes, the end of others, and what gives up a wish."""
_RANKS: Final = {
    "nodeLabel": _CORRECT,
    "resourceName": _CORRECT,
    "affinityNamespace": _CORRECT,
    "deviceClass": _CORRECT,
    "claimName": _CORRECT,
    "toleration": _ALLOW,
    "uncordon": _ALLOW,
    RECOVER: _ALLOW,
    "deviceToleration": _ALLOW,
    "requests": _LESS,
    "deviceCount": _LESS,
    "deviceCapacity": _LESS,
    "hostPort": _RELAX,
    "deviceConstraint": _RELAX,
    "spreadTaints": _RELAX,
    "spreadKey": _RELAX,
    "topologySpread": _RELAX,
    "labelNode": _RELAX,
    "addNode": _GROW,
    "freeClaim": _END,
    "freePod": _END,
    "freeDevices": _END,
    "priority": _END,
}


class Proposal(NamedTuple):
    """A remedy that a plugin proposes for a node; `is_meant` if the pod could mean the node."""

    remedy: Remedy
    node: str
    is_meant: bool

    @property
    def rank(self) -> float:
        """The order in which people would try it. For nodes that are not meant it gives up a wish."""
        rank = _RANKS.get(self.remedy.kind, _ABANDON)
        return rank if self.is_meant or rank >= _GROW else _END + 0.5


class Changes:
    """Looks for changes that would place one pod, on the table of a framework.

    `untried` are the changes for which there was no time, `advice` is what helps and has no command, and
    `second` what else is in the way after the first correction.
    """

    def __init__(
        self,
        framework: Framework,
        evaluation: Evaluation,
        nominations: Nominations,
        wider: Wider,
    ) -> None:
        self._framework = framework
        self._table = framework.table
        self._evaluation = evaluation
        self._nominations = nominations
        self._info = evaluation.cycle.pod
        self._wider = wider
        self._budget = Budget(framework.timer, BUDGET)
        self._best: float | None = None
        """The rank of the best change so far."""
        self.untried: list[str] = []
        self.advice: list[str] = []
        self.second: list[NodeGroup] = []

    def steps(
        self, meant: NodesMeant, near_misses: Sequence[NearRow]
    ) -> Iterator[tuple[float, Change] | None]:
        """Changes that help with their rank, one of every kind.

        Between two steps others may run: every proposal is tried on the state there is then. None is a step
        that found nothing.
        """
        proposals: list[Proposal] = []
        for one in self._proposals(meant, near_misses):
            if one is not None:
                proposals.append(one)
            yield None
        keeping = [one for one in proposals if one.rank < _ABANDON]
        yield from self._noted(self._singles(keeping))
        rows = [row for one in meant.blocked() for row in one.rows]
        yield from self._noted(self._new_node(rows, near_misses))
        yield from self._noted(self._freed_pod(rows, near_misses))
        yield from self._noted(self._priority())
        if self._best is None or self._best >= _GROW:
            yield from self._noted(self._pairs(keeping))
        if self._best is None or self._best >= _GROW:
            yield from self._noted(self._singles([one for one in proposals if one.rank >= _ABANDON]))

    def for_claims(self, problem: ClaimProblem) -> Iterator[tuple[float, Change] | None]:
        """Changes that help a pod whose claim rules out every node."""
        proposals = [Proposal(remedy, "", True) for remedy in problem.remedies]
        yield from self._singles(proposals)
        for one in problem.changes:
            if not self._may_try(one.text):
                return
            old = self._table.storage.claims.get(one.claim.key)
            with added_object(self._table, one.claim, old):
                placed = self._place(self._info.pod)
            if placed is not None:
                change = _change("claim", one.text, *placed, action={"claim": one.claim.key})
                yield _ALLOW + one.size, replace(change, command=one.command)
            yield None

    def _noted(self, found: Iterator[tuple[float, Change] | None]) -> Iterator[tuple[float, Change] | None]:
        for one in found:
            if one is not None:
                self._best = one[0] if self._best is None else min(self._best, one[0])
            yield one

    def _may_try(self, what: str) -> bool:
        """False if time is up; then what would have been tried is noted."""
        self._budget.steps += int(_TRIAL * 1e6)
        if not self._budget.is_over:
            return True
        text = f"{what}: no time left of {BUDGET:g} s"
        if text not in self.untried:
            self.untried.append(text)
        return False

    # Changes of the pod, proposed by plugins

    def _proposals(self, meant: NodesMeant, near_misses: Sequence[NearRow]) -> Iterator[Proposal | None]:
        """Remedies for nodes that are meant, and for those that one filter rejects; None after each node."""
        seen: set[tuple[str, str]] = set()
        wanted = [
            (row, name, True) for one in meant.blocked() for row in one.rows[:MEANT] for name in one.plugins
        ]
        known = set(meant.rows.tolist())
        others = [near for near in near_misses if near.row not in known][:NEAREST]
        wanted += [(near.row, near.miss.plugin, False) for near in others]
        for row, name, is_meant in wanted:
            plugin = self._framework.plugins.get(name)
            if isinstance(plugin, RemedyPlugin):
                for remedy in plugin.remedies(self._evaluation.cycle, self._info, row):
                    if (remedy.kind, remedy.text) not in seen and self._wider.allows(remedy, self._table):
                        seen.add((remedy.kind, remedy.text))
                        yield Proposal(remedy, self._table.name_of(row), is_meant)
            yield None

    def _singles(self, proposals: Iterable[Proposal]) -> Iterator[tuple[float, Change] | None]:
        by_kind: dict[tuple[float, str], list[Proposal]] = {}
        for one in proposals:
            by_kind.setdefault((one.rank, one.remedy.kind), []).append(one)
        done: set[str] = set()
        for (rank, kind), found in sorted(by_kind.items(), key=lambda item: item[0][0]):
            if kind in done:
                continue
            for one in sorted(found, key=lambda proposal: proposal.remedy.size)[:TRIES]:
                if not self._may_try(one.remedy.text):
                    break
                change = self._tried(one.remedy, one.node)
                yield None if change is None else (rank, change)
                if change is not None or (kind == RECOVER and self.advice):
                    done.add(kind)
                    break

    def _tried(self, remedy: Remedy, node: str) -> Change | None:
        if remedy.node_patch is not None:
            return self._with_node(remedy, node)
        if remedy.claims:
            return self._with_claims(remedy)
        ended = (remedy.action or {}).get("delete")
        if ended is not None:
            return self._without(remedy, ended)
        pod = patched_pod(self._info.pod, remedy.patch)
        placed = None if not self._wider.admits(pod) else self._place(pod)
        if placed is None:
            return None
        return _change(remedy.kind, remedy.text, *placed, patch=dict(remedy.patch))

    def _with_node(self, remedy: Remedy, name: str) -> Change | None:
        row = self._table.row_of(name)
        node = None if row is None else self._table.nodes[row]
        if node is None or remedy.node_patch is None:
            return None
        changed = msgspec.convert(merged(msgspec.to_builtins(node), remedy.node_patch), Node)
        with changed_node(self._table, node, changed):
            placed = self._place(self._info.pod)
        if placed is None:
            return None
        if remedy.kind == RECOVER and placed:
            self.advice.append(remedy.text)
            return None
        labels = (remedy.node_patch.get("metadata") or {}).get("labels") or {}
        words = [f"{key}={value}" for key, value in labels.items()]
        command = kubectl("label", "node", name, *words) if words else ""
        change = _change(remedy.kind, remedy.text, *placed, action={remedy.kind: name})
        return replace(change, command=command)

    def _without(self, remedy: Remedy, key: str) -> Change | None:
        info = next((one for one in self._table.pods.values() if one.key == key), None)
        if info is None or info.row < 0:
            return None
        with without_pod(self._table, info):
            placed = self._place(self._info.pod)
        return None if placed is None else _change(remedy.kind, remedy.text, *placed, action={"delete": key})

    def _with_claims(self, remedy: Remedy) -> Change | None:
        with self._table.devices.claims.seen_as(remedy.claims):
            placed = self._place(self._info.pod)
        if placed is None:
            return None
        return _change(
            remedy.kind,
            remedy.text,
            *placed,
            patch=dict(remedy.patch) if remedy.of_claim else None,
            action=None if remedy.action is None else dict(remedy.action),
            claim=remedy.of_claim,
            template=template_of(self._info.pod, remedy.of_claim.partition("/")[2]),
        )

    def _place(self, pod: Pod) -> tuple[str, int] | None:
        """Where a pod would go as things are, and how many nodes would take it; None: nowhere."""
        try:
            evaluation = self._framework.evaluate(self._table.info(pod), self._nominations)
        except PluginError:
            return None
        if not evaluation.feasible_count:
            return None
        row, _ = choose_node(evaluation, lambda ties: 0)
        return self._table.name_of(row), evaluation.feasible_count

    # Two changes

    def _pairs(self, proposals: Sequence[Proposal]) -> Iterator[tuple[float, Change] | None]:
        """Changes of the pod that help together with a second one."""
        alone = [
            one
            for one in sorted(proposals, key=lambda one: (one.rank, one.remedy.size))
            if one.remedy.patch and not one.remedy.claims and one.is_meant and one.rank <= _LESS
        ]
        for first in alone[:FIRSTS]:
            if not self._may_try(f"{first.remedy.text} and a second change"):
                return
            pod = patched_pod(self._info.pod, first.remedy.patch)
            try:
                evaluation = self._framework.evaluate(self._table.info(pod), self._nominations)
            except PluginError:
                continue
            if evaluation.feasible_count or evaluation.rejected_outright is not None:
                continue
            meant = NodesMeant(Rejections(evaluation))
            if not self.second and first.rank == _CORRECT:
                self.second = [one for one in meant.groups() if one is not None and one.meant]
            rest = Changes(self._framework, evaluation, self._nominations, self._wider)
            rest._budget = self._budget
            found = None
            kept = [one for one in rest._proposals(meant, ()) if one is not None]
            kept = [one for one in kept if one.rank < _GROW or one.rank == _ABANDON]
            for one in rest._singles(kept):
                yield None
                if one is not None and one[1].patch is not None and not one[1].claim:
                    found = one[1]
                    break
            if found is not None and found.patch is not None:
                patch = joined_patches(first.remedy.patch, found.patch)
                both = f"{first.remedy.text}, and {found.text}"
                yield first.rank + 0.5, replace(found, text=both, patch=patch)
                return

    # Changes of the cluster

    def _freed_pod(
        self, rows: Sequence[int], near_misses: Sequence[NearRow]
    ) -> Iterator[tuple[float, Change] | None]:
        """The least important pod whose end alone would make room, and which nobody creates again."""
        best: tuple[int, int, str, str] | None = None
        places = [*rows, *(near.row for near in near_misses)][:FREED_FROM]
        cycle = self._framework.evaluate(self._info, self._nominations).cycle
        with self._framework.simulations(cycle, cycle.memos, self._nominations) as simulations:
            for row in dict.fromkeys(places):
                if not self._may_try("the end of another pod"):
                    break
                others = [
                    one for one in self._table.pods_on[row].values() if self._wider.may_end(one, self._table)
                ]
                for other in sorted(others, key=_importance):
                    place = (*_importance(other), self._table.name_of(row), other.key)
                    if best is not None and place >= best:
                        break
                    with simulations.row(row) as simulation:
                        simulation.remove_pod(other)
                        if simulation.verdict() is None:
                            best = place
                            break
        if best is not None:
            _, _, node, key = best
            yield _END, _change("freePod", f"{key} ends", node, 1, action={"delete": key})

    def _new_node(
        self, rows: Sequence[int], near_misses: Sequence[NearRow]
    ) -> Iterator[tuple[float, Change] | None]:
        """One more node of a shape there is; shapes of nodes that are meant first, then the most frequent."""
        preferred = list(rows[:NEAREST]) or [near.row for near in near_misses[:NEAREST]]
        for node in shapes(self._table, preferred)[:SHAPES]:
            if not self._may_try(f"one more node like {node.name}"):
                return
            added = like(node, self._table)
            with added_node(self._table, added, node.name), added_slices(self._table, node.name, added.name):
                placed = self._place(self._info.pod)
            if placed is not None:
                text = f"one more node like {node.name}"
                change = _change("addNode", text, "the new node", placed[1], action={"addNode": node.name})
                yield _GROW, change
                return
            yield None

    def _priority(self) -> Generator[tuple[float, Change] | None, None, None]:
        """The lowest priority class whose preemption would make room, and which pods it would evict."""
        if not self._framework.at(ExtensionPoint.POST_FILTER):
            return
        higher = [one for one in self._wider.classes if one.value > self._info.priority]
        for one in sorted(higher, key=lambda known: known.value)[:CLASSES]:
            if one.preemption_policy == "Never":
                continue
            if not self._may_try(f"priorityClassName {one.name}"):
                return
            found = yield from self._preempts(one)
            if found is None or any(self._wider.is_sibling(victim) for victim in found[1]):
                yield None
                continue
            node, victims = found
            text = f"priorityClassName {one.name} ({one.value}, now {self._info.priority})"
            spec = {"priorityClassName": one.name, "priority": None, "preemptionPolicy": None}
            keys = tuple(victim.key for victim in victims)
            yield _END, _change("priority", text, node, 1, patch={"spec": spec}, victims=keys)
            return

    def _preempts(self, chosen: PriorityClass) -> Generator[None, None, tuple[str, tuple[Pod, ...]] | None]:
        """Where preemption would make room with a priority class, and who would go; in steps."""
        pod = self._info.pod
        policy = chosen.preemption_policy or "PreemptLowerPriority"
        spec = replace(
            pod.spec, priority=chosen.value, preemption_policy=policy, priority_class_name=chosen.name
        )
        status = replace(pod.status, nominated_node_name="")
        info = self._table.info(replace(pod, spec=spec, status=status))
        try:
            evaluation = self._framework.evaluate(info, self._nominations)
            if evaluation.feasible_count:
                return None
            found = yield from post_filter_steps(
                self._framework.at(ExtensionPoint.POST_FILTER), evaluation.cycle, info
            )
        except PluginError:
            return None
        if not found.status.is_success or not found.nominated_node:
            return None
        return found.nominated_node, tuple(found.victims)


def _change(
    kind: str,
    text: str,
    node: str,
    nodes: int,
    *,
    patch: dict[str, Any] | None = None,
    action: dict[str, str] | None = None,
    victims: tuple[str, ...] = (),
    claim: str = "",
    template: str = "",
) -> Change:
    return Change(
        kind=kind,
        text=text,
        node=node,
        nodes=nodes,
        patch=patch,
        claim=claim,
        template=template,
        action=action,
        victims=victims,
        outcome=outcome(node, nodes, victims),
    )


def _importance(info: PodInfo) -> tuple[int, int]:
    """Pods of lower priority come first, and of these the smaller ones."""
    return info.priority, info.requests.milli_cpu
