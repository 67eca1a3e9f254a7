"""Bringing raw scores into whole numbers from 0 to 100."""

import numpy as np
import numpy.typing as npt

from stowplan.scheduler.framework import MAX_NODE_SCORE, ScoreRange, Scores


def by_highest(scores: Scores, extremes: ScoreRange, *, reverse: bool) -> Scores:
    """Scores as a share of the highest (0 at least); reversed, the highest gets 0 and 0 gets 100."""
    highest = max(extremes.high, 0)
    if not highest:
        return np.full(len(scores), MAX_NODE_SCORE, dtype=np.int64) if reverse else scores.copy()
    shares = MAX_NODE_SCORE * scores // highest
    return MAX_NODE_SCORE - shares if reverse else shares


def rounded(values: npt.NDArray[np.float64]) -> Scores:
    """Values of zero and more to the nearest whole number, halves up."""
    whole = np.floor(values)
    return (whole + (values - whole >= 0.5)).astype(np.int64)
