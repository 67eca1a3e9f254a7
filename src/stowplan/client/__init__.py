"""How the scheduler talks to an API server, whichever it is.

`Client` is the interface: the store in this process and a real API server over HTTP look the same through
it. `Reflector` keeps a listed and watched picture of one resource through cut watches, forgotten versions
and errors.
"""

from stowplan.client.interface import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    Client,
    Listing,
    Reader,
    Unreadable,
    WatchEvent,
    Writer,
)
from stowplan.client.picture import Handler, Picture
from stowplan.client.reflector import Reflector
from stowplan.client.retries import Retries

__all__ = [
    "ADDED",
    "BOOKMARK",
    "DELETED",
    "MODIFIED",
    "Client",
    "Handler",
    "Listing",
    "Picture",
    "Reader",
    "Reflector",
    "Retries",
    "Unreadable",
    "WatchEvent",
    "Writer",
]
