"""`stowplan lab software` on made-up projects: definitions, webhooks, load balancers, failures."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stowplan.cli.main import stowplan
from stowplan.lab.software import ours

WORKLOAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME, namespace: NAME}
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec: {nodeSelector: {SELECTOR}, containers: [{name: main, image: registry.example/NAME}]}
"""
OPERATOR = """
apiVersion: gears.example.com/v1
kind: Gear
metadata: {name: one}
spec: {teeth: 12}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: gears}
webhooks:
- name: check.gears.example.com
  clientConfig: {service: {name: gears, namespace: gears, path: /}}
  rules: [{apiGroups: [gears.example.com], apiVersions: [v1], operations: [CREATE], resources: [gears]}]
  sideEffects: None
  admissionReviewVersions: [v1]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gears.gears.example.com}
spec:
  group: gears.example.com
  scope: Namespaced
  names: {plural: gears, kind: Gear}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
BALANCED = """
apiVersion: v1
kind: Service
metadata: {name: edge, namespace: edge}
spec: {type: LoadBalancer, selector: {app: edge}, ports: [{port: 80}]}
"""
BROKEN = """
apiVersion: example.com/v9
kind: Unknown
metadata: {name: nobody}
---
apiVersion: v1
kind: Service
metadata: {name: broken, namespace: broken}
spec: {ports: [{port: 70000}]}
"""


def workload(name: str, selector: str = "") -> str:
    return WORKLOAD.replace("NAME", name).replace("SELECTOR", selector)


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("software")
    (folder / "gears" / "deploy").mkdir(parents=True)
    (folder / "gears" / "deploy" / "operator.yaml").write_text(OPERATOR)
    (folder / "gears" / "manager.yaml").write_text(workload("gears"))
    (folder / "gears" / "README.md").write_text("not a manifest")
    (folder / "edge.yaml").write_text(f"{BALANCED}---{workload('edge')}")
    (folder / "broken.yaml").write_text(f"{BROKEN}---{workload('broken', 'disk: none')}")
    return folder


def run(*words: str) -> Result:
    return CliRunner().invoke(stowplan, ["lab", "software", *words, "--timeout", "10s"])


def test_projects_that_work_are_applied_and_ready(projects: Path) -> None:
    done = run(str(projects), "--only", "gears", "--only", "edge", "--json")
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    assert [(one["project"], one["objects"], one["applied"]) for one in found] == [
        ("edge", 2, 2),
        ("gears", 4, 4),
    ]
    assert [one["differences"] for one in found] == [[], []]


def test_what_does_not_work_is_told_and_may_be_expected(projects: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        stowplan, ["lab", "software", str(projects), "--only", "broken", "--timeout", "1s"]
    )
    assert done.exit_code == 1
    table, _, details = done.stdout.partition("\n\n")
    assert table.splitlines()[-1].split() == ["broken", "3", "1", "2", "no:", "2", "4"]
    assert "refused: Unknown nobody: example.com/v9 Unknown is not served" in details
    assert "refused: Service broken/broken: Service " in details
    assert "not ready: Deployment broken/broken: 0 of 1 ready" in details
    expect = tmp_path / "expected.yaml"
    expect.write_text(
        "broken: {objects: 3, refused: [Unknown nobody, 'spec.ports[0].port'], notReady: [Deployment, Pod]}"
    )
    words = [str(projects), "--only", "broken", "--timeout", "1s", "--expect", str(expect)]
    done = CliRunner().invoke(stowplan, ["lab", "software", *words])
    assert done.exit_code == 0, done.output
    expect.write_text("broken: {refused: [Unknown, Service, Deployment], notReady: [Deployment, Pod]}")
    done = CliRunner().invoke(stowplan, ["lab", "software", *words])
    assert done.exit_code == 1
    assert "expected to be refused, but is not: Deployment" in done.stdout


def test_bad_input_is_one_line(projects: Path, tmp_path: Path) -> None:
    expect = tmp_path / "expected.yaml"
    expect.write_text("broken: {ready: 1}")
    done = run(str(projects), "--expect", str(expect))
    assert done.exit_code == 1
    assert "expected objects, refused and notReady by project" in done.output
    done = run(str(projects), "--only", "nothing")
    assert "expected files or folders with manifests named nothing" in done.output
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "one.yaml").write_text("{")
    done = run(str(bad))
    assert done.exit_code == 1
    assert "refused: manifests: " in done.stdout
    assert "not YAML or JSON" in done.stdout


def test_our_list_can_be_read() -> None:
    assert "jobset" in ours()
