"""`stowplan config migrate`, and what the other commands say to files of earlier versions."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from config.legacy.documents import SAMPLES, old, policy, profile_of
from stowplan.cli.config import config_group
from stowplan.config import load
from stowplan.config.legacy import load_any, provider_config


def call(*arguments: str) -> Result:
    return CliRunner().invoke(config_group, list(arguments))


@pytest.mark.parametrize("file", sorted(SAMPLES.iterdir()), ids=lambda file: file.name)
def test_what_is_printed_is_a_configuration_of_today_that_runs_the_same(file: Path) -> None:
    made = call("migrate", str(file))
    assert made.exit_code == 0, made.output
    document = yaml.safe_load(made.stdout)
    assert document["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    migrated, direct = load(made.stdout), load_any(file.read_text())
    for index in range(len(direct.config.profiles)):
        assert profile_of(migrated, index).plugins == profile_of(direct, index).plugins
        assert profile_of(migrated, index).args == profile_of(direct, index).args
    assert migrated.config.extenders == direct.config.extenders
    assert all(line.startswith("note: ") for line in made.stderr.splitlines())


def test_a_policy_with_exact_names_only_needs_no_notes(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(policy(predicates=[{"name": "HostName"}], priorities=[]))
    made = call("migrate", str(file))
    assert (made.exit_code, made.stderr) == (0, "")
    assert made.stdout == (
        "apiVersion: kubescheduler.config.k8s.io/v1\n"
        "kind: KubeSchedulerConfiguration\n"
        "profiles:\n"
        "- plugins:\n"
        "    bind:\n"
        "      enabled:\n"
        "      - name: DefaultBinder\n"
        "    filter:\n"
        "      enabled:\n"
        "      - name: NodeUnschedulable\n"
        "      - name: NodeName\n"
        "      - name: TaintToleration\n"
        "    multiPoint:\n"
        "      disabled:\n"
        "      - name: '*'\n"
        "    postFilter:\n"
        "      enabled:\n"
        "      - name: DefaultPreemption\n"
        "    preEnqueue:\n"
        "      enabled:\n"
        "      - name: SchedulingGates\n"
        "      - name: DefaultPreemption\n"
        "    queueSort:\n"
        "      enabled:\n"
        "      - name: PrioritySort\n"
        "  schedulerName: default-scheduler\n"
    )


def test_what_has_no_exact_equivalent_is_told(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(
        policy(
            predicates=[{"name": "CheckNodeCondition"}],
            priorities=[{"name": "ImageLocalityPriority", "weight": 1}],
            alwaysCheckAllPredicates=True,
        )
    )
    first, second, third = call("migrate", str(file)).stderr.splitlines()
    assert first == (
        "note: CheckNodeCondition: runs as NodeCondition, which kube-scheduler does not have (nearest to it "
        "there: TaintToleration: a controller taints such nodes)"
    )
    assert second.startswith("note: ImageLocalityPriority: runs as ImageLocality; it differs: ")
    assert third.startswith("note: alwaysCheckAllPredicates: has no equivalent: ")


def test_a_lock_that_todays_file_cannot_name_is_told(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(old("v1alpha1"))
    [note] = [line for line in call("migrate", str(file)).stderr.splitlines() if "resourceLock" in line]
    assert "start with --leader-elect-resource-lock=endpointsleases" in note


def test_a_provider_instead_of_a_file() -> None:
    for name in ("DefaultProvider", "ClusterAutoscalerProvider@1.9"):
        made = call("migrate", "--algorithm-provider", name)
        assert profile_of(load(made.stdout)).plugins == profile_of(provider_config(name)).plugins
    refused = call("migrate", "--algorithm-provider", "Nobody")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert 'unknown algorithm provider "Nobody"' in refused.stderr


def test_the_release_that_is_meant(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text(policy(priorities=[{"name": "LeastRequestedPriority", "weight": 1}]))
    assert "maxPriority: 10" in call("migrate", str(file), "--release", "1.9").stdout
    assert "maxPriority" not in call("migrate", str(file)).stdout


def test_a_configuration_of_today_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(old("v1"))
    made = call("migrate", str(file))
    assert (made.exit_code, made.stdout) == (0, old("v1"))
    assert made.stderr == "note: it is a configuration of today; there is nothing to migrate\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (policy(predicates=[{"name": "X"}]), 'Error: predicates[0].name: unknown predicate "X"\n'),
        (old("v1beta1", x=1), "Error: x: unknown field of this version of KubeSchedulerConfiguration\n"),
        (old("v1", x=1), 'Error: strict decoding error: unknown field "x"\n'),
        (
            old("v1alpha1", algorithmSource={"policy": {"configMap": {"name": "p"}}}),
            "Error: the Policy is in ConfigMap kube-system/p: it can be read only in a cluster\n",
        ),
    ],
)
@pytest.mark.parametrize("command", ["migrate", "validate", "show"])
def test_a_mistake_is_one_line_and_nothing_is_printed(
    command: str, text: str, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    refused = call(command, str(file))
    assert (refused.exit_code, refused.stdout, refused.stderr) == (1, "", told)


@pytest.mark.parametrize("arguments", [(), ("file", "--algorithm-provider", "DefaultProvider")])
def test_a_file_or_a_provider(arguments: tuple[str, ...]) -> None:
    refused = call("migrate", *arguments)
    assert refused.exit_code == 2
    assert "expected FILE or --algorithm-provider" in refused.stderr


def test_files_of_earlier_versions_can_be_checked_and_looked_at(tmp_path: Path) -> None:
    file = str(SAMPLES / "component-v1alpha2.yaml")
    checked = call("validate", file)
    assert checked.stdout == f"{file}: valid, schedules for default-scheduler, packer\n"
    assert "note: DefaultPodTopologySpread: runs as SelectorSpread" in checked.stderr
    assert "NodeResourcesMostAllocated×5" in call("show", file).stdout
