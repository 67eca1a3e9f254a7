"""The plugins of a release by name: where they run, in what order, and which are in a profile by default."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReleasePlugin:
    """A plugin of the tree in one release.

    `points` are the extension points of kube-scheduler's plugin of that name, as a configuration names them.
    `weight` is its weight in the default profile, 0 where none is written (which counts as 1 in a score).
    `gate` is the feature gate that puts it into the default profile; None: it is always there, unless it is
    only `on_request`, when a configuration names it.
    """

    name: str
    points: tuple[str, ...]
    weight: int = 0
    gate: str | None = None
    on_request: bool = False


def plugin(
    name: str, points: str, *, weight: int = 0, gate: str | None = None, on_request: bool = False
) -> ReleasePlugin:
    """A plugin; `points` are separated by spaces."""
    return ReleasePlugin(name, tuple(points.split()), weight, gate, on_request)
