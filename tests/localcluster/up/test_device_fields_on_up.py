"""Device features of a release and its gates decide where pods go in `stowplan up`, from kubectl on."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from localcluster.up.clusters import up
from waiting import PATIENCE

SHAPES = "nodes:\n- {name: big, count: 1, cpu: 8, memory: 32Gi}\n"
SLICE = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: cores}
spec:
  driver: cpu.example.com
  nodeName: big
  pool: {name: big, generation: 1, resourceSliceCount: 1}
  devices:
  - name: socket-0
    nodeAllocatableResources: {cpu: {mapping: {deviceMultiplier: "5"}}}
  - name: socket-1
    nodeAllocatableResources: {cpu: {mapping: {deviceMultiplier: "5"}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: cpu.example.com}
spec: {}
"""
USER = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: NAME}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: cpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  resourceClaims: [{name: r, resourceClaimName: NAME}]
  containers: [{name: c, image: i, resources: {claims: [{name: r}]}}]
"""
GATE = "--feature-gates=DRANodeAllocatableResources=true"


@pytest.mark.parametrize(("version", "fits_twice"), [("1.37", False), ("1.36", True)])
def test_devices_take_cpu_of_their_node_in_the_release_that_has_the_field(
    tmp_path: Path, version: str, fits_twice: bool
) -> None:
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text(SHAPES)
    with up(tmp_path, f"--shapes={shapes}", f"--emulated-version={version}", GATE) as cluster:
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(tmp_path)}

        def kubectl(*words: str, text: str = "") -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                [shutil.which("kubectl") or "", *words],
                input=text,
                env=environment,
                capture_output=True,
                text=True,
                timeout=2 * PATIENCE,
                check=True,
            )

        def until(name: str, path: str, said: str) -> None:
            deadline = time.monotonic() + PATIENCE
            while said not in (found := kubectl("get", "pod", name, "-o", f"jsonpath={path}").stdout):
                assert time.monotonic() < deadline, f"pod {name} {path}: expected {said}, got {found}"
                time.sleep(0.2)

        applied = kubectl("apply", "-f", "-", text=SLICE)
        assert ("nodeAllocatableResources: dropped" in applied.stderr) == fits_twice
        kubectl("apply", "-f", "-", text=USER.replace("NAME", "first"))
        until("first", "{.spec.nodeName}", "big")
        kubectl("apply", "-f", "-", text=USER.replace("NAME", "second"))
        if fits_twice:
            until("second", "{.spec.nodeName}", "big")
        else:
            until("second", "{.status.conditions[0].message}", "Insufficient cpu")
        status = json.loads(kubectl("get", "pod", "first", "-o", "json").stdout)["status"]
        assert status.get("nodeAllocatableResourceClaimStatuses") == (
            None
            if fits_twice
            else [
                {
                    "resourceClaimName": "first",
                    "containers": ["c"],
                    "mapping": [{"name": "cpu", "quantity": "5"}],
                }
            ]
        )
