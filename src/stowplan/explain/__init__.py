"""Why a pod goes where it goes, why it is still pending, and what would have to change.

There is one typed document, and everything that is shown is made of it. From above to below:

* `web/`: the API `/stowplan/v1` and the page; `report/`: results of the simulator as text and HTML
* `explainers/`: documents made by the engine. Begin at `explainers/pod.py`.
* `recorded.py`: documents made of what the scheduler recorded
* `terminal/`: documents as text
* `sentences.py`, `wakes.py`: headline, cause, remedy and what is awaited, in words
* `document/`: the types, and their JSON schema
* `states.py`, `layout.py`: the words for states; columns, colours and lines

Imports go downwards in this list; `document` to `terminal` import nothing of the scheduler, so a client needs
no engine to show an answer. The scheduler itself imports only `recorded.py`, for `Scheduler.explain`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan.explain.terminal.decision import explain

__all__ = ["explain"]


def __getattr__(name: str) -> Any:
    """`explain` is loaded when it is asked for: commands that only show explanations need no engine."""
    if name == "explain":
        from stowplan.explain.terminal.decision import explain

        return explain
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
