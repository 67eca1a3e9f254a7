"""Devices: so far the classes of devices, as far as they stand for extended resources."""

from typing import Final

from stowplan.api.meta import Object, Struct

DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""An extended resource with this prefix means the device class of that name."""


class DeviceClassSpec(Struct, frozen=True):
    extended_resource_name: str | None = None


class DeviceClass(Object, frozen=True):
    """A class of devices. Pods can ask for one by an extended resource name."""

    spec: DeviceClassSpec = DeviceClassSpec()

    @property
    def resource_names(self) -> tuple[str, ...]:
        """The extended resources that mean this class: the one implied by its name, and one given to it."""
        implied = DEVICE_CLASS_PREFIX + self.metadata.name
        given = self.spec.extended_resource_name
        return (implied,) if given is None else (implied, given)
