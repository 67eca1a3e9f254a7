"""Arguments of SelectorSpread."""

from stowplan.plugins.args.legacy import PriorityArgs


class SelectorSpreadArgs(PriorityArgs, frozen=True):
    """What makes pods siblings.

    `services_only` leaves controllers out. With `any_selector`, as up to Kubernetes 1.11, a pod is a sibling
    if any service or controller that selects the new pod selects it too, whoever owns it; otherwise all of
    the pod's services and its own controller must.
    """

    services_only: bool = False
    any_selector: bool = False
