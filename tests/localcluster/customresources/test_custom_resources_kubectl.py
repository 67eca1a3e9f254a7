"""The real kubectl and custom resources: the steps of installing an operator's definitions."""

# ruff: noqa: E501 - YAML in short

import json
import os
import subprocess
from collections.abc import Callable, Iterator

import pytest

from localcluster.apiserver.served import Served, serving
from waiting import KUBECTL_PATIENCE, PATIENCE

Run = Callable[..., str]

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd], categories: [all, tools]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
    selectableFields: [{jsonPath: .spec.color}]
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: A widget.
        properties:
          spec:
            type: object
            description: What the widget shall be.
            required: [size]
            properties:
              size: {type: integer, minimum: 1, description: How large it is.}
              color: {type: string, default: red, enum: [red, blue]}
              replicas: {type: integer}
              port: {x-kubernetes-int-or-string: true}
              template: {type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true}
              parts:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [name]
                items: {type: object, required: [name], properties: {name: {type: string}, count: {type: integer}}}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
  - name: v1beta1
    served: true
    storage: false
    deprecated: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
WIDGET = """
apiVersion: example.com/v1
kind: Widget
metadata: {name: NAME}
spec:
  size: 3
  replicas: 1
  port: http
  parts: [{name: a}]
  template: {apiVersion: v1, kind: Pod, metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: i}]}}
"""


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving(plain=False) as served:
        yield served


@pytest.fixture(scope="module")
def kubectl(api: Served, tmp_path_factory: pytest.TempPathFactory) -> Run:
    home = tmp_path_factory.mktemp("home")
    config = home / "kubeconfig"
    config.write_text(api.server.kubeconfig())
    environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(home)}

    def run(*words: str, text: str = "", fails: bool = False) -> str:
        """Output of kubectl; its error message, if it is to fail."""
        done = subprocess.run(
            ["kubectl", *words], input=text, capture_output=True, text=True, timeout=PATIENCE, env=environment
        )
        assert (done.returncode != 0) is fails, done.stderr or done.stdout
        return done.stderr if fails else done.stdout + done.stderr

    run("apply", "-f", "-", text=DEFINITION)
    run("wait", "--for=condition=Established", "crd/widgets.example.com", KUBECTL_PATIENCE)
    return run


def made(kubectl: Run, name: str) -> None:
    kubectl("apply", "-f", "-", text=WIDGET.replace("NAME", name))


def test_columns_short_names_and_categories(kubectl: Run) -> None:
    made(kubectl, "shown")
    lines = kubectl("get", "wd", "shown").splitlines()
    assert lines[0].split() == ["NAME", "SIZE", "READY", "AGE"]
    assert lines[1].split()[:2] == ["shown", "3"]
    assert "COLOR" in kubectl("get", "widgets", "-o", "wide")
    assert "widget.example.com/shown" in kubectl("get", "all")
    assert "shown" in kubectl("get", "tools")
    assert "shown" in kubectl("get", "widgets", "--field-selector", "spec.color=red")
    kubectl(
        "patch", "widget", "shown", "--subresource=status", "--type=merge",
        "-p", '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}',
    )  # fmt: skip
    assert kubectl("get", "wd", "shown").splitlines()[1].split()[:3] == ["shown", "3", "True"]
    assert "example.com/v1beta1 Widget is deprecated" in kubectl("get", "widgets.v1beta1.example.com")
    assert "widgets" in kubectl("api-resources", "--api-group=example.com", "-o", "name")


def test_explain(kubectl: Run) -> None:
    text = kubectl("explain", "widget.spec")
    assert "What the widget shall be." in text
    assert "-required-" in text
    assert "How large it is." in kubectl("explain", "wd.spec.size")
    assert "enum: red, blue" in kubectl("explain", "widget.spec", "--recursive")


def test_a_diff_of_what_was_applied_is_empty(kubectl: Run) -> None:
    """Generated manifests have empty maps and nulls everywhere."""
    meta = "{name: diffed, labels: {}, annotations: {}, creationTimestamp: null}"
    inner = "{labels: {app: x}, annotations: {}, creationTimestamp: null}"
    text = WIDGET.replace("{name: NAME}", meta).replace("{labels: {app: x}}", inner) + "status: {}\n"
    for how in ((), ("--server-side",)):
        kubectl("apply", "-f", "-", *how, text=text)
        assert kubectl("diff", "-f", "-", *how, text=text) == ""
        kubectl("delete", "widget", "diffed")
    made(kubectl, "diffed")
    assert kubectl("diff", "-f", "-", text=text) == ""
    defined = DEFINITION.replace("{name: widgets.example.com}", "{name: widgets.example.com, labels: {}}")
    assert kubectl("diff", "-f", "-", text=defined) == ""


def test_apply_changes_what_is_applied(kubectl: Run) -> None:
    made(kubectl, "applied")
    assert "unchanged" in kubectl("apply", "-f", "-", text=WIDGET.replace("NAME", "applied"))
    changed = WIDGET.replace("NAME", "applied").replace("size: 3", "size: 4").replace("  port: http\n", "")
    assert "configured" in kubectl("apply", "-f", "-", text=changed)
    spec = json.loads(kubectl("get", "widget", "applied", "-o", "json"))["spec"]
    assert (spec["size"], spec["color"], "port" in spec) == (4, "red", False)
    assert spec["template"]["spec"] == {"containers": [{"name": "c", "image": "i"}]}
    assert "unknown field" in kubectl(
        "apply", "-f", "-", text=changed.replace("size: 4", "size: 4\n  junk: 1"), fails=True
    )
    assert "should be greater than or equal to 1" in kubectl(
        "apply", "-f", "-", text=changed.replace("size: 4", "size: 0"), fails=True
    )


def test_server_side_apply_by_two_managers(kubectl: Run) -> None:
    one = WIDGET.replace("NAME", "shared")
    two = one.replace("[{name: a}]", "[{name: b, count: 2}]")
    kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", text=one)
    kubectl("apply", "--server-side", "--field-manager=two", "-f", "-", text=two)
    names = kubectl("get", "widget", "shared", "-o", "jsonpath={.spec.parts[*].name}")
    assert names == "a b"
    conflict = two.replace("size: 3", "size: 5")
    assert ".spec.size" in kubectl(
        "apply", "--server-side", "--field-manager=two", "-f", "-", text=conflict, fails=True
    )


def test_scale(kubectl: Run) -> None:
    made(kubectl, "scaled")
    assert "scaled" in kubectl("scale", "widget/scaled", "--replicas=5")
    assert kubectl("get", "widget", "scaled", "-o", "jsonpath={.spec.replicas}") == "5"


def test_a_list_of_kinds_in_one_file(kubectl: Run) -> None:
    both = DEFINITION.replace("widgets", "gadgets").replace("Widget", "Gadget").replace("wd", "gd")
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", text=both)
    assert "created" in kubectl(
        "create", "-f", "-", text=WIDGET.replace("NAME", "g").replace("Widget", "Gadget")
    )
    assert "deleted" in kubectl("delete", "crd", "gadgets.example.com", KUBECTL_PATIENCE)
    assert "gadgets" in kubectl("get", "gadgets", fails=True)
