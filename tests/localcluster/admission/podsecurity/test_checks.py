"""The checks of the Pod Security standards: a pod that meets each, and pods that do not, with upstream's words."""

# ruff: noqa: E501 - a message stands on one line

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.api.releases import v1_36, v1_37
from stowplan.localcluster.admission.podsecurity import PodSecurity, Standard

Json = dict[str, Any]
CONTAINER: Json = {
    "name": "a",
    "image": "i",
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
}
GOOD: Json = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [CONTAINER],
}
PLAIN: Json = {"containers": [{"name": "a", "image": "i"}]}
NEW, OLD = PodSecurity(v1_37.RELEASE), PodSecurity(v1_36.RELEASE)


def found(
    level: str,
    spec: Json,
    version: str = "latest",
    security: PodSecurity = NEW,
    annotations: Json | None = None,
) -> list[str]:
    return [str(one) for one in security.violations(Standard(level, version), annotations or {}, spec)]


def inside(**context: Any) -> Json:
    """A good pod whose container has another security context."""
    merged = {**CONTAINER["securityContext"], **context}
    return {**GOOD, "containers": [{**CONTAINER, "securityContext": merged}]}


def podwide(**context: Any) -> Json:
    return {**GOOD, "securityContext": {**GOOD["securityContext"], **context}}


def volume(name: str, **source: Any) -> Json:
    return {**GOOD, "volumes": [{"name": name, **source}]}


def test_a_good_pod_meets_every_standard() -> None:
    for level in ("privileged", "baseline", "restricted"):
        for version in ("latest", "v1.0", "v1.22", "v1.36", "v1.999"):
            assert found(level, GOOD, version) == []


def test_a_plain_pod_is_baseline_and_not_restricted() -> None:
    assert found("baseline", PLAIN) == []
    assert found("restricted", PLAIN) == [
        'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)',
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"])',
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)',
        'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")',
    ]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (inside(privileged=True), 'privileged (container "a" must not set securityContext.privileged=true)'),
        ({**GOOD, "hostNetwork": True, "hostIPC": True}, "host namespaces (hostNetwork=true, hostIPC=true)"),
        (volume("v", hostPath={"path": "/"}), 'hostPath volumes (volume "v")'),
        ({**GOOD, "containers": [{**CONTAINER, "ports": [{"containerPort": 1, "hostPort": 8080}, {"hostPort": 80}]}]}, 'hostPort (container "a" uses hostPorts 80, 8080)'),
        ({**GOOD, "containers": [{**CONTAINER, "name": name, "ports": [{"hostPort": 80}]} for name in "ab"]}, 'hostPort (containers "a", "b" use hostPort 80)'),
        (inside(capabilities={"add": ["NET_RAW", "SYS_ADMIN", "CHOWN"], "drop": ["ALL"]}), 'non-default capabilities (container "a" must not include "NET_RAW", "SYS_ADMIN" in securityContext.capabilities.add)'),
        (inside(procMount="Unmasked"), 'procMount (container "a" must not set securityContext.procMount to "Unmasked")'),
        (inside(seccompProfile={"type": "Unconfined"}), 'seccompProfile (container "a" must not set securityContext.seccompProfile.type to "Unconfined")'),
        (podwide(seccompProfile={"type": "Unconfined"}), 'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")'),
        (podwide(seLinuxOptions={"type": "spc_t", "user": "u", "role": "r"}), 'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "spc_t"; user may not be set; role may not be set)'),
        (podwide(sysctls=[{"name": "kernel.msgmax", "value": "1"}, {"name": "net.ipv4.tcp_rmem", "value": "1"}]), "forbidden sysctls (kernel.msgmax)"),
        (podwide(windowsOptions={"hostProcess": True}), "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)"),
        (podwide(appArmorProfile={"type": "Unconfined"}), 'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")'),
        ({**GOOD, "containers": [{**CONTAINER, "livenessProbe": {"httpGet": {"host": "h", "port": 1}}}]}, 'probe or lifecycle host (container "a" uses probe or lifecycle host "h")'),
        ({**GOOD, "containers": [{**CONTAINER, "lifecycle": {"preStop": {"tcpSocket": {"host": "x"}}}, "startupProbe": {"tcpSocket": {"host": "y"}}}]}, 'probe or lifecycle host (container "a" uses probe or lifecycle hosts "x", "y")'),
    ],
)  # fmt: skip
def test_what_baseline_forbids(spec: Json, told: str) -> None:
    assert found("baseline", spec) == [told]
    assert found("privileged", spec) == []


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (inside(allowPrivilegeEscalation=True), 'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false)'),
        (inside(capabilities={"add": ["CHOWN", "NET_BIND_SERVICE"]}), 'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; container "a" must not include "CHOWN" in securityContext.capabilities.add)'),
        (inside(runAsNonRoot=False), 'runAsNonRoot != true (container "a" must not set securityContext.runAsNonRoot=false)'),
        (podwide(runAsNonRoot=False), "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)"),
        (podwide(runAsUser=0), "runAsUser=0 (pod must not set runAsUser=0)"),
        (volume("v", hostPath={"path": "/"}), 'restricted volume types (volume "v" uses restricted volume type "hostPath")'),
        ({**GOOD, "volumes": [{"name": "n", "nfs": {}}, {"name": "i", "iscsi": {}}, {"name": "e", "emptyDir": {}}]}, 'restricted volume types (volumes "n", "i" use restricted volume types "iscsi", "nfs")'),
    ],
)  # fmt: skip
def test_what_restricted_forbids_besides(spec: Json, told: str) -> None:
    assert found("restricted", spec) == [told]


def test_init_and_ephemeral_containers_count() -> None:
    spec = {**GOOD, "initContainers": [{"name": "i"}], "ephemeralContainers": [{"name": "e"}]}
    assert found("restricted", spec)[0].startswith(
        'allowPrivilegeEscalation != false (containers "i", "e" must'
    )


def test_annotations_of_old() -> None:
    armor = {"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}
    assert found("baseline", GOOD, annotations=armor) == [
        "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
        '"container.apparmor.security.beta.kubernetes.io/a="unconfined"")'
    ]
    seccomp = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}
    assert found("baseline", GOOD, "v1.18", annotations=seccomp) == [
        'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    ]
    assert found("baseline", GOOD, "v1.19", annotations=seccomp) == []


def test_checks_depend_on_the_version_of_the_policy_and_of_the_server() -> None:
    reserved = podwide(sysctls=[{"name": "net.ipv4.tcp_notsent_lowat", "value": "1"}])
    assert found("baseline", reserved) == []
    assert found("baseline", reserved, "v1.36") == ["forbidden sysctls (net.ipv4.tcp_notsent_lowat)"]
    assert found("baseline", reserved, security=OLD) == ["forbidden sysctls (net.ipv4.tcp_notsent_lowat)"]
    assert found("restricted", PLAIN, "v1.7") == [
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)'
    ]
    probed = {**GOOD, "containers": [{**CONTAINER, "livenessProbe": {"httpGet": {"host": "h"}}}]}
    assert found("baseline", probed, "v1.33") == []


def test_windows_pods_and_user_namespaces_are_exempt_from_some_checks() -> None:
    windows = {**PLAIN, "os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}}
    assert found("restricted", windows) == []
    assert len(found("restricted", windows, "v1.24")) == 3
    own_users = {**inside(procMount="Unmasked"), "hostUsers": False}
    assert found("baseline", own_users) == []
    assert found("baseline", own_users, "v1.34") != []
    assert found("restricted", own_users)[0].startswith("procMount")
    assert found("restricted", {**podwide(runAsUser=0, runAsNonRoot=False), "hostUsers": False}) == []


contexts: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "privileged": st.booleans(),
        "allowPrivilegeEscalation": st.booleans(),
        "runAsNonRoot": st.booleans(),
        "runAsUser": st.sampled_from([0, 1]),
        "procMount": st.sampled_from(["Default", "Unmasked"]),
        "capabilities": st.fixed_dictionaries(
            {},
            optional={
                "add": st.lists(st.sampled_from(["CHOWN", "NET_BIND_SERVICE", "SYS_ADMIN"]), max_size=2),
                "drop": st.sampled_from([[], ["ALL"], ["CHOWN"]]),
            },
        ),
        "seccompProfile": st.sampled_from([None, {"type": "Unconfined"}, {"type": "RuntimeDefault"}]),
        "seLinuxOptions": st.sampled_from([None, {"type": "spc_t"}, {"level": "s0"}]),
        "windowsOptions": st.sampled_from([None, {}, {"hostProcess": True}]),
    },
)
volumes: st.SearchStrategy[Json] = st.sampled_from(
    [{"emptyDir": {}}, {"hostPath": {"path": "/"}}, {"nfs": {}}, {}]
)
pods: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {
        "containers": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["a", "b"])}, optional={"securityContext": contexts}
            ),
            min_size=1,
            max_size=2,
        )
    },
    optional={
        "securityContext": contexts,
        "hostNetwork": st.booleans(),
        "hostUsers": st.booleans(),
        "os": st.sampled_from([None, {"name": "linux"}, {"name": "windows"}]),
        "volumes": st.lists(volumes.map(lambda source: {"name": "v"} | source), max_size=2),
    },
)
versions = st.sampled_from(["latest", "v1.0", "v1.18", "v1.22", "v1.25", "v1.34", "v1.35"])


@settings(max_examples=150)
@given(pods, versions)
def test_what_is_restricted_enough_is_baseline_enough(spec: Json, version: str) -> None:
    """A later standard may allow more, but within one version the levels are ordered."""
    if not found("restricted", spec, version):
        assert found("baseline", spec, version) == []
    assert found("privileged", spec, version) == []
