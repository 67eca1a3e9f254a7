"""Traces as the cluster of a question: CSV files in the layouts of openb and Alibaba, or with a mapping."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stowplan.api.node import Node
from stowplan.api.pod import Pod
from stowplan.cli.main import stowplan
from stowplan.simulate.snapshot import read_files

OPENB_NODES = "sn,cpu_milli,memory_mib,gpu,model\nnode-0,4000,16384,2,T4\nnode-1,8000,32768,0,\n"
OPENB_PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n"
    "b,2000,1024,0,0,,20,90\na,1000,512,1,500,T4,10,50\n"
)
MACHINES = "m_1,0,7,70,96,100,USING\nm_1,5,7,70,96,100,USING\nm_2,0,8,80,64,50,USING\n"
TASKS = "M1,3,j_1,1,Terminated,100,160,50,0.5\n"
OWN = "host,cores,gib,rack\nx,4,16,r1\ny,2,8,r2\n"
MAPPING = """
machines:
  file: own.csv
  columns: {name: host, cpu: cores, memory: gib}
  units: {memory: 1Gi}
  annotations: {example.com/rack: rack}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: new}
spec:
  containers: [{name: main, image: web, resources: {requests: {cpu: "2"}}}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "nodes.csv": OPENB_NODES,
        "pods.csv": OPENB_PODS,
        "machine_meta.csv": MACHINES,
        "batch_task.csv": TASKS,
        "own.csv": OWN,
        "own.yaml": MAPPING,
        "pod.yaml": POD,
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_layouts_that_are_built_in_are_known_by_their_columns_or_names(folder: Path) -> None:
    found = read_files([folder / "nodes.csv", folder / "pods.csv"]).objects
    nodes = [one for one in found if isinstance(one, Node)]
    pods = [one for one in found if isinstance(one, Pod)]
    assert [dict(one.status.allocatable) for one in nodes] == [
        {"pods": "1001", "cpu": "4", "memory": "17179869184", "alibabacloud.com/gpu-count": "2"},
        {"pods": "1001", "cpu": "8", "memory": "34359738368", "alibabacloud.com/gpu-count": "0"},
    ]
    assert nodes[0].metadata.labels["alibabacloud.com/gpu-card-model"] == "T4"
    assert [one.spec.containers[0].resources.requests["cpu"] for one in pods] == ["1", "2"]
    assert pods[0].metadata.annotations["alibabacloud.com/gpu-milli"] == "500"
    alibaba = read_files([folder / "machine_meta.csv", folder / "batch_task.csv"]).objects
    assert [one.name for one in alibaba if isinstance(one, Node)] == ["m-1", "m-2"]
    assert len([one for one in alibaba if isinstance(one, Pod)]) == 3


def fit(folder: Path, *sources: str) -> Result:
    given = [argument for source in sources for argument in ("--from", str(folder / source))]
    arguments = ["fit", "-f", str(folder / "pod.yaml"), "--max", "--json", *given]
    return CliRunner().invoke(stowplan, arguments, catch_exceptions=False)


def test_questions_can_be_asked_about_them(folder: Path) -> None:
    assert json.loads(fit(folder, "own.yaml").stdout)["placements"] == {"x": 2, "y": 1}
    assert json.loads(fit(folder, "nodes.csv").stdout)["placements"] == {"node-0": 2, "node-1": 4}
    assert json.loads(fit(folder, "machine_meta.csv").stdout)["replicas"] == 48 + 32


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("odd.csv", "a,b\n1,2\n", "odd.csv:1: a: expected a trace of openb or alibaba2018"),
        ("nodes.csv", OPENB_NODES.replace("4000", "four"), "nodes.csv:2: cpu_milli: expected a number"),
        ("nodes.csv", OPENB_NODES.replace("memory_mib", "ram"), "nodes.csv:1: memory_mib: no such column"),
        ("own.yaml", MAPPING.replace("own.csv", "gone.csv"), "machines.file: no such file: gone.csv"),
        ("own.yaml", MAPPING.replace("cores", "kernels"), "own.csv:1: kernels: no such column"),
        ("own.yaml", MAPPING.replace("name: host, ", ""), "own.yaml:4: machines.columns: expected name"),
        ("own.yaml", MAPPING + "extra: 1\n", "own.yaml:7: extra: unknown field"),
    ],
)
def test_a_mistake_is_one_line_with_file_line_and_column(
    folder: Path, file: str, text: str, said: str
) -> None:
    (folder / file).write_text(text)
    result = fit(folder, file)
    assert result.exit_code == 1
    [line] = [line for line in result.output.splitlines() if line.startswith("Error")]
    assert said in line
