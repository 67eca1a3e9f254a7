"""Plugins about pod groups: Priority and PodGroupProtection."""

from collections.abc import Callable
from typing import Final

from stowplan.api.catalogue import COMPOSITE_POD_GROUPS, POD_GROUPS, PRIORITY_CLASSES, Resource
from stowplan.api.requests import Json
from stowplan.localcluster.admission.plugins.priority import PREEMPT, default_priority
from stowplan.localcluster.admission.refusals import forbidden
from stowplan.localcluster.store.registry import Lookup

_CALLED: Final = {POD_GROUPS: "pod group", COMPOSITE_POD_GROUPS: "composite pod group"}


def group_priority(resource: Resource, *, with_policy: bool) -> Callable[[Lookup, Json], None]:
    """Have a new group get the priority of its class, and with the gate for that its preemption policy.

    kube-apiserver first sets an absent policy to PreemptLowerPriority and then refuses the group if its
    class says Never; here the policy of the class counts.
    """

    def resolve(lookup: Lookup, group: Json) -> None:
        spec, who = group.setdefault("spec", {}), group["metadata"]["name"]
        name = spec.get("priorityClassName")
        found = lookup.find(PRIORITY_CLASSES, "", name) if name else default_priority(lookup)
        if name and found is None:
            raise forbidden(resource, who, f"no PriorityClass with name {name} was found")
        value, policy = 0, PREEMPT
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
            value, policy = found.get("value", 0), found.get("preemptionPolicy", policy)
        if spec.get("priority") not in (None, value):
            why = (
                f"priority set in the {_CALLED[resource]} ({spec['priority']}) must match the priority "
                f"computed ({value}) based on the priority class set in the spec"
            )
            raise forbidden(resource, who, why)
        spec["priority"] = value
        if not with_policy:
            return
        if spec.get("preemptionPolicy") not in (None, policy):
            why = (
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in "
                f"{_CALLED[resource]} spec; priority admission controller computed {policy} from the given "
                "PriorityClass name"
            )
            raise forbidden(resource, who, why)
        spec["preemptionPolicy"] = policy

    return resolve
