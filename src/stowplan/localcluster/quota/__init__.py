"""Resource quotas: what an object counts as, and what a quota has used.

Admission charges a quota when an object is created; the quota controller recalculates it from all objects
of the namespace. Both use the same evaluators.
"""

from stowplan.localcluster.quota.amounts import amounts_of, as_text, printed
from stowplan.localcluster.quota.evaluators import Evaluator, evaluator_for, is_quotable
from stowplan.localcluster.quota.usage import ExceededError, charge, total_usage

__all__ = [
    "Evaluator",
    "ExceededError",
    "amounts_of",
    "as_text",
    "charge",
    "evaluator_for",
    "is_quotable",
    "printed",
    "total_usage",
]
