"""The plan of a seed."""

from random import Random
from typing import Final

from stowplan.chaos.groupplans import with_groups
from stowplan.chaos.plan import Plan, make_plan

WITH_GROUPS: Final = 0.25
"""The share of plans with pod groups."""


def plan_of(seed: int, *, groups: bool | None = None) -> Plan:
    """The plan of a seed, the same on every machine; `groups`: it has pod groups, whatever the seed."""
    plan = make_plan(Random(f"plan {seed}"), seed)
    if groups is None:
        groups = Random(f"whether groups {seed}").random() < WITH_GROUPS
    return with_groups(plan) if groups else plan
