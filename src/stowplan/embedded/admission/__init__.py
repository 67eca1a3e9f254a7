"""What an API server does to objects before it keeps them: fill in, resolve, judge.

`ClusterAdmission` has the rules that a scheduler and its users rely on; `furnish` makes what every cluster
has from the start.
"""

from stowplan.embedded.admission.cluster import ClusterAdmission
from stowplan.embedded.admission.furnishing import furnish

__all__ = ["ClusterAdmission", "furnish"]
