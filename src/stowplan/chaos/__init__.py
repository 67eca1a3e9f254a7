"""A scheduler on its worst days: runs made of chance, and what must hold in all of them.

One seed makes one plan (planning.py): a cluster, what users do to it and when, how the API server, plugins
and extenders fail. A run (run.py) carries the plan out in virtual time against a store in this process and
watches the scheduler: at every attempt and every binding (oversight.py, bindings.py), and when all is quiet
again (reckoning.py). The same plan gives the same run, write for write, so a failing seed is a bug report.
"""

from stowplan.chaos.findings import Finding
from stowplan.chaos.plan import Plan
from stowplan.chaos.planning import make_plan, plan_of
from stowplan.chaos.run import Outcome, execute

__all__ = ["Finding", "Outcome", "Plan", "execute", "make_plan", "plan_of"]
