"""Metrics of parts of the scheduler that not everybody has or uses."""

from typing import Final

from stowplan.metrics.families import Families

SUCCESS: Final = "success"
FAILURE: Final = "failure"


class BatchMetrics:
    """Placing a pod where the one before it, which was just like it, would have gone next."""

    def __init__(self, families: Families) -> None:
        self._attempts = families.counter("batch_attempts_total")
        self._flushes = families.counter("batch_cache_flushed_total")
        self._asked = families.histogram("get_node_hint_duration_seconds")
        self._stored = families.histogram("store_schedule_results_duration_seconds")

    def attempted(self, profile: str, result: str) -> None:
        """What became of it: `no_hint`, `hint_used` or `hint_not_used`."""
        self._attempts[profile, result] += 1

    def flushed(self, profile: str, reason: str) -> None:
        """What was kept is of no use any more, because of `pod_failed`, `expired`, ..."""
        self._flushes[profile, reason] += 1

    def asked(self, hinted: bool, profile: str, seconds: float) -> None:
        """A node was asked for, and given or not."""
        self._asked["hint" if hinted else "no_hint", profile].observe(seconds)

    def stored(self, profile: str, seconds: float) -> None:
        """The outcome of an attempt was kept."""
        self._stored[profile,].observe(seconds)


class DeviceMetrics:
    """Devices: claims the scheduler makes itself, and devices that have to be made ready."""

    def __init__(self, families: Families) -> None:
        self._created = families.counter("resourceclaim_creates_total")
        self._allocations = families.counter("dra_bindingconditions_allocations_total")
        self._waits = families.histogram("dra_bindingconditions_wait_duration_seconds")

    def claim_created(self, created: bool) -> None:
        """A ResourceClaim was asked for."""
        self._created[SUCCESS if created else FAILURE,] += 1

    def waited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """It was waited for a device: `success`, `failure`, `timeout` or `error`."""
        self._waits[profile, driver, status].observe(seconds)

    def allocated(self, profile: str, driver: str, status: str) -> None:
        """A device with binding conditions was allocated, and became ready or not."""
        self._allocations[profile, driver, status] += 1


class VolumeMetrics:
    """Volumes that could not be found, reserved or bound."""

    def __init__(self, families: Families) -> None:
        self._failures = families.counter("volume_scheduling_stage_error_total")

    def failed(self, operation: str) -> None:
        """A stage failed: `predicate`, `assume` or `bind`."""
        self._failures[operation,] += 1


class AsyncCallMetrics:
    """Calls to the API server that wait in a line of their own."""

    def __init__(self, families: Families) -> None:
        self._calls = families.counter("async_api_call_execution_total")
        self._seconds = families.histogram("async_api_call_execution_duration_seconds")
        self._pending = families.gauge("pending_async_api_calls")

    def executed(self, call_type: str, result: str, seconds: float) -> None:
        """A call (`pod_status_patch`, `pod_binding`) was made: `success` or `error`."""
        labels = (call_type, result)
        self._calls[labels] += 1
        self._seconds[labels].observe(seconds)

    def pending(self, call_type: str, change: int) -> None:
        """So many calls more or fewer wait."""
        self._pending[call_type,] += change


class PodGroupMetrics:
    """Groups of pods that are placed together."""

    def __init__(self, families: Families) -> None:
        self._attempts = families.counter("podgroup_schedule_attempts_total")
        self._attempt_seconds = families.histogram("podgroup_scheduling_attempt_duration_seconds")
        self._algorithm = families.distribution("podgroup_scheduling_algorithm_duration_seconds")

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """An attempt is over: `scheduled`, `unschedulable`, `waiting_on_preemption` or `error`."""
        labels = (result, profile)
        self._attempts[labels] += 1
        self._attempt_seconds[labels].observe(seconds)

    def algorithm(self, seconds: float) -> None:
        """Places were looked for, found or not."""
        self._algorithm.observe(seconds)
