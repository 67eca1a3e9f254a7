"""The extension points of the scheduling framework, named once for everybody."""

from enum import StrEnum


class Point(StrEnum):
    """A place in the scheduling of a pod where plugins are called; the value is its name in a config.

    The order is that in which plugin lists are resolved when a profile is built, so with several
    mistakes in a configuration it decides which one is reported.
    """

    PRE_FILTER = "preFilter"
    FILTER = "filter"
    POST_FILTER = "postFilter"
    RESERVE = "reserve"
    PRE_SCORE = "preScore"
    SCORE = "score"
    PRE_BIND = "preBind"
    BIND = "bind"
    POST_BIND = "postBind"
    PERMIT = "permit"
    PRE_ENQUEUE = "preEnqueue"
    QUEUE_SORT = "queueSort"
    PLACEMENT_GENERATE = "placementGenerate"
    PLACEMENT_SCORE = "placementScore"

    @property
    def type_name(self) -> str:
        """The name of the plugin type in error messages, such as `PreFilterPlugin`."""
        return f"{self.value[0].upper()}{self.value[1:]}Plugin"

    @property
    def is_weighted(self) -> bool:
        """Whether plugins have weights here."""
        return self in (Point.SCORE, Point.PLACEMENT_SCORE)


MULTI_POINT = "multiPoint"
"""The section of a config that enables plugins at every point they implement."""
