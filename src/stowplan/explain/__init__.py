"""Why a pod goes where it goes, why it is still pending, and what would have to change.

* `text`: a decision as text
* `state`: where a pod is in a running scheduler
* `rejections`: which filters reject which nodes, and the near misses
* `changes`: the smallest changes that would place a pod, each verified by the engine
* `explainer`: all of it for one pod, on any cluster
* `preemption`: what preemption did or would do
* `terminal`, `pending_text`, `layout`: explanations as text; they need nothing but the data
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stowplan.explain.text import explain

__all__ = ["explain"]


def __getattr__(name: str) -> Any:
    """`explain` is loaded when it is asked for: commands that only show explanations need no engine."""
    if name == "explain":
        from stowplan.explain.text import explain

        return explain
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
