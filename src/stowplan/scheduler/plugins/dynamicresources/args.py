"""The arguments of DynamicResources."""

from typing import Self

from msgspec.structs import replace

from stowplan.api.fielderrors import Path, forbidden, invalid
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.gocompat.durations import Duration
from stowplan.scheduler.framework.advanced import FeatureGates
from stowplan.scheduler.plugins.args import PluginArgs
from stowplan.scheduler.plugins.dynamicresources.features import has_binding_conditions

FILTER_TIMEOUT = Duration.of_seconds(10)
BINDING_TIMEOUT = Duration.of_seconds(600)


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """Time limits: for searching devices on one node (zero: none), and for devices to become ready.

    Each belongs to feature gates. None means unset, which `completed` turns into the default of 10 s and
    10 min; with the gates off it stays None and must not be set.
    """

    filter_timeout: Duration | None = None
    binding_timeout: Duration | None = None

    def completed(self, gates: FeatureGates = DEFAULT_GATES) -> Self:
        filter_timeout, binding_timeout = self.filter_timeout, self.binding_timeout
        if filter_timeout is None and gates["DRASchedulerFilterTimeout"]:
            filter_timeout = FILTER_TIMEOUT
        if binding_timeout is None and has_binding_conditions(gates):
            binding_timeout = BINDING_TIMEOUT
        return replace(self, filter_timeout=filter_timeout, binding_timeout=binding_timeout)

    def validate(self, path: Path, gates: FeatureGates = DEFAULT_GATES) -> list[str]:
        errors: list[str] = []
        limit, where = self.filter_timeout, path.child("filterTimeout")
        if limit is not None and not gates["DRASchedulerFilterTimeout"]:
            errors.append(forbidden(where, "DRASchedulingFilterTimeout feature gate is disabled"))
        elif limit is not None and limit < Duration():
            errors.append(invalid(where, str(limit), "must be zero or positive"))
        limit, where = self.binding_timeout, path.child("bindingTimeout")
        if limit is not None and not has_binding_conditions(gates):
            gate_names = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus"
            errors.append(forbidden(where, f"{gate_names} feature gate is disabled"))
        elif limit is not None and limit < Duration.of_seconds(1):
            errors.append(invalid(where, str(limit), "must be at least 1 second"))
        return errors
