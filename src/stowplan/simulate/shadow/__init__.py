"""Shadow: every binding that another scheduler makes is compared with stowplan's choice as it happens.

* `judge`: was the chosen node feasible, was it among the best
* `sampling`: was it perhaps among the best of the nodes that the scheduler looked at
* `report`: what that adds up to
* `metrics`: the same while it runs
* `replay_comparison`: recorded decisions under another configuration
"""

from stowplan.simulate.shadow.judge import Judgement, Shadow
from stowplan.simulate.shadow.report import Tally
from stowplan.simulate.shadow.sampling import Sampling

__all__ = ["Judgement", "Sampling", "Shadow", "Tally"]
