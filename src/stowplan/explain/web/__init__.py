"""A look inside a running scheduler: the API `/stowplan/v1`, and the page that is made of it.

* `documents`: what is said about nodes, pods, queues and decisions
* `access`: what a viewer may see of it
* `routes`: from a path to a document or an error
* `stream`: changes as they happen

Nothing here costs the scheduling loop anything unless somebody asks.
"""

from stowplan.explain.web.access import EVERYTHING, Viewer
from stowplan.explain.web.documents import Inspection
from stowplan.explain.web.routes import PREFIX, Answer, Routes

__all__ = ["EVERYTHING", "PREFIX", "Answer", "Inspection", "Routes", "Viewer"]
