"""What stowplan would have done: every binding that another scheduler makes is judged as it happens.

* `judge`: was the chosen node feasible, was it among the best
* `report`: what that adds up to
"""

from stowplan.shadow.judge import Judgement, Shadow
from stowplan.shadow.report import Report

__all__ = ["Judgement", "Report", "Shadow"]
