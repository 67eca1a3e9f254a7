"""A profile at work."""

from collections.abc import Sequence

from stowplan.scheduler.framework.extension_points import Lifecycle
from stowplan.scheduler.framework.interface import ExtensionPoint, Plugin
from stowplan.scheduler.framework.protocols import PreemptionPlugin
from stowplan.scheduler.framework.runtime import Framework


class Profile:
    """One profile at work: its plugins where decisions are made, and where they are carried out."""

    def __init__(self, framework: Framework) -> None:
        self.name = framework.profile.scheduler_name
        self.framework = framework
        self.lifecycle = Lifecycle(framework)
        self.post_filters: Sequence[Plugin] = framework.at(ExtensionPoint.POST_FILTER)
        self.preemption = next((one for one in self.post_filters if isinstance(one, PreemptionPlugin)), None)
        """The PostFilter plugin whose victims are evicted, if there is one."""

    @property
    def preemption_name(self) -> str:
        """Name of that plugin in logs and events."""
        return self.preemption.name if isinstance(self.preemption, Plugin) else ""
