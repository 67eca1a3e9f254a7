"""Arguments of VolumeBinding."""

from typing import Self

from msgspec.structs import replace

from stowplan.api.fielderrors import Path, invalid
from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.plugins.args.base import PluginArgs
from stowplan.plugins.args.shape import MAX_SHAPE_SCORE, UtilizationShapePoint, validate_shape

DEFAULT_SHAPE = (
    UtilizationShapePoint(utilization=0, score=MAX_SHAPE_SCORE),
    UtilizationShapePoint(utilization=100, score=0),
)


class VolumeBindingArgs(PluginArgs, frozen=True):
    """How long binding volumes may take, and how nodes are scored by the use of their storage.

    The shape belongs to the gate StorageCapacityScoring: None while it is off, and then it must not be set.
    """

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        if gates["StorageCapacityScoring"] and not self.shape:
            return replace(self, shape=DEFAULT_SHAPE)
        return self

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors: list[str] = []
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            errors.append(invalid(path.child("bindTimeoutSeconds"), self.bind_timeout_seconds, detail))
        where = path.child("shape")
        if gates["StorageCapacityScoring"]:
            errors += validate_shape(self.shape or (), where)
        elif self.shape is not None:
            points = [{"Utilization": point.utilization, "Score": point.score} for point in self.shape]
            detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
            errors.append(invalid(where, points, detail))
        return errors
