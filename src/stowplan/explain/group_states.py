"""What a group of pods can be found to be."""

from typing import Final

WAITING: Final = "waiting"
"""Too few of its members would find a node."""
INCOMPLETE: Final = "incomplete"
"""Something it needs does not exist yet: pods, its object, its parent."""
FITS: Final = "fits"
"""Enough of its members would find a node now."""
PLACED: Final = "placed"
"""Its pods have nodes."""
