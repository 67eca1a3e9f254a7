"""How the scheduler talks to an API server, whichever it is.

`Client` is the interface: the store in this process and a real API server over HTTP look the same through
it. `Reflector` keeps the objects of one resource, listed and watched, through cut watches, forgotten versions
and errors. Imports `api` and below. Begin with `interface`.
"""

from stowplan.client.interface import (
    ADDED,
    BOOKMARK,
    DELETED,
    MODIFIED,
    Client,
    GeneratorWatch,
    Listing,
    Reader,
    Unreadable,
    WatchEvent,
    Writer,
)
from stowplan.client.objectstore import Handler, ObjectStore
from stowplan.client.reflector import Reflector, Retries

__all__ = [
    "ADDED",
    "BOOKMARK",
    "DELETED",
    "MODIFIED",
    "Client",
    "GeneratorWatch",
    "Handler",
    "Listing",
    "ObjectStore",
    "Reader",
    "Reflector",
    "Retries",
    "Unreadable",
    "WatchEvent",
    "Writer",
]
