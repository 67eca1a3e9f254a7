"""`config migrate --to`: visible changes of a move to another release."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stowplan.cli.config import config_group

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scheduler.yaml"
    path.write_text(HEADER)
    return path


def migrate(*arguments: object) -> Result:
    return CliRunner().invoke(config_group, ["migrate", *map(str, arguments)])


@pytest.mark.parametrize(
    "note",
    [
        "feature gate GangScheduling: is removed; a scheduler given it does not start",
        "feature gate DRAExtendedResource: is locked to true, a scheduler that sets it does not start",
        "feature gate StorageCapacityScoring: is on by default (Beta), was off",
        "plugin NodeName: also runs at preFilter",
        "order of default plugins: NodeName runs before NodeUnschedulable, ",
        "VolumeBindingArgs.shape: the default is ",
        "devicetaintrules: are read as resource.k8s.io/v1, ",
        "rules: ImageLocality scales its threshold by the number of containers and image volumes; ",
        "queueing: no longer: A plugin that registers new nodes without taint changes is woken ",
        "metric scheduler_resourceclaim_creates_total: is gone",
        "metric scheduler_scheduling_algorithm_duration_seconds: is BETA",
        "metrics that are new: dynamic_resource_allocation_resourceclaim_creates_total, ",
    ],
)
def test_what_changes_is_told(note: str, file: Path) -> None:
    gates = "--feature-gates=GenericWorkload=true,GangScheduling=true,DRAExtendedResource=false"
    result = migrate(file, "--to", "1.37", "--emulated-version=1.36", gates)
    assert result.exit_code == 0
    assert result.stdout == HEADER
    assert any(line.startswith(f"note: {note}") for line in result.stderr.splitlines())


def test_rules_of_plugins_that_are_not_used_are_not_told(file: Path) -> None:
    assert "note: devices: " in migrate(file, "--to", "1.37").stderr
    file.write_text(
        f"{HEADER}profiles:\n- plugins:\n    multiPoint:\n      disabled:\n      - name: DynamicResources\n"
    )
    result = migrate(file, "--to", "1.37")
    assert result.exit_code == 0
    assert "note: devices: " not in result.stderr
    assert "note: rules: " in result.stderr


def test_the_same_release_changes_nothing(file: Path) -> None:
    result = migrate(file, "--to", "1.37", "--emulated-version=1.37")
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_document_is_read_as_the_release_reads_it(file: Path) -> None:
    file.write_text(f"{HEADER}profiles:\n- plugins:\n    podGroupPostFilter: {{}}\n")
    assert migrate(file, "--to", "1.37").exit_code == 0
    refused = migrate(file, "--to", "1.36")
    assert refused.exit_code == 1
    assert 'unknown field "profiles[0].plugins.podGroupPostFilter"' in refused.stderr
