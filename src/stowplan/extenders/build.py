"""From a configuration to extenders that can be asked."""

from stowplan.config.build import BuiltConfig
from stowplan.extenders.http import HttpExtender
from stowplan.extenders.wire import RawNode, RawPod, WireObjects


def extenders_for(
    built: BuiltConfig, raw_pod: RawPod | None = None, raw_node: RawNode | None = None
) -> list[HttpExtender]:
    """The extenders of a configuration in calling order.

    `raw_pod` and `raw_node` give objects with all their fields, also those stowplan has no type for, because
    an extender may look at any of them. The resources that only extenders count were taken out of the
    profiles when the configuration was built.
    """
    objects = WireObjects(raw_pod, raw_node)
    return [HttpExtender(config, objects) for config in built.extenders]
