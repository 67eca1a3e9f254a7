"""Scoring functions given as points: a score for each utilization, straight lines in between."""

from collections.abc import Sequence

from stowplan.api.fielderrors import Path, invalid, required
from stowplan.api.meta import Struct

MAX_SHAPE_SCORE = 10
"""The best score a point can give."""


class UtilizationShapePoint(Struct, frozen=True, omit_defaults=False):
    """The score (0 to 10) of a node that is used to this percentage."""

    utilization: int = 0
    score: int = 0


def validate_shape(shape: Sequence[UtilizationShapePoint], path: Path) -> list[str]:
    """A shape needs a point, increasing utilizations, and both coordinates in range."""
    if not shape:
        return [required(path, "at least one point must be specified")]
    errors: list[str] = []
    for index in range(1, len(shape)):
        utilization = shape[index].utilization
        if shape[index - 1].utilization >= utilization:
            where = path.at(index).child("utilization")
            errors.append(invalid(where, utilization, "values must be sorted in increasing order"))
            break
    for index, point in enumerate(shape):
        where = path.at(index)
        if not 0 <= point.utilization <= 100:
            detail = "not in valid range [0, 100]"
            errors.append(invalid(where.child("utilization"), point.utilization, detail))
        if not 0 <= point.score <= MAX_SHAPE_SCORE:
            detail = f"not in valid range [0, {MAX_SHAPE_SCORE}]"
            errors.append(invalid(where.child("score"), point.score, detail))
    return errors
