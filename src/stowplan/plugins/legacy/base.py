"""What plugins of earlier releases have in common."""

from typing import Any

from stowplan.api.fielderrors import Path, aggregate
from stowplan.framework.interface import Handle, Plugin
from stowplan.framework.status import ProfileError
from stowplan.plugins.args import PluginArgs


class LegacyPlugin(Plugin):
    """A plugin that kube-scheduler no longer has.

    To the reader of configurations it is one from outside the tree, so its arguments are completed and
    checked here, when it is made.
    """

    def __init__(self, args: Any, handle: Handle) -> None:
        if isinstance(args, PluginArgs):
            args = args.completed(handle.gates)
            errors = args.validate(Path(), handle.gates)
            if errors:
                raise ProfileError(aggregate(errors))
        super().__init__(args, handle)
