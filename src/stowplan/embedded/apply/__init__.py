"""Server-side apply: who manages which field, and what becomes of an object that several people describe."""

from stowplan.embedded.apply.applying import Applied, applied
from stowplan.embedded.apply.managers import Managed, after_update

__all__ = ["Applied", "Managed", "after_update", "applied"]
