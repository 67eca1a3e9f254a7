"""Arguments of NodeLabel."""

from collections.abc import Iterator

from stowplan.api.fielderrors import Path, invalid
from stowplan.framework.feature_gates import DEFAULT_GATES, FeatureGates
from stowplan.plugins.args.legacy import LegacyArgs


class NodeLabelArgs(LegacyArgs, frozen=True):
    """Labels that a node must have and must not have, and those that make it better liked."""

    present_labels: tuple[str, ...] = ()
    absent_labels: tuple[str, ...] = ()
    present_labels_preference: tuple[str, ...] = ()
    absent_labels_preference: tuple[str, ...] = ()

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        return [
            *super().validate(path, gates),
            *_conflicts(self.present_labels, self.absent_labels, path, "presentLabels", "absentLabels"),
            *_conflicts(
                self.present_labels_preference,
                self.absent_labels_preference,
                path,
                "presentLabelsPreference",
                "absentLabelsPreference",
            ),
        ]


def _conflicts(
    present: tuple[str, ...], absent: tuple[str, ...], path: Path, present_name: str, absent_name: str
) -> Iterator[str]:
    """A label cannot be wished for and away at once."""
    for index, label in enumerate(absent):
        if label in present:
            where = path.child(absent_name).at(index)
            yield invalid(where, label, f"must not be in {path.child(present_name)} too")
