"""How pretend kubelets behave."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """Times in seconds.

    `start_delay`: from being bound to running, `start_jitter`: up to so much more. `stop_delay`: how long a
    deleted pod takes to end, within its grace period. `run_seconds`: how long pods run that end by
    themselves. `heartbeat`: how often a lease is renewed, `status_every`: a node's status. `adopt`: also be
    the kubelet of nodes that others created. `version` is what nodes say of themselves.
    """

    start_delay: float = 0.5
    start_jitter: float = 0.5
    stop_delay: float = 1.0
    run_seconds: float = 5.0
    heartbeat: float = 10.0
    lease_seconds: int = 40
    status_every: float = 300.0
    adopt: bool = False
    version: str = "v1.36.4"
