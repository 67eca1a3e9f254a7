"""What an explanation says a pod is."""

from typing import Final

PENDING: Final = "pending"
PLACED: Final = "placed"
FITS: Final = "fits"
"""The pod is not on a node, but one would take it: it is new, or about to be scheduled."""
GONE: Final = "gone"
"""The pod is known only from what happened to it."""
