"""Admission: what an API server does to objects before it stores them.

`ClusterAdmission` is the chain of defaults, plugins and validation; `create_bootstrap_objects` makes what
every cluster has from the start, `publish_server` the Service of the API server itself.
"""

from stowplan.localcluster.admission.bootstrap import (
    create_bootstrap_objects,
    create_default_account,
    publish_authority,
    publish_server,
)
from stowplan.localcluster.admission.chain import ClusterAdmission

__all__ = [
    "ClusterAdmission",
    "create_bootstrap_objects",
    "create_default_account",
    "publish_authority",
    "publish_server",
]
