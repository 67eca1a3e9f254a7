"""Images of simulated containers: which are pulled, how that fails, and the events of it.

A node has the images that its status shows, and those that were pulled there. Which images cannot be pulled
is pretended: by an annotation of the pod or its node, or by a pattern for the whole cluster.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from stowplan.api.requests import Json
from stowplan.localcluster.objects.fields import name_of, spec_of, status_of

SLOW_SECONDS: Final = 30.0
"""Duration of a pull that is slow."""

FAILURE_SHOWN: Final = 5.0
"""Seconds for which a container shows ErrImagePull before it shows ImagePullBackOff."""

_REGISTRY: Final = "docker.io/"
_LIBRARY: Final = "library/"


class PullMode(StrEnum):
    """Pretended result of image pulls."""

    WORKS = "false"
    NEVER = "never"
    SLOW = "slow"
    ERROR = "error"


class Pull(NamedTuple):
    """The image of a container that is to be pulled, and how that goes."""

    container: Json
    mode: PullMode

    @property
    def image(self) -> str:
        return str(self.container.get("image", ""))


class NodeImages:
    """Images by node. `missing`: patterns of images that do not exist."""

    def __init__(self, missing: Sequence[str] = ()) -> None:
        self._missing = tuple(missing)
        self._pulled: dict[str, set[str]] = {}

    def pulls(
        self, pod: Json, node: Json | None, mode: PullMode | None, of_node: PullMode | None
    ) -> list[Pull]:
        """The images of a pod that its node has to pull. The pod's own `mode` holds for all of its images."""
        found: list[Pull] = []
        for container in all_containers(pod):
            image = str(container.get("image", ""))
            there = self.has(node, image) and container.get("imagePullPolicy") != "Always"
            if mode is not None and mode is not PullMode.WORKS:
                found.append(Pull(container, mode))
            elif there and not self._is_missing(image):
                continue
            elif self._is_missing(image):
                found.append(Pull(container, PullMode.ERROR))
            else:
                found.append(Pull(container, mode or of_node or PullMode.WORKS))
        return found

    def has(self, node: Json | None, image: str) -> bool:
        if node is None:
            return False
        if image in self._pulled.get(name_of(node), ()):
            return True
        return any(image in (one.get("names") or ()) for one in status_of(node).get("images") or ())

    def keep(self, node: str, images: Iterable[str]) -> None:
        """The images have been pulled."""
        self._pulled.setdefault(node, set()).update(images)

    def _is_missing(self, image: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self._missing for name in _names(image))


def all_containers(pod: Json) -> list[Json]:
    spec = spec_of(pod)
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def _names(image: str) -> tuple[str, ...]:
    """An image as it is written, and with the registry that a runtime adds."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return (image,)
    return (image, _REGISTRY + (image if slash else _LIBRARY + image))


def pull_error(image: str) -> str:
    """The error of a pull, in containerd's words."""
    name = _names(image)[-1]
    name = name if ":" in name.rpartition("/")[2] or "@" in name else f"{name}:latest"
    return (
        f'rpc error: code = NotFound desc = failed to pull and unpack image "{name}": '
        f'failed to resolve reference "{name}": {name}: not found'
    )


def error_message(container: Json) -> str:
    """The message of a container whose image cannot be pulled."""
    return pull_error(str(container.get("image", "")))


def backoff_message(container: Json) -> str:
    """The same while the pull waits to be tried again."""
    return f'Back-off pulling image "{container.get("image", "")}": ErrImagePull: {error_message(container)}'


def seconds_text(seconds: float) -> str:
    """A duration as Go writes it."""
    return f"{round(seconds * 1000)}ms" if seconds < 1 else f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"
