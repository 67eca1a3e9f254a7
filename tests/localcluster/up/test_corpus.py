"""Products as they are shipped, on one cluster with kubectl: they work, and all of it can be deleted.

The manifests are in `tests/corpus`, a file for each product, their CustomResourceDefinitions in `crds`. They
are applied once, all together; the tests look at one product each, and the last of them delete everything.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.up.clusters import Up, up
from stowplan.localcluster.controllers.actors import STORED_ONLY
from waiting import KUBECTL_PATIENCE, PATIENCE, until

KUBECTL = shutil.which("kubectl")
CORPUS = Path(__file__).parents[2] / "corpus"
DEFINITIONS = CORPUS / "crds"
NODES = 3
SKIPPED = r"webhooks of \S+ are skipped: nothing answers at service \S+:443; see .*"
"""What is said of a configuration whose service has pretended containers, which do not answer."""


@cache
def _documents(folder: Path) -> list[dict[str, Any]]:
    found = [each for file in sorted(folder.glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())]
    return [item for each in found for item in each.get("items", [each])]


def _webhook_configurations() -> set[str]:
    return {
        each["metadata"]["name"]
        for each in _documents(CORPUS)
        if each["kind"] in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    }


def _namespaces() -> set[str]:
    return {each["metadata"]["name"] for each in _documents(CORPUS) if each["kind"] == "Namespace"}


@dataclass(frozen=True)
class Cluster:
    """A running cluster, kubectl on it, and what kubectl said when everything was applied."""

    running: Up
    environment: dict[str, str]
    defined: str = ""
    applied: str = ""

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [KUBECTL or "", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )

    def __call__(self, *words: str) -> str:
        """Output of a command, warnings included. It has to succeed."""
        done = self.run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def refuses(self, *words: str) -> str:
        done = self.run(*words)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def get(self, namespace: str, *words: str) -> Any:
        return json.loads(self.run("get", "-n", namespace, *words, "-o", "json").stdout or "{}")

    def until(self, namespace: str, what: str, holds: Callable[[Any], object]) -> Any:
        """The object, as soon as something holds for it."""
        found: Any = None

        def there() -> bool:
            nonlocal found
            found = self.get(namespace, *what.split())
            return bool(found and holds(found))

        until(there, lambda: f"{what}: {json.dumps(found)}", pause=0.3)
        return found

    def rolled_out(self, namespace: str, *workloads: str) -> None:
        for workload in workloads:
            self("rollout", "status", "-n", namespace, workload, KUBECTL_PATIENCE)

    def may(self, *words: str) -> bool:
        answer = self.run("auth", "can-i", *words).stdout.strip()
        assert answer in ("yes", "no")
        return answer == "yes"

    def endpoints(self, namespace: str, service: str) -> list[tuple[str, int]]:
        """The ready endpoints of a service: pod and port, by their names."""
        slices = self.get(namespace, "endpointslices", "-l", f"kubernetes.io/service-name={service}")
        return sorted(
            (endpoint["targetRef"]["name"], port["port"])
            for each in slices["items"]
            for endpoint in each["endpoints"]
            for port in each["ports"]
            if endpoint["conditions"]["ready"]
        )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    assert KUBECTL is not None, "kubectl is not installed; `make test` installs it"
    folder = tmp_path_factory.mktemp("corpus")
    with up(folder, "--nodes", str(NODES)) as running:
        environment = {**os.environ, "KUBECONFIG": str(running.kubeconfig), "HOME": str(folder)}
        kubectl = Cluster(running, environment)
        defined = kubectl("apply", "-f", str(DEFINITIONS))
        kubectl("wait", "crd", "--all", "--for=condition=Established", KUBECTL_PATIENCE)
        yield Cluster(running, environment, defined, kubectl("apply", "-f", str(CORPUS)))


def test_everything_is_created_and_what_is_only_stored_warns(cluster: Cluster) -> None:
    assert cluster.applied.count(" created\n") == len(_documents(CORPUS))
    assert cluster.defined.count(" created\n") == len(_documents(DEFINITIONS))
    told = re.findall(r"^Warning: stored only: nothing acts on (\w+) here$", cluster.applied, re.MULTILINE)
    inactive = {resource.kind for resource in STORED_ONLY}
    assert sorted(told) == sorted({each["kind"] for each in _documents(CORPUS)} & inactive)
    assert "Warning: source.gitops.example.com/v1beta1 Repository is deprecated, use v1\n" in cluster.applied
    unanswered = re.findall(rf"^Warning: ({SKIPPED})$", cluster.applied, re.MULTILINE)
    assert {line.split()[2] for line in unanswered} == _webhook_configurations()
    assert "would violate PodSecurity" not in cluster.applied
    assert "Warning: x-kubernetes-validations" not in cluster.defined


def test_an_operator_with_definitions_webhooks_and_rights(cluster: Cluster) -> None:
    cluster.rolled_out("broker-operator", "deployment/broker-operator")
    assert [port for _, port in cluster.endpoints("broker-operator", "webhook")] == [9443, 9443]
    row = cluster("get", "brk", "-n", "messaging").splitlines()[1].split()
    assert row[:3] == ["orders", "4.0.3", "3"]
    broker = cluster.get("messaging", "broker", "orders")
    assert [user["rights"] for user in broker["spec"]["users"]] == [["read", "write"], ["read"]]
    assert broker["spec"]["podTemplate"] == {"spec": {"priorityClassName": "high"}}
    assert "Who may connect." in cluster("explain", "broker.spec.users")
    operator = "--as=system:serviceaccount:broker-operator:broker-operator"
    assert cluster.may("update", "brokers", "--subresource=status", "-n", "messaging", operator)
    assert not cluster.may("delete", "brokers", "-n", "messaging", operator)
    assert cluster.may("create", "leases.coordination.k8s.io", "-n", "broker-operator", operator)
    assert not cluster.may("create", "leases.coordination.k8s.io", "-n", "messaging", operator)
    developer = "--as=jane", "--as-group=developers"
    assert cluster.may("create", "brokers.queues.example.com", "-n", "messaging", *developer)
    cluster("scale", "-n", "messaging", "broker/orders", "--replicas=5", *developer)
    assert cluster.get("messaging", "broker", "orders")["spec"]["replicas"] == 5
    bad = '{"spec": {"version": "latest", "replicas": 10}}'
    told = cluster.refuses("patch", "-n", "messaging", "broker/orders", "--type=merge", "-p", bad)
    assert "spec.version: Invalid value" in told
    assert "spec.replicas: Invalid value" in told


def test_a_database_with_volumes_stable_names_and_a_budget(cluster: Cluster) -> None:
    cluster.rolled_out("database", "statefulset/ledger")
    members = [f"ledger-{number}" for number in range(3)]
    pods = cluster.get("database", "pods", "-l", "app=ledger")["items"]
    assert [pod["metadata"]["name"] for pod in pods] == members
    assert len({pod["spec"]["nodeName"] for pod in pods}) == NODES
    claims = cluster.get("database", "pvc")["items"]
    assert [claim["metadata"]["name"] for claim in claims] == [f"data-{name}" for name in members]
    assert {claim["status"]["phase"] for claim in claims} == {"Bound"}
    assert cluster.endpoints("database", "ledger") == [(name, 5432) for name in members]
    assert cluster.get("database", "service", "ledger-members")["spec"]["clusterIP"] == "None"
    budget = cluster.until("database", "pdb ledger", lambda found: found["status"]["currentHealthy"] == 3)
    assert budget["status"]["disruptionsAllowed"] == 1
    mounts = pods[0]["spec"]["containers"][0]["volumeMounts"]
    assert not [mount for mount in mounts if "serviceaccount" in mount["mountPath"]]


def test_batch_work_under_a_quota(cluster: Cluster) -> None:
    job = cluster.until("batch", "job import", lambda found: found["status"].get("completionTime"))
    assert (job["status"]["succeeded"], job["status"]["completedIndexes"]) == (4, "0-3")
    pods = cluster.get("batch", "pods", "-l", "job-name=import")["items"]
    assert {pod["spec"]["priority"] for pod in pods} == {-100}
    assert pods[0]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "64Mi"}
    assert pods[0]["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    cluster("create", "job", "-n", "batch", "tonight", "--from=cronjob/nightly-report")
    cluster("wait", "-n", "batch", "job/tonight", "--for=condition=Complete", KUBECTL_PATIENCE)
    columns = cluster("get", "-n", "batch", "cronjob/nightly-report", "--no-headers").split()
    assert columns[:8] == ["nightly-report", "30", "2", "*", "*", "*", "Europe/Berlin", "False"]
    extra = cluster.refuses("create", "cronjob", "-n", "batch", "x", "--image=x", "--schedule=@daily")
    assert "exceeded quota: budget, requested: count/cronjobs.batch=1, used: count/cronjobs.batch=2" in extra
    large = '{"spec": {"containers": [{"name": "x", "image": "x", "resources": {"limits": {"cpu": "3"}}}]}}'
    told = cluster.refuses("run", "-n", "batch", "large", "--image=x", f"--overrides={large}")
    assert "maximum cpu usage per Container is 1, but limit is 3" in told


def test_an_ingress_controller_with_a_certificate_job_and_a_site(cluster: Cluster) -> None:
    cluster.rolled_out("edge", "daemonset/edge-controller", "deployment/site")
    cluster("wait", "-n", "edge", "job/edge-admission-create", "--for=condition=Complete", KUBECTL_PATIENCE)
    service = cluster.get("edge", "service", "edge-controller")
    assert all(port["nodePort"] >= 30000 for port in service["spec"]["ports"])
    assert service["spec"]["healthCheckNodePort"] >= 30000
    assert sorted(port for _, port in cluster.endpoints("edge", "edge-controller")) == [80] * 3 + [443] * 3
    assert [port for _, port in cluster.endpoints("edge", "site")] == [8080, 8080]
    row = cluster("get", "-n", "edge", "ingress", "site").splitlines()[1].split()
    assert row[:3] == ["site", "edge", "site.example.com"]
    controller = "--as=system:serviceaccount:edge:edge-controller"
    assert cluster.may("update", "ingresses", "--subresource=status", "-A", controller)
    assert not cluster.may("update", "ingresses", "-A", controller)


def test_a_monitoring_stack_on_every_node(cluster: Cluster) -> None:
    workloads = "daemonset/node-exporter", "deployment/metrics-operator", "deployment/dashboard"
    cluster.rolled_out("monitoring", *workloads)
    exporters = cluster.get("monitoring", "pods", "-l", "app=node-exporter")["items"]
    assert {pod["spec"]["priority"] for pod in exporters} == {2000001000}
    assert all(pod["status"]["podIP"] == pod["status"]["hostIP"] for pod in exporters)
    assert len(cluster.endpoints("monitoring", "node-exporter")) == NODES
    assert cluster.get("monitoring", "pvc", "dashboard")["status"]["phase"] == "Bound"
    monitor = cluster.get("monitoring", "smon", "node-exporter")
    assert monitor["spec"]["endpoints"][1]["targetPort"] == 9100
    rules = cluster.get("monitoring", "alertrules", "nodes")["spec"]["groups"][0]["rules"]
    assert [rule["expr"] for rule in rules] == ['up{job="node-exporter"} == 0', 1]
    collector = "--as=system:serviceaccount:monitoring:collector"
    assert cluster.may("get", "/metrics", collector)
    assert cluster.may("list", "endpoints", "-n", "default", collector)
    assert not cluster.may("list", "endpoints", "-n", "edge", collector)


def test_a_gitops_controller_with_two_versions_of_its_sources(cluster: Cluster) -> None:
    cluster.rolled_out("gitops", "deployment/source", "deployment/release")
    sources = cluster.get("gitops", "repositories.v1.source.gitops.example.com")["items"]
    assert {each["metadata"]["name"]: each["spec"]["branch"] for each in sources} == {
        "charts": "stable",
        "fleet": "main",
    }
    assert cluster.may("*", "*", "-A", "--as=system:serviceaccount:gitops:controller")
    frozen = cluster.refuses("patch", "-n", "gitops", "cm/known-hosts", "-p", '{"data": {"known_hosts": ""}}')
    assert "field is immutable when `immutable` is set" in frozen


def test_log_collectors_run_on_nodes_that_take_no_other_pods(cluster: Cluster) -> None:
    cluster.rolled_out("logging", "daemonset/collector", "statefulset/aggregator")
    node = cluster.get("", "nodes")["items"][0]["metadata"]["name"]
    cluster("cordon", node)
    cluster("delete", "pod", "-n", "logging", "-l", "app=collector", f"--field-selector=spec.nodeName={node}")
    cluster.rolled_out("logging", "daemonset/collector")
    pods = cluster.get("logging", "pods", "-l", "app=collector")["items"]
    assert len({pod["spec"]["nodeName"] for pod in pods}) == NODES
    cluster("uncordon", node)
    claims = cluster.get("logging", "pvc")["items"]
    owners = [claim["metadata"]["ownerReferences"][0]["name"] for claim in claims]
    assert owners == ["aggregator-0", "aggregator-1"]
    assert {claim["status"]["phase"] for claim in claims} == {"Bound"}
    template = cluster.get("logging", "statefulset", "aggregator")["spec"]["template"]["spec"]
    assert "storageClassName" not in template["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"]


def test_ci_builds_succeed_and_fail_and_their_manager_has_few_rights(cluster: Cluster) -> None:
    cluster.rolled_out("ci", "deployment/manager")
    cluster("wait", "-n", "ci", "job/build-4711", "--for=condition=Complete", KUBECTL_PATIENCE)
    cluster("wait", "-n", "ci", "job/build-4712", "--for=condition=Failed", KUBECTL_PATIENCE)
    assert cluster.get("ci", "job", "build-4712")["status"]["failed"] == 2
    assert cluster.get("ci", "pvc", "cache")["status"]["phase"] == "Bound"
    assert "token" in cluster.until("ci", "secret manager-token", lambda found: found.get("data"))["data"]
    token = cluster("create", "token", "-n", "ci", "manager").strip()
    mine = f"--token={token}"
    assert "system:serviceaccount:ci:manager" in cluster("auth", "whoami", mine)
    assert "build-4711" in cluster("get", "jobs", "-n", "ci", mine)
    manager = "--as=system:serviceaccount:ci:manager"
    assert "simulated" in cluster("logs", "-n", "ci", "-l", "app=manager", manager)
    assert cluster.may("get", "secret/deploy-token", "-n", "ci", manager)
    assert not cluster.may("get", "secret/manager-token", "-n", "ci", manager)
    assert "is forbidden" in cluster.refuses("get", "jobs", "-n", "batch", manager)


def test_tenants_stay_within_their_quotas_and_rights(cluster: Cluster) -> None:
    red = cluster.until("team-red", "deployment app", lambda found: found["status"].get("readyReplicas") == 3)
    reasons = {each["type"]: each["reason"] for each in red["status"]["conditions"]}
    assert reasons["ReplicaFailure"] == "FailedCreate"
    assert red["spec"]["template"]["spec"]["containers"][0]["resources"] == {}
    assert len(cluster.get("team-red", "replicasets")["items"]) == 1
    quota = cluster.get("team-red", "quota", "tenant")["status"]["used"]
    assert (quota["pods"], quota["requests.cpu"], quota["requests.memory"]) == ("3", "600m", "384Mi")
    told = cluster.refuses("expose", "-n", "team-red", "deploy/app", "--type=LoadBalancer", "--port=80")
    assert "exceeded quota: tenant, requested: services.loadbalancers=1" in told
    cluster.rolled_out("team-blue", "deployment/app")
    assert "exceeded quota: best-effort" in cluster.refuses("run", "-n", "team-blue", "x", "--image=x")
    jane = "--as=jane", "-n", "team-red"
    assert cluster.may("list", "pods", *jane)
    assert not cluster.may("delete", "pods", *jane)
    assert cluster.may("patch", "deployments", "--subresource=scale", *jane)
    assert not cluster.may("list", "pods", "--as=jane", "-n", "team-blue")
    assert cluster.may("create", "rolebindings", "-n", "team-red", "--as=x", "--as-group=red")
    assert cluster.may("list", "deployments", "-n", "team-blue", "--as=x", "--as-group=blue")
    assert not cluster.may("get", "secrets", "-n", "team-blue", "--as=x", "--as-group=blue")


def test_a_service_mesh_with_an_autoscaled_control_plane(cluster: Cluster) -> None:
    cluster.rolled_out("mesh-system", "deployment/meshd")
    cluster.rolled_out("bookshop", "deployment/reviews")
    (review,) = cluster.get("bookshop", "pods")["items"]
    assert [each["ready"] for each in review["status"]["initContainerStatuses"]] == [True]
    route = cluster.get("bookshop", "routes.mesh.example.com", "reviews")
    assert route["spec"]["backends"] == [{"service": "reviews", "weight": 100}]
    assert cluster.get("", "meshpolicy", "default")["spec"] == {"mtls": "Strict"}
    assert {port for _, port in cluster.endpoints("mesh-system", "meshd")} == {15012, 15017, 15053}
    scaler = cluster.until("mesh-system", "hpa meshd", lambda found: '"current":' in json.dumps(found))
    assert scaler["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 40
    assert (scaler["status"]["currentReplicas"], scaler["status"]["desiredReplicas"]) == (1, 1)


ALWAYS_PATCHED = {
    "Secret": "`stringData` is in the manifest, but not in the object",
    "PodDisruptionBudget": "the selector is replaced as a whole",
    "StatefulSet": "claim templates are replaced as a whole, and have defaults",
    "ValidatingWebhookConfiguration": "rules are replaced as a whole, and have defaults",
    "MutatingWebhookConfiguration": "rules are replaced as a whole, and have defaults",
    "Broker": "lists are replaced as a whole, and have defaults; it was scaled, too",
}
"""Kinds of which kubectl sends a patch even if nothing is to be changed, and why."""


def test_what_is_applied_again_is_unchanged(cluster: Cluster) -> None:
    before = _versions(cluster)
    again = cluster("apply", "-f", str(CORPUS), "-f", str(DEFINITIONS))
    changed = set(re.findall(r"^(\w+)\S*/\S+ configured$", again, re.MULTILINE))
    assert changed <= {kind.lower() for kind in ALWAYS_PATCHED}
    assert again.count(" unchanged\n") + again.count(" configured\n") == len(_documents(CORPUS)) + len(
        _documents(DEFINITIONS)
    )
    assert _versions(cluster) == before


def _versions(cluster: Cluster) -> dict[str, int]:
    """Generations, which count the changes that matter. Those of Deployments count annotations, too."""
    kinds = "rs,sts,ds,pdb,ingress,netpol,jobs,routes.mesh.example.com,servicemonitors"
    found = [each["metadata"] | {"kind": each["kind"]} for each in cluster.get("", "-A", kinds)["items"]]
    return {f"{each['kind']} {each['namespace']}/{each['name']}": each["generation"] for each in found}


def test_server_side_apply_takes_over_what_was_applied_by_clients(cluster: Cluster) -> None:
    before = _versions(cluster)
    done = cluster("apply", "--server-side", "--force-conflicts", "-f", str(CORPUS), "-f", str(DEFINITIONS))
    assert done.count(" serverside-applied\n") == len(_documents(CORPUS)) + len(_documents(DEFINITIONS))
    assert "failed to re-apply" not in done
    assert _versions(cluster) == before
    site = json.loads(cluster("get", "-n=edge", "deploy/site", "-o=json", "--show-managed-fields"))
    managers = {(each["manager"], each["operation"]) for each in site["metadata"]["managedFields"]}
    assert ("kubectl", "Apply") in managers
    assert ("kubectl-client-side-apply", "Update") not in managers


def test_everything_can_be_deleted(cluster: Cluster) -> None:
    cluster("delete", "--ignore-not-found", "--wait=false", "-f", str(CORPUS))
    held = cluster.until(
        "", "namespace gitops", lambda found: "SomeFinalizersRemain" in json.dumps(found["status"])
    )
    assert held["status"]["phase"] == "Terminating"
    cluster(
        "patch", "-n", "gitops", "release/shop", "--type=merge", "-p", '{"metadata": {"finalizers": null}}'
    )
    remaining = cluster.until("", "namespaces", lambda found: not _namespaces() & _names(found))
    assert _names(remaining) == {"default", "kube-system", "kube-public", "kube-node-lease"}
    cluster.until("", "pv", lambda found: not found["items"])
    cluster("delete", "-f", str(DEFINITIONS), KUBECTL_PATIENCE)
    left = "-A", "pods,jobs,deploy,rs,sts,ds,pvc,ingressclasses,crd,hpa,netpol"
    assert cluster.get("", *left)["items"] == []
    shipped = {each["metadata"]["name"] for each in _documents(CORPUS)}
    rights = "roles,rolebindings,clusterroles,clusterrolebindings,priorityclasses"
    assert not _names(cluster.get("", "-A", rights)) & shipped
    logged = cluster.running.errors.splitlines()
    skipped = [line for line in logged if re.fullmatch(SKIPPED, line)]
    assert len(skipped) == len(set(skipped))
    assert {line.split()[2] for line in skipped} <= _webhook_configurations()
    assert [line for line in logged if "exceeded quota" not in line and line not in skipped] == []


def _names(found: Any) -> set[str]:
    return {each["metadata"]["name"] for each in found["items"]}
