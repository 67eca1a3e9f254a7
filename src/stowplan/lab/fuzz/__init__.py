"""Hostile objects: every field at the extremes an API server accepts, and what must hold all the same.

Cases (cases.py, corpus.py) are made of extreme objects (extremes.py) and written to a store in this process,
from which a living scheduler learns of them (run.py), or sent to one over HTTP as they are (wire.py). No node
may be chosen that the rules of Kubernetes forbid (feasibility.py), no attempt may fail, hold the event loop
or keep other pods waiting, and what an object cost is given back when it goes. Claims are compared by history
(claims.py) with a plain allocator (slow_allocator.py). server_cases.py has requests to the embedded API
server; real/ plays the corpus on kube-apiserver.
"""

from stowplan.lab.fuzz.cases import FuzzCase, random_case
from stowplan.lab.fuzz.corpus import corpus
from stowplan.lab.fuzz.run import FuzzFinding, FuzzHold, FuzzResult, FuzzRun, run_cases

__all__ = [
    "FuzzCase",
    "FuzzFinding",
    "FuzzHold",
    "FuzzResult",
    "FuzzRun",
    "corpus",
    "random_case",
    "run_cases",
]
