"""What an explanation says a pod, or a group of pods, is."""

from typing import Final

PENDING: Final = "pending"
PLACED: Final = "placed"
"""The pod has a node, or the pods of the group do."""
FITS: Final = "fits"
"""The pod is not on a node, but one would take it: it is new, or about to be scheduled. Of a group, enough
members would find a node now."""
GONE: Final = "gone"
"""The pod is known only from what happened to it."""
WAITING: Final = "waiting"
"""Too few members of the group would find a node."""
INCOMPLETE: Final = "incomplete"
"""Something that the group needs does not exist yet: pods, its object, its parent."""
