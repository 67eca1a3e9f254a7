"""performance-config.yaml: test cases with the operations of their workloads, and the workloads' parameters.

The files are read as they are. A field that is not known is refused, so that nothing they ask for is left out
without a word; paths in them are relative to the file.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stowplan.gocompat.durations import Duration, DurationError
from stowplan.gocompat.jsontext import TextError
from stowplan.gocompat.yamltext import load_yaml

FILE_NAME: Final = "performance-config.yaml"
THROUGHPUT: Final = "SchedulingThroughput"


class DefinitionError(Exception):
    """A file that cannot be read, or a workload whose parameters do not fit its operations."""


class _Base(
    msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True, tag_field="opcode"
):
    """Common base of all operations: the notation of fields."""


class LabelNodes(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """One label on the new nodes, its values in turn."""

    label_key: str
    label_values: list[str]


class UniqueLabel(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """One label on the new nodes, with a distinct value for each."""

    label_key: str


class PerfNodeAllocatable(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """Additional allocatable resources of the new nodes, and the volumes that can be attached to them."""

    node_allocatable: dict[str, str] = {}
    csi_node_allocatable: dict[str, dict[str, int]] = {}
    migrated_plugins: list[str] = []


class CreateNodes(_Base, frozen=True, kw_only=True, tag="createNodes"):
    count: int = 0
    count_param: str = ""
    node_template_path: str = ""
    node_allocatable_strategy: PerfNodeAllocatable | None = None
    label_node_prepare_strategy: LabelNodes | None = None
    unique_node_label_strategy: UniqueLabel | None = None
    template_params: dict[str, Any] = {}


class CreateNamespaces(_Base, frozen=True, kw_only=True, tag="createNamespaces"):
    prefix: str
    count: int = 0
    count_param: str = ""
    namespace_template_path: str = ""


class CreatePods(_Base, frozen=True, kw_only=True, tag="createPods"):
    count: int = 0
    count_param: str = ""
    count_multiplier_param: str = ""
    steady_state: bool = False
    steady_state_param: str = ""
    duration: str = ""
    duration_param: str = ""
    collect_metrics: bool = False
    namespace: str = ""
    pod_template_path: str = ""
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""
    template_params: dict[str, Any] = {}
    signature_batch_size: int = 1
    signature_batch_size_param: str = ""

    @property
    def seconds(self) -> float:
        """How long a steady state lasts."""
        return _seconds(self.duration)


class CreatePodSets(_Base, frozen=True, kw_only=True, tag="createPodSets"):
    namespace_prefix: str
    create_pods_op: CreatePods
    count: int = 0
    count_param: str = ""


class CreateAny(_Base, frozen=True, kw_only=True, tag="createAny"):
    template_path: str
    namespace: str = ""
    count: int = 1
    count_param: str = ""
    template_params: dict[str, Any] = {}


class CreatePodGroups(_Base, frozen=True, kw_only=True, tag="createPodGroups"):
    template_path: str
    namespace: str
    count: int = 0
    count_param: str = ""
    template_params: dict[str, Any] = {}


class CreateResourceClaims(_Base, frozen=True, kw_only=True, tag="createResourceClaims"):
    template_path: str
    namespace: str
    count: int = 0
    count_param: str = ""


class AllocResourceClaims(_Base, frozen=True, kw_only=True, tag="allocResourceClaims"):
    namespace: str = ""


class UpdateAny(_Base, frozen=True, kw_only=True, tag="updateAny"):
    template_path: str
    namespace: str = ""
    count: int = 1
    count_param: str = ""
    update_per_second: int = 0
    subresources: list[str] = []


class DeletePods(_Base, frozen=True, kw_only=True, tag="deletePods"):
    namespace: str
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: int = 0


class Churn(_Base, frozen=True, kw_only=True, tag="churn"):
    mode: str
    template_paths: list[str]
    number: int = 0
    interval_milliseconds: int = 500
    namespace: str = ""


class Barrier(_Base, frozen=True, kw_only=True, tag="barrier"):
    namespaces: list[str] = []
    label_selector: dict[str, str] = {}
    stage_requirement: str = "Scheduled"


class Sleep(_Base, frozen=True, kw_only=True, tag="sleep"):
    duration: str = ""
    duration_param: str = ""

    @property
    def seconds(self) -> float:
        return _seconds(self.duration)


class StartCollectingMetrics(_Base, frozen=True, kw_only=True, tag="startCollectingMetrics"):
    name: str = ""
    namespaces: list[str] = []
    label_selector: dict[str, str] = {}


class StopCollectingMetrics(_Base, frozen=True, kw_only=True, tag="stopCollectingMetrics"):
    pass


Operation = (
    CreateNodes
    | CreateNamespaces
    | CreatePods
    | CreatePodSets
    | CreateAny
    | CreatePodGroups
    | CreateResourceClaims
    | AllocResourceClaims
    | UpdateAny
    | DeletePods
    | Churn
    | Barrier
    | Sleep
    | StartCollectingMetrics
    | StopCollectingMetrics
)


class MetricSelector(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The figure that a threshold is for."""

    name: str = THROUGHPUT
    labels: dict[str, str] = {}
    data_bucket: str = "Average"
    expect_lower: bool = False


class PerfWorkload(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """One size of a test case."""

    name: str
    params: dict[str, Any] = {}
    labels: list[str] = []
    threshold: float | dict[str, float] = 0.0
    threshold_metric_selector: MetricSelector | None = None
    feature_gates: dict[str, bool] = {}

    def threshold_for(self, topic: str) -> float:
        """The threshold, which may differ by topic: by whose configuration the test case is run."""
        if isinstance(self.threshold, dict):
            return self.threshold.get(topic, 0.0)
        return self.threshold


class TestCase(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Workloads of several sizes that do the same."""

    __test__ = False

    name: str
    workload_template: list[Operation]
    workloads: list[PerfWorkload]
    feature_gates: dict[str, bool] = {}
    metrics_collector_config: dict[str, Any] | None = None
    scheduler_config_path: str = ""
    default_pod_template_path: str = ""
    labels: list[str] = []
    default_threshold_metric_selector: MetricSelector | None = None


class Benchmark(msgspec.Struct, frozen=True, kw_only=True):
    """One workload of one test case, with its parameters filled in."""

    folder: Path
    case: TestCase
    workload: PerfWorkload

    @property
    def name(self) -> str:
        return f"{self.case.name}/{self.workload.name}"

    @property
    def labels(self) -> frozenset[str]:
        return frozenset((*self.case.labels, *self.workload.labels))

    @property
    def feature_gates(self) -> dict[str, bool]:
        return {**self.case.feature_gates, **self.workload.feature_gates}

    @property
    def threshold(self) -> float:
        return self.workload.threshold_for(self.folder.name)

    @property
    def selector(self) -> MetricSelector:
        """The figure to compare with the threshold."""
        case = self.case.default_threshold_metric_selector
        return self.workload.threshold_metric_selector or case or MetricSelector()

    def path(self, relative: str) -> Path:
        return self.folder / relative

    def operations(self) -> list[Operation]:
        """Operations of the workload in order. Raises DefinitionError."""
        return list(self._unrolled())

    def _unrolled(self) -> Iterator[Operation]:
        for number, operation in enumerate(self.case.workload_template):
            try:
                if not isinstance(operation, CreatePodSets):
                    yield self._filled(operation)
                    continue
                sets = self._filled(operation)
                assert isinstance(sets, CreatePodSets)
                for place in range(sets.count):
                    named = replace(sets.create_pods_op, namespace=f"{sets.namespace_prefix}-{place}")
                    yield self._filled(named)
            except DefinitionError as error:
                raise DefinitionError(f"{self.name}: workloadTemplate[{number}]: {error}") from None

    def _filled(self, operation: Operation) -> Operation:
        """An operation with the values of the parameters that it names."""
        changes: dict[str, Any] = {}
        for param, target in _PARAMETERS.items():
            name = getattr(operation, param, "")
            if name:
                changes[target] = self._parameter(_camel(param), name, _TYPES[target])
        multiplier = getattr(operation, "count_multiplier_param", "")
        if multiplier:
            count = changes.get("count", getattr(operation, "count", 0))
            changes["count"] = count * self._parameter("countMultiplierParam", multiplier, int)
        params = getattr(operation, "template_params", None)
        if params:
            changes["template_params"] = {key: self._template_value(value) for key, value in params.items()}
        return replace(operation, **changes) if changes else operation

    def _parameter(self, field: str, name: str, kind: type) -> Any:
        if not name.startswith("$"):
            raise DefinitionError(f"{field}: expected a parameter such as $count, got {name!r}")
        key = name[1:]
        if key not in self.workload.params:
            raise DefinitionError(f"{field}: parameter {key} is undefined")
        value = self.workload.params[key]
        if kind is int and isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not kind:
            raise DefinitionError(f"{field}: parameter {key}: expected {_NAMES[kind]}, got {value!r}")
        return value

    def _template_value(self, value: Any) -> Any:
        """A value, or for `$name` the parameter, or for `$name|default` that or the default, read as YAML."""
        if not isinstance(value, str) or not value.startswith("$"):
            return value
        key, bar, default = value[1:].partition("|")
        if key in self.workload.params:
            return self.workload.params[key]
        if not bar:
            raise DefinitionError(f"templateParams: parameter {key} is undefined")
        return load_yaml(default)


_PARAMETERS: Final = {
    "count_param": "count",
    "steady_state_param": "steady_state",
    "duration_param": "duration",
    "signature_batch_size_param": "signature_batch_size",
}
_TYPES: Final[Mapping[str, type]] = {
    "count": int,
    "signature_batch_size": int,
    "steady_state": bool,
    "duration": str,
}
_NAMES: Final[Mapping[type, str]] = {int: "a whole number", bool: "true or false", str: "a text"}


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The files, and those called performance-config.yaml below folders. Raises DefinitionError."""
    found: list[Path] = []
    for path in paths:
        below = sorted(path.rglob(FILE_NAME)) if path.is_dir() else [path]
        if not below:
            raise DefinitionError(f"{path}: expected a {FILE_NAME} in this folder or below it")
        found += below
    return found


def read(path: Path) -> list[Benchmark]:
    """All workloads of a file. Raises DefinitionError."""
    try:
        document = load_yaml(path.read_bytes())
        cases = msgspec.convert(document, list[TestCase], strict=True)
    except OSError as error:
        raise DefinitionError(f"{path}: {error.strerror}") from None
    except TextError as error:
        raise DefinitionError(f"{path}: {' '.join(str(error).split())}") from None
    except msgspec.ValidationError as error:
        raise DefinitionError(f"{path}: {error}") from None
    return [
        Benchmark(folder=path.parent, case=case, workload=workload)
        for case in cases
        for workload in case.workloads
    ]


def _seconds(text: str) -> float:
    try:
        return Duration.parse(text).seconds if text else 0.0
    except DurationError as error:
        raise DefinitionError(str(error)) from None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
