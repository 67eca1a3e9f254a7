"""Randomized runs of the scheduler under faults, and what must hold in all of them.

One seed makes one plan (plan.py, objects.py): a cluster, what users do to it and when, and how the API
server, plugins and extenders fail. A run (run.py) carries the plan out in virtual time against a store in
this process (world.py, server.py, actors.py) and checks the scheduler at every cycle and binding
(invariants.py) and when it is idle again (final_checks.py). The same plan gives the same run, write for
write, so a failing seed is a bug report.
"""

from stowplan.lab.chaos.groupplans import plan_of
from stowplan.lab.chaos.plan import ChaosPlan, make_plan
from stowplan.lab.chaos.run import ChaosOutcome, execute
from stowplan.lab.chaos.world import ChaosFinding

__all__ = ["ChaosFinding", "ChaosOutcome", "ChaosPlan", "execute", "make_plan", "plan_of"]
