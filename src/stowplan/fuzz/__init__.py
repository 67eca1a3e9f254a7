"""Hostile objects: every field at the extremes an API server accepts, and what must hold all the same.

Cases (cases.py) are made of extreme objects (extremes.py) and written to a store in this process, from
which a living scheduler learns of them (run.py). No node may be chosen that the rules of Kubernetes forbid
(feasibility.py), no attempt may fail or hold the event loop, and what an object cost is given back when it
goes. Claims are compared by history (claims.py) with a plain allocator (slow_allocator.py).
"""

from stowplan.fuzz.cases import Case, random_case
from stowplan.fuzz.corpus import corpus
from stowplan.fuzz.run import Finding, FuzzResult, FuzzRun, Hold, run_cases

__all__ = ["Case", "Finding", "FuzzResult", "FuzzRun", "Hold", "corpus", "random_case", "run_cases"]
