"""Traces as a source of a cluster: CSV files of machines are nodes, those of tasks are pods that wait.

`openb` and `alibaba2018` are known by their columns and names. For others a YAML file has the mapping:
`trace` for pods, `machines` for nodes, with the fields of a scenario's trace (docs/simulate.md).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from stowplan.api.meta import Object, ObjectMeta
from stowplan.api.node import Node, NodeStatus
from stowplan.api.pod import Container, Pod, PodSpec, ResourceRequirements
from stowplan.simulate.snapshot.files import SnapshotError
from stowplan.simulate.snapshot.places import Place, convert_at
from stowplan.simulate.snapshot.traces import Layout, Rows, TraceSpec, read_trace

TRACE: Final = "trace"
MACHINES: Final = "machines"
_LONGEST_HEADER: Final = 1 << 16
_FOREVER: Final = float("inf")
_PODS_OF_A_NODE: Final = "1001"
_GPU_COUNT: Final = "alibabacloud.com/gpu-count"
_GPU_MODEL: Final = "alibabacloud.com/gpu-card-model"

NODE_LAYOUTS: Final = {
    "openb": Layout(
        columns={"name": "sn", "cpu": "cpu_milli", "memory": "memory_mib", _GPU_COUNT: "gpu"},
        units={"cpu": "1m", "memory": "1Mi"},
        annotations={_GPU_MODEL: "model"},
    ),
    "alibaba2018": Layout(
        columns={"name": "machine_id", "cpu": "cpu_num", "memory": "mem_size"},
        units={"memory": "3840Mi"},
        annotations={"failure-domain": "failure_domain_1"},
        header=(
            "machine_id",
            "time_stamp",
            "failure_domain_1",
            "failure_domain_2",
            "cpu_num",
            "mem_size",
            "status",
        ),
    ),
}
"""As those of pods; `annotations` are labels of the nodes."""

_KNOWN: Final = "expected a trace of openb or alibaba2018, or a YAML file with the mapping of its columns"


def is_trace(path: Path) -> bool:
    """True if a file is to be read as a trace."""
    return path.suffix == ".csv"


def has_mapping(document: Any) -> bool:
    """True if a document of YAML is the mapping of a trace."""
    return isinstance(document, dict) and "kind" not in document and bool({TRACE, MACHINES} & document.keys())


def objects_of_trace(path: Path) -> list[Object]:
    """Nodes or pods of a trace whose layout is built in. Raises SnapshotError."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        header = file.readline(_LONGEST_HEADER).strip().split(",")
    place = Place(str(path), "")
    if path.name.startswith("machine_meta"):
        return list(_nodes(path, NODE_LAYOUTS["alibaba2018"]))
    if path.name.startswith("batch_task"):
        return list(_pods(path, TraceSpec(file=path.name, layout="alibaba2018"), place, ""))
    if {"sn", "cpu_milli"} <= set(header):
        return list(_nodes(path, NODE_LAYOUTS["openb"]))
    if {"num_gpu", "creation_time"} <= set(header):
        return list(_pods(path, TraceSpec(file=path.name, layout="openb"), place, ""))
    raise SnapshotError(f"{path}:1: {header[0][:40]}: {_KNOWN}")


def objects_of_mapping(document: Mapping[str, Any], place: Place) -> list[Object]:
    """Nodes and pods of the traces that a document names, beside it. Raises SnapshotError."""
    for name in document:
        if name not in (TRACE, MACHINES):
            raise place.wrong(str(name), f"unknown field: expected {TRACE} or {MACHINES}")
    found: list[Object] = []
    folder = Path(place.file).parent
    if MACHINES in document:
        spec = convert_at(document[MACHINES], TraceSpec, place)
        known = NODE_LAYOUTS.get(spec.layout, Layout({}))
        if spec.layout and spec.layout not in NODE_LAYOUTS:
            raise place.wrong(f"{MACHINES}.layout", f"expected one of {', '.join(NODE_LAYOUTS)}")
        columns = {**known.columns, **spec.columns}
        for needed in ("name", "cpu", "memory"):
            if not columns.get(needed):
                raise place.wrong(f"{MACHINES}.columns", f"expected {needed}: the column that has it")
        layout = Layout(
            columns,
            {**known.units, **spec.units},
            {**known.annotations, **spec.annotations},
            spec.header or known.header,
        )
        found += _nodes(_beside(folder, spec.file, place, MACHINES), layout)
    if TRACE in document:
        spec = convert_at(document[TRACE], TraceSpec, place)
        found += _pods(folder / spec.file, spec, place, TRACE)
    return found


def _beside(folder: Path, file: str, place: Place, where: str) -> Path:
    path = folder / file
    if not path.is_file():
        raise place.wrong(f"{where}.file", f"no such file: {file}")
    return path


def _nodes(path: Path, layout: Layout) -> Iterator[Node]:
    seen: set[str] = set()
    with path.open(encoding="utf-8", newline="") as file:
        rows = Rows(str(path), file, layout)
        for row in rows:
            name = rows.text(row, layout.columns["name"]).replace("_", "-").lower()
            if name in seen:
                continue
            seen.add(name)
            amounts: dict[str, str | int | float] = {"pods": _PODS_OF_A_NODE, **dict(rows.quantities(row))}
            labels = {"kubernetes.io/hostname": name, **dict(rows.annotations(row))}
            metadata = ObjectMeta(name=name, uid=f"node-{name}", labels=labels)
            yield Node(metadata=metadata, status=NodeStatus(allocatable=amounts, capacity=amounts))


def _pods(path: Path, spec: TraceSpec, place: Place, where: str) -> Iterator[Pod]:
    """The pods of a trace in the order of their arrival; none of them has a node."""
    for number, one in enumerate(read_trace(path, spec, place, where, _FOREVER).pods):
        name = f"{path.stem.replace('_', '-').lower()[:40]}-{number}"
        namespace = one.namespace or "default"
        metadata = ObjectMeta(
            name=name, namespace=namespace, uid=f"pod-{namespace}/{name}", annotations=dict(one.annotations)
        )
        resources = ResourceRequirements(requests=dict(one.requests))
        containers = (Container(name="main", resources=resources),)
        yield Pod(
            metadata=metadata,
            spec=PodSpec(containers=containers, priority=one.priority, scheduler_name="default-scheduler"),
        )
