"""`stowplan bench perf`: definitions in the form of Kubernetes' scheduler_perf, run with this scheduler."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stowplan.cli.lab.bench import bench
from stowplan.lab.bench.perf.declaredfeatures import made_up_features, needing
from stowplan.lab.bench.perf.definitions import MetricSelector, read
from stowplan.lab.bench.perf.figures import DataItem, durations, histograms, throughput, verdict
from stowplan.scheduler import Settings

POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: pause, resources: {requests: {cpu: CPU}}}
"""
FILES = {
    "templates/small.yaml": POD.replace("CPU", "100m"),
    "templates/large.yaml": POD.replace("CPU", '"{{.cpu}}"'),
    "templates/gated.yaml": POD.replace("CPU", "100m").replace(
        "spec:", "spec:\n  schedulingGates: [{name: g}]"
    ),
    "templates/wide.yaml": "apiVersion: v1\nkind: Widget\nmetadata: {name: w}\n",
    "templates/node.yaml": """
apiVersion: v1
kind: Node
metadata:
  name: big-{{.Index}}
status:
  capacity: {cpu: "{{MultiplyInt .Count 4}}", memory: 32Gi, pods: 110}
  conditions: [{type: Ready, status: "True"}]
""",
    "templates/pv.yaml": """
apiVersion: v1
kind: PersistentVolume
spec:
  accessModes: [ReadOnlyMany]
  capacity: {storage: 1Gi}
  csi: {driver: d}
""",
    "templates/pvc.yaml": """
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  annotations: {pv.kubernetes.io/bind-completed: "true"}
spec:
  accessModes: [ReadOnlyMany]
  resources: {requests: {storage: 1Gi}}
""",
}
CASES = {
    "Plain": """
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createNamespaces, prefix: ns, count: 2}
  - {opcode: createPods, countParam: $pods, namespace: ns-1, collectMetrics: true}
""",
    "Volumes": """
  - opcode: createNodes
    count: 2
    nodeTemplatePath: templates/node.yaml
    nodeAllocatableStrategy: {csiNodeAllocatable: {d: {count: 10}}}
  - opcode: createPods
    countParam: $pods
    persistentVolumeTemplatePath: templates/pv.yaml
    persistentVolumeClaimTemplatePath: templates/pvc.yaml
    collectMetrics: true
  - {opcode: sleep, duration: 1ms}
""",
    "Gated": """
  - {opcode: createNodes, count: 1, labelNodePrepareStrategy: {labelKey: k, labelValues: [a, b]}}
  - opcode: createPods
    countParam: $pods
    podTemplatePath: templates/gated.yaml
    namespace: g
    skipWaitToCompletion: true
  - {opcode: barrier, stageRequirement: Attempted}
  - {opcode: deletePods, namespace: g}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
""",
    "Steady": """
  - {opcode: createNodes, count: 1}
  - opcode: churn
    mode: recreate
    number: 1
    intervalMilliseconds: 20
    templatePaths: [templates/small.yaml]
  - {opcode: createPods, countParam: $pods, steadyState: true, duration: 300ms, collectMetrics: true}
""",
    "Waiting": """
  - {opcode: createNodes, countParam: $nodes}
  - opcode: startCollectingMetrics
    namespaces: [w]
  - opcode: createPods
    countParam: $pods
    podTemplatePath: templates/large.yaml
    namespace: w
    skipWaitToCompletion: true
    templateParams: {cpu: $cpu|500m}
  - {opcode: barrier, namespaces: [w]}
  - opcode: stopCollectingMetrics
""",
    "Unknown": "  - {opcode: createAny, templatePath: templates/wide.yaml}\n",
    "Undefined": "  - {opcode: createPods, countParam: $lacking}\n",
}


_WORKLOAD = "{name: tiny, labels: [performance], threshold: 1, params: {nodes: 3, pods: 6}}"
_BROKEN = "{name: tiny, labels: [performance, broken]}"
_BAD = ("Unknown", "Undefined")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "templates").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    definitions = [
        f"- name: {name}\n  defaultPodTemplatePath: templates/small.yaml\n  workloadTemplate:\n"
        f"{operations.lstrip(chr(10))}  workloads:\n  - {_BROKEN if name in _BAD else _WORKLOAD}\n"
        for name, operations in CASES.items()
    ]
    (tmp_path / "performance-config.yaml").write_text("".join(definitions))
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(bench, ["perf", *map(str, arguments)])


def test_workloads_are_run_and_compared_with_their_thresholds(folder: Path) -> None:
    result = run(folder, "--labels", "performance,-broken", "--json")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert "5 of 5 workloads were run" in lines[-2]
    found = {one["name"]: one for one in json.loads(lines[-1])["workloads"]}
    steady = found.pop("Steady/tiny")
    assert steady["pods"] > 6
    assert {name: one["pods"] for name, one in found.items()} == dict.fromkeys(found, 6)
    metrics = {item["labels"]["Metric"] for item in steady["items"]}
    assert {"SchedulingThroughput", "scheduler_scheduling_attempt_duration_seconds"} <= metrics


def test_what_cannot_run_is_listed_with_the_reason(folder: Path) -> None:
    result = run(folder, "--labels", "broken")
    assert result.exit_code == 1
    assert "not run: templates/wide.yaml: unknown kind v1 Widget" in result.output
    assert (
        "not run: Undefined/tiny: workloadTemplate[0]: countParam: parameter lacking is undefined"
        in result.output
    )
    assert "0 of 2 workloads were run" in result.output


def test_workloads_are_chosen_by_label_and_name(folder: Path) -> None:
    assert run(folder, "--list", "--case", "Pl*").output.split() == ["Plain/tiny", "performance"]
    refused = run(folder, "--labels", "other")
    assert refused.exit_code == 1
    assert refused.output == "Error: none of 7 workloads has labels 'other' and fits '*'\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("- name: a\n  workloadTemplate: [{opcode: fly}]\n  workloads: []\n", "Invalid value 'fly'"),
        ("- name: a\n  workloadTemplate: []\n  workloads: []\n  colour: red\n", "unknown field `colour`"),
        ("- {", "did not find expected"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "performance-config.yaml"
    path.write_text(content)
    result = run(path)
    assert result.exit_code == 1
    [line] = result.output.splitlines()
    assert line.startswith(f"Error: {path}: ")
    assert message in line


def test_throughput_is_sampled_as_upstream_does() -> None:
    """Ten pods a second for twenty seconds but for a gap of five, which counts five times."""
    times = [second + part / 10 for second in range(20) if not 5 <= second < 10 for part in range(1, 11)]
    [item] = throughput(times, 0.0, "n")
    samples = [10.0] * 4 + [10 / 6] * 6 + [10.0] * 9
    assert item.data["Average"] == pytest.approx(sum(samples) / len(samples))
    assert item.data["Perc50"] == 10
    assert throughput([1.0], 0.0, "n") == []


def test_durations_are_of_what_was_observed_in_between() -> None:
    def page(*counts: int) -> str:
        buckets = "".join(
            f'h_bucket{{le="{bound}"}} {count}\n'
            for bound, count in zip(("1", "2", "+Inf"), counts, strict=True)
        )
        return f"# TYPE h histogram\n{buckets}h_sum {counts[-1] * 1.5}\nh_count {counts[-1]}\n"

    [item] = durations(histograms(page(5, 5, 5), ["h"]), histograms(page(5, 15, 15), ["h"]), "n")
    assert item.data["Perc50"] == 1500
    assert item.data["Average"] == 1500


def test_a_threshold_may_be_an_upper_bound() -> None:
    item = DataItem({"Metric": "m", "result": "scheduled"}, {"Perc99": 4.0}, "ms")
    selector = MetricSelector(
        name="m", labels={"result": "scheduled"}, data_bucket="Perc99", expect_lower=True
    )
    found = verdict([item], selector, 8.0)
    assert found is not None
    assert (found.holds, found.times) == (True, 2.0)
    assert verdict([item], MetricSelector(name="other"), 8.0) is None


def test_a_gate_that_is_off_takes_along_what_needs_it(tmp_path: Path) -> None:
    """NodeDeclaredFeatures is needed by gates that are on, and can only be off in the release before."""
    write_case(tmp_path, "featureGates: {NodeDeclaredFeatures: false}")
    result = run(tmp_path)
    assert result.exit_code == 0, result.output
    assert "1 of 1 workloads were run" in result.output


def test_nodes_declare_the_features_that_pods_of_a_workload_need(tmp_path: Path) -> None:
    write_case(tmp_path, "featureGates: {NodeDeclaredFeatures: true}")
    [benchmark] = read(tmp_path / "performance-config.yaml")
    features = made_up_features(benchmark)
    assert features == ["Feature1", "Feature2"]
    plugin = needing(Settings.of(), features).registry.get("NodeDeclaredFeatures")
    assert plugin is not None
    assert plugin.name == "NodeDeclaredFeatures"
    assert needing(Settings.of(), ()).registry.get("NodeDeclaredFeatures") is not plugin
    result = run(tmp_path)
    assert result.exit_code == 0, result.output


def write_case(folder: Path, gates: str) -> None:
    pod = POD.replace("CPU", "100m").replace("spec:", "spec:\n  resources: {requests: {cpu: 200m}}")
    (folder / "pod.yaml").write_text(pod)
    (folder / "performance-config.yaml").write_text(f"""
- name: Declared
  defaultPodTemplatePath: pod.yaml
  {gates}
  workloadTemplate:
  - {{opcode: createNodes, count: 2}}
  - {{opcode: createPods, count: 4, collectMetrics: true}}
  workloads:
  - {{name: tiny, labels: [performance], params: {{numNodeDeclaredFeatures: 2}}}}
""")
