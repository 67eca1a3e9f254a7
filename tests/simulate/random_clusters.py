"""Random clusters with everything that decides how many pods of a workload run, and a random workload."""

from random import Random
from typing import Any

from stowplan.api.requests import Json

_RACK = "example.com/rack"
_GPU = "example.com/gpu"
_LABELS = {"app": "web", "set": "new"}
"""Running pods have only the first one: a controller would adopt those that it selects."""
_KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "Job", "DaemonSet", "Pod")


def made(version: str, kind: str, name: str, *, cluster_wide: bool = False, **fields: Any) -> Json:
    metadata: Json = {"name": name, **fields.pop("metadata", {})}
    if not cluster_wide:
        metadata["namespace"] = "default"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


class RandomCluster:
    """The cluster of a seed: `surroundings` are there before, `workload` is created then."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._rng = Random(seed)
        self.nodes = [self._node(number) for number in range(self._rng.randint(2, 5))]
        self.surroundings = [*self._classes(), *self._rules(), *self._devices(), *self._running()]
        self.group = self._maybe(0.3)
        self.workload = [*([self._pod_group()] if self.group else []), self._workload()]

    def _maybe(self, chance: float = 0.5) -> bool:
        return self._rng.random() < chance

    def _one(self, *of: Any) -> Any:
        return self._rng.choice(of)

    # Nodes and what runs there

    def _node(self, number: int) -> Json:
        rng = self._rng
        labels = {
            "kubernetes.io/hostname": f"n{number}",
            "topology.kubernetes.io/zone": rng.choice("ab"),
            _RACK: rng.choice("xy"),
        }
        amounts = {"cpu": str(rng.choice([2, 4, 8])), "memory": "16Gi", "pods": str(rng.choice([4, 20]))}
        if self._maybe(0.4):
            amounts[_GPU] = "2"
        spec: Json = {}
        if self._maybe(0.15):
            spec["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
        if self._maybe(0.1):
            spec["unschedulable"] = True
        return made(
            "v1",
            "Node",
            f"n{number}",
            cluster_wide=True,
            metadata={"labels": labels},
            spec=spec,
            status={"capacity": amounts, "allocatable": amounts},
        )

    def _running(self) -> list[Json]:
        """Pods that have a node already, some of low priority."""
        found = []
        for number in range(self._rng.randint(0, 5)):
            node = self._one(*self.nodes)["metadata"]["name"]
            labels = {"app": self._one("other", "web")}
            spec: Json = {
                "nodeName": node,
                "tolerations": [{"operator": "Exists"}],
                "containers": [self._container({"cpu": self._one("250m", "1", "1500m")})],
            }
            resources = spec["containers"][0]["resources"]
            resources["limits"] = resources["requests"]
            if self._maybe():
                spec["priorityClassName"] = "low"
            found.append(made("v1", "Pod", f"other-{number}", metadata={"labels": labels}, spec=spec))
        return found

    @staticmethod
    def _container(requests: Json) -> Json:
        return {"name": "c", "image": "c:1", **({"resources": {"requests": requests}} if requests else {})}

    # Classes, limits, quotas, budgets

    def _classes(self) -> list[Json]:
        overhead = self._one({"cpu": "500m"}, {"cpu": "2", "memory": "64Mi"})
        gold: Json = {"value": 1000}
        if self._maybe():
            gold["preemptionPolicy"] = "Never"
        return [
            made(
                "node.k8s.io/v1",
                "RuntimeClass",
                "kata",
                cluster_wide=True,
                handler="kata",
                overhead={"podFixed": overhead},
                **({"scheduling": {"nodeSelector": {_RACK: "x"}}} if self._maybe(0.2) else {}),
            ),
            made("scheduling.k8s.io/v1", "PriorityClass", "gold", cluster_wide=True, **gold),
            made("scheduling.k8s.io/v1", "PriorityClass", "low", cluster_wide=True, value=-10),
            made(
                "storage.k8s.io/v1",
                "StorageClass",
                "late",
                cluster_wide=True,
                provisioner="example.com/disks",
                volumeBindingMode="WaitForFirstConsumer",
                **({"allowedTopologies": [self._topology()]} if self._maybe(0.3) else {}),
            ),
        ]

    def _topology(self) -> Json:
        zone = {"key": "topology.kubernetes.io/zone", "values": [self._one("a", "b")]}
        return {"matchLabelExpressions": [zone]}

    def _rules(self) -> list[Json]:
        found = []
        if self._maybe(0.4):
            item = self._one(
                {"type": "Container", "defaultRequest": {"cpu": "1"}},
                {"type": "Container", "default": {"cpu": "3", "memory": "1Gi"}},
                {"type": "Container", "max": {"cpu": "2"}},
                {"type": "Pod", "max": {"cpu": "3"}},
            )
            found.append(made("v1", "LimitRange", "limits", spec={"limits": [item]}))
        for number in range(self._one(0, 0, 1, 1, 2)):
            hard, scopes = self._one(
                ({"requests.cpu": self._one("2", "5", "9")}, {}),
                ({"pods": self._one("3", "5", "8")}, {}),
                ({"requests.cpu": "7", "limits.cpu": "9"}, {}),
                ({f"requests.{_GPU}": "2"}, {}),
                ({"count/jobs.batch": "0"}, {}),
                ({"persistentvolumeclaims": "2"}, {}),
                ({"pods": "2"}, {"scopes": ["NotBestEffort"]}),
                ({"pods": "3"}, {"scopeSelector": {"matchExpressions": [self._of_class("gold")]}}),
                ({"requests.cpu": "3"}, {"scopeSelector": {"matchExpressions": [self._of_class("low")]}}),
            )
            found.append(made("v1", "ResourceQuota", f"quota-{number}", spec={"hard": hard, **scopes}))
        if self._maybe(0.3):
            spec = {
                "selector": {"matchLabels": {"app": "other"}},
                self._one("minAvailable", "maxUnavailable"): 1,
            }
            found.append(made("policy/v1", "PodDisruptionBudget", "budget", spec=spec))
        return found

    @staticmethod
    def _of_class(name: str) -> Json:
        return {"scopeName": "PriorityClass", "operator": "In", "values": [name]}

    def _devices(self) -> list[Json]:
        """Devices on some nodes, a class of them, and a template of claims for one."""
        selector = {"cel": {"expression": 'device.driver == "dev.example.com"'}}
        request = {"name": "r", "exactly": {"deviceClassName": "dev", "count": self._one(1, 1, 2)}}
        found = [
            made(
                "resource.k8s.io/v1", "DeviceClass", "dev", cluster_wide=True, spec={"selectors": [selector]}
            ),
            made(
                "resource.k8s.io/v1",
                "ResourceClaimTemplate",
                "dev",
                spec={"spec": {"devices": {"requests": [request]}}},
            ),
        ]
        for node in self.nodes:
            if self._maybe(0.6):
                name = node["metadata"]["name"]
                spec = {
                    "driver": "dev.example.com",
                    "nodeName": name,
                    "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": f"d{number}"} for number in range(self._rng.randint(1, 3))],
                }
                found.append(made("resource.k8s.io/v1", "ResourceSlice", name, cluster_wide=True, spec=spec))
        return found

    # The workload

    def _pod_group(self) -> Json:
        spec: Json = {"schedulingPolicy": self._one({"gang": {"minCount": self._size()}}, {"basic": {}})}
        if self._maybe(0.6):
            spec["schedulingConstraints"] = {"topology": [{"key": _RACK}]}
        self._priority = self._one("", "", "gold")
        if self._priority:
            spec["priorityClassName"] = self._priority
        return made("scheduling.k8s.io/v1beta1", "PodGroup", "gang", spec=spec)

    def _size(self) -> int:
        self._replicas = self._rng.randint(1, 8)
        return self._replicas

    def _template(self) -> Json:
        requests: Json = {}
        if self._maybe(0.8):
            requests["cpu"] = self._one("250m", "1", "1500m", "3")
        if self._maybe(0.15):
            requests[_GPU] = "1"
        container = self._container(requests)
        if _GPU in requests:
            container["resources"]["limits"] = {_GPU: "1"}
        spec: Json = {"containers": [container]}
        if self._maybe(0.3):
            spec["runtimeClassName"] = "kata"
        if self.group:
            spec["schedulingGroup"] = {"podGroupName": "gang"}
            if self._priority:
                spec["priorityClassName"] = self._priority
        elif self._maybe(0.4):
            spec["priorityClassName"] = self._one("gold", "low", "missing", "gold")
        if self._maybe(0.2):
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if self._maybe(0.15):
            spec["nodeSelector"] = {_RACK: "x"}
        if self._maybe(0.2):
            spec["affinity"] = {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [self._term()]}
            }
        if self._maybe(0.2):
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": self._one("DoNotSchedule", "ScheduleAnyway"),
                    "labelSelector": {"matchLabels": {"app": "web"}},
                }
            ]
        if self._maybe(0.15):
            claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
            claim["storageClassName"] = "late"
            spec["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}]
        if self._maybe(0.2):
            spec["resourceClaims"] = [{"name": "dev", "resourceClaimTemplateName": "dev"}]
            container.setdefault("resources", {})["claims"] = [{"name": "dev"}]
        return {"metadata": {"labels": _LABELS}, "spec": spec}

    def _term(self) -> Json:
        labels = {"matchLabels": {"app": self._one("web", "other")}}
        return {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}

    def _workload(self) -> Json:
        if not self.group:
            self._size()
        template, replicas = self._template(), self._replicas
        selector = {"matchLabels": {"set": "new"}}
        kinds = (
            ["Job"] if self.group else ["Deployment", "ReplicaSet", "StatefulSet", "Job", "DaemonSet", "Pod"]
        )
        kind = self._one(*kinds)
        if kind == "Pod":
            return made("v1", "Pod", "web", **template)
        if kind == "Job":
            template["spec"]["restartPolicy"] = "Never"
            if template["spec"].get("priorityClassName") == "missing":
                # Its group is refused, which the Job controller does not record as an event.
                del template["spec"]["priorityClassName"]
            spec: Json = {"parallelism": replicas, "completions": replicas, "template": template}
            if self._maybe(0.3):
                spec["completionMode"] = "Indexed"
            return made("batch/v1", "Job", "web", spec=spec)
        spec = {"selector": selector, "template": template}
        if kind != "DaemonSet":
            spec["replicas"] = replicas
        if kind == "StatefulSet":
            spec |= {"serviceName": "web", "podManagementPolicy": self._one("Parallel", "OrderedReady")}
            if self._maybe():
                claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
                claim["storageClassName"] = "late"
                spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
        return made("apps/v1", kind, "web", spec=spec)
