"""The sentences about pods that are held back before any node is looked at: by gates, by objects that do not
exist, or because nobody schedules them."""

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.api.names import closest
from stowplan.explain.document.layers import MissingObject
from stowplan.explain.document.pod import PodDocument
from stowplan.explain.sentences.words import brief

GATE: Final = "gate"
"""Kind of the change that removes gates."""
WITH_PROFILE: Final = "with "
"""Begin of the message of a pod that nobody decides, and that a profile could not place either."""
GATE_OWNERS: Final[Mapping[str, str]] = {
    "kueue.x-k8s.io": "Kueue",
    "scheduling.volcano.sh": "Volcano",
    "volcano.sh": "Volcano",
    "yunikorn.apache.org": "YuniKorn",
    "kubevirt.io": "KubeVirt",
    "mcad.codeflare.dev": "AppWrapper",
}
"""Controllers that are known to set scheduling gates, by the domain of the gate: only they may remove it."""
_LOOK: Final[Mapping[str, str]] = {"Kueue": "kubectl get workloads.kueue.x-k8s.io -n {} says why it waits"}


def gate_owner(gate: str) -> str:
    """The controller that a scheduling gate belongs to; "" if it is none of the known ones."""
    domain = gate.partition("/")[0]
    return GATE_OWNERS.get(domain, "")


def cause_of_gates(gates: Sequence[str], namespace: str = "") -> tuple[str, str]:
    """Why a pod with scheduling gates waits, and what helps."""
    said = f"held by scheduling {'gate' if len(gates) == 1 else 'gates'} {', '.join(gates)}"
    return said, "; ".join(dict.fromkeys(_remedy_of_gate(gate, namespace) for gate in gates))


def _remedy_of_gate(gate: str, namespace: str) -> str:
    owner = gate_owner(gate)
    if not owner:
        return f"the owner of gate {gate} removes it when its condition is met"
    look = _LOOK.get(owner, "")
    return f"{owner} removes gate {gate}" + (f": {look.format(namespace)}" if look else "")


def cause_of_missing(missing: Sequence[MissingObject]) -> tuple[str, str]:
    """Why a pod waits that names objects which do not exist, and what helps."""
    named = " and ".join(f"{one.kind} {one.name}" for one in missing)
    remedies = [
        f"create {one.kind} {one.name}" + (f", or name {one.near}, which exists" if one.near else "")
        for one in missing
    ]
    return f"{named} {'does' if len(missing) == 1 else 'do'} not exist", "; ".join(remedies)


def undecided(found: PodDocument) -> str:
    """Why a pod waits that the scheduler that answers does not decide."""
    decider = found.decider
    if decider is None:
        return ""
    if decider.kind == "nobody":
        then = f"; {found.message}" if found.message.startswith(WITH_PROFILE) else ""
        return f"no scheduler answers to schedulerName {decider.scheduler}{then}"
    if decider.kind == "unknown":
        return f"schedulerName {decider.scheduler} is none of the profiles here"
    said = brief(found.message)
    return (
        f"scheduler {decider.scheduler} decides it and {f'says: {said}' if said else 'has said nothing yet'}"
    )


def remedy_elsewhere(found: PodDocument) -> str:
    """Remedy for a pod that the answering scheduler does not decide."""
    decider = found.decider
    if decider is None or decider.kind == "other":
        name = "" if decider is None else decider.scheduler
        return f"ask scheduler {name}, or evaluate with its configuration (--config)"
    if decider.kind == "unknown":
        return (
            f"see whether scheduler {decider.scheduler} runs, or evaluate with its configuration (--config)"
        )
    start = f"start scheduler {decider.scheduler}"
    for change in found.changes[:1]:
        named = "" if change.patch is None else change.patch["spec"]["schedulerName"]
        texts = [start, change.text]
        return ", or ".join(texts[::-1] if closest(decider.scheduler, [named]) else texts)
    return start
