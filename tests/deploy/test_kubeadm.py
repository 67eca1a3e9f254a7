"""The runbook for kubeadm, walked through on files: every command that docs/kubeadm.md tells to type."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.manifests import DEPLOY, ROOT
from docs.pages import blocks
from stowplan import __version__
from stowplan.server.flags.parser import parse
from stowplan.server.flags.table import GROUPS
from waiting import PATIENCE

PAGE = ROOT / "docs" / "kubeadm.md"
ON_A_CLUSTER = ("stowplan doctor", "kubectl -n", "kubectl get", "kubeadm ")
"""Commands outside of the files' scope."""

# As kubeadm 1.36 writes it, with a configuration file added by an administrator.
MANIFEST = """apiVersion: v1
kind: Pod
metadata:
  labels:
    component: kube-scheduler
    tier: control-plane
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
  - command:
    - kube-scheduler
    - --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
    - --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
    - --bind-address=127.0.0.1
    - --config=/etc/kubernetes/scheduler/config.yaml
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    - --leader-elect=true
    image: registry.k8s.io/kube-scheduler:v1.36.4
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 8
      httpGet:
        host: 127.0.0.1
        path: /livez
        port: probe-port
        scheme: HTTPS
      initialDelaySeconds: 10
      periodSeconds: 10
      timeoutSeconds: 15
    name: kube-scheduler
    ports:
    - containerPort: 10259
      name: probe-port
      protocol: TCP
    resources:
      requests:
        cpu: 100m
    volumeMounts:
    - mountPath: /etc/kubernetes/scheduler.conf
      name: kubeconfig
      readOnly: true
    - mountPath: /etc/kubernetes/scheduler
      name: config
      readOnly: true
  hostNetwork: true
  priority: 2000001000
  priorityClassName: system-node-critical
  securityContext:
    seccompProfile:
      type: RuntimeDefault
  volumes:
  - hostPath:
      path: /etc/kubernetes/scheduler.conf
      type: FileOrCreate
    name: kubeconfig
  - hostPath:
      path: /etc/kubernetes/scheduler
      type: Directory
    name: config
status: {}
"""


def steps() -> dict[str, list[str]]:
    """The commands of each section."""
    sections = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)
    return {
        title: re.findall(r"^\$ (.+)$", text, flags=re.MULTILINE)
        for title, text in zip(sections[1::2], sections[2::2], strict=True)
    }


@dataclass(frozen=True)
class Node:
    """The files of a control-plane node, and a checkout next to them."""

    root: Path

    @property
    def manifests(self) -> dict[str, str]:
        """All that the kubelet would run."""
        return {path.name: path.read_text() for path in (self.root / "etc/kubernetes/manifests").iterdir()}

    def walk(self, section: str) -> None:
        for command in steps()[section]:
            if not command.startswith(ON_A_CLUSTER):
                self.type(command)

    def type(self, command: str) -> None:
        here = re.sub(r"(?<![\w.])/(etc|root)/", rf"{self.root}/\1/", command)
        done = subprocess.run(
            ["bash", "-euc", here],
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        differs = command.startswith("diff ") and done.returncode == 1
        assert done.returncode == 0 or differs, done.stdout + done.stderr


@pytest.fixture
def node(tmp_path: Path) -> Node:
    (tmp_path / "etc/kubernetes/manifests").mkdir(parents=True)
    (tmp_path / "etc/kubernetes/manifests/kube-scheduler.yaml").write_text(MANIFEST)
    (tmp_path / "root").mkdir()
    (tmp_path / "deploy/kubeadm").mkdir(parents=True)
    for path in (DEPLOY / "kubeadm").iterdir():
        (tmp_path / "deploy/kubeadm" / path.name).write_text(path.read_text())
    return Node(tmp_path)


def test_it_takes_the_place_of_kube_scheduler_and_gives_it_back(node: Node) -> None:
    node.walk("Before")
    assert node.manifests == {"kube-scheduler.yaml": MANIFEST}
    node.walk("Replace")
    assert list(node.manifests) == ["kube-scheduler.yaml"]
    replaced(yaml.safe_load(node.manifests["kube-scheduler.yaml"]))
    node.walk("Go back")
    assert node.manifests == {"kube-scheduler.yaml": MANIFEST}
    assert list((node.root / "etc/kubernetes/patches").iterdir()) == []


def replaced(pod: Any) -> None:
    before = yaml.safe_load(MANIFEST)
    (container,), (old,) = pod["spec"]["containers"], before["spec"]["containers"]
    assert container["image"] == f"registry.example/stowplan:{__version__}"
    program, *flags = old["command"]
    assert (program, container["command"]) == ("kube-scheduler", ["stowplan", "run", *flags])
    parsed = parse(flags, GROUPS)
    assert (parsed.rest, list(parsed.ignored)) == ([], [])
    guarded = container.pop("securityContext")
    assert (guarded["readOnlyRootFilesystem"], guarded["allowPrivilegeEscalation"]) == (True, False)
    assert pod["spec"]["securityContext"].pop("runAsUser") == 0
    for changed in ("image", "command"):
        del container[changed], old[changed]
    assert pod["spec"] == before["spec"]
    assert pod["metadata"]["labels"] == before["metadata"]["labels"]


def test_what_kubeadm_wrote_anew_is_patched_by_the_file_it_is_given(node: Node) -> None:
    """`kubeadm upgrade` applies the same patch to a new manifest; to one that has it, it is refused."""
    node.walk("Before")
    patch = node.root / "etc/kubernetes/patches/kube-scheduler+json.json"
    target, kind = patch.name.removesuffix(".json").split("+")
    assert (target, kind) == ("kube-scheduler", "json")
    node.walk("Replace")
    (node.root / "root/stowplan/before.yaml").write_text(node.manifests["kube-scheduler.yaml"])
    with pytest.raises(AssertionError, match="test failed"):
        node.walk("Replace")


def test_the_kubelet_never_sees_half_a_file_nor_a_second_one() -> None:
    """All that is written to its directory is moved there, over the file that it has."""
    written = [
        command
        for commands in steps().values()
        for command in commands
        if re.search(r"(cp|mv|sed|kubectl patch)\b.*\s/etc/kubernetes/manifests\S*$", command)
    ]
    assert len(written) == 2
    assert {command.split()[0] for command in written} == {"mv"}
    assert {command.split()[-1] for command in written} == {"/etc/kubernetes/manifests/kube-scheduler.yaml"}


def test_blocks_have_nothing_but_commands() -> None:
    assert all(line.startswith("$ ") for block in blocks(PAGE) for line in block.text.splitlines())
