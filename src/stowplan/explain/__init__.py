"""Why a pod goes where it goes, or why it still waits: in words and tables for people, as data for programs.

* `decisions`: one decision, from the nodes that were ruled out to the winner
* `pods`: a pod as it stands now: its last decision, where it waits, until when, and what would wake it
"""

from stowplan.explain.decisions import explain
from stowplan.explain.pods import Explanation, Whereabouts

__all__ = ["Explanation", "Whereabouts", "explain"]
