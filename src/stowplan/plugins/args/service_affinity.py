"""Arguments of ServiceAffinity."""

from stowplan.plugins.args.legacy import PriorityArgs


class ServiceAffinityArgs(PriorityArgs, frozen=True):
    """Labels of nodes: those that all pods of a service share, and those over which they are spread."""

    affinity_labels: tuple[str, ...] = ()
    anti_affinity_labels_preference: tuple[str, ...] = ()
