"""What can go wrong while plugins run or are put together."""


class PluginError(Exception):
    """A plugin raised or returned what it must not: only this pod's attempt fails.

    `nodes` names the nodes it happened on, where it happened on nodes.
    """

    def __init__(self, plugin: str, message: str, nodes: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.plugin = plugin
        self.message = message
        self.nodes = nodes


class ChoiceError(PluginError):
    """The ranking named a row that cannot take the pod. It must not happen; if it does, nothing is bound."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__("", f"the row chosen for the pod, {row}, {why}; nothing was assumed")


class ProfileError(ValueError):
    """A profile that cannot be put together; one clear line."""


class NotBuiltError(PluginError):
    """The pod needs something stowplan does not do yet."""
