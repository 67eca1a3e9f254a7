"""Metrics that are switched off, and labels that may only have some values."""

from pathlib import Path
from random import Random

import pytest

from scheduler.metrics.reading import Timer
from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.scheduler.metrics import MetricsOptions, ProcessMetrics, SchedulerMetrics

KEYS = (
    'must have keys with format `metricName,labelName` where metricName matches "[a-zA-Z_:][a-zA-Z0-9_:]*" '
    'and labelName matches "[a-zA-Z_][a-zA-Z0-9_]*"'
)
ATTEMPTS = "scheduler_schedule_attempts_total"


def lines_with(options: MetricsOptions) -> list[str]:
    metrics = ProcessMetrics(DEFAULT_GATES, timer=Timer(), options=options)
    scheduling = SchedulerMetrics(Timer(), DEFAULT_GATES, Random(0))
    for profile, times in (("default-scheduler", 3), ("mine", 4), ("yours", 5)):
        for _ in range(times):
            scheduling.attempt("scheduled", profile, 0.003)
    metrics.show(scheduling)
    metrics.text()
    return metrics.text().decode().splitlines()


def test_nothing_is_wrong_with_the_defaults() -> None:
    assert MetricsOptions().problems(36) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            MetricsOptions(show_hidden_for_version="1.34"),
            'metrics.showHiddenMetricsForVersion: Invalid value: "1.34": must be omitted or have the value '
            "'1.35'; only the previous minor version is allowed",
        ),
        (
            MetricsOptions(disabled=("fine", "not-fine")),
            'metrics.disabledMetrics: Invalid value: ["fine","not-fine"]: must be fully qualified metric '
            'names matching "^[a-zA-Z_:][a-zA-Z0-9_:]*$", got "not-fine"',
        ),
        (
            MetricsOptions(allowed_labels={"metric": "a"}),
            f'metrics.allowListMapping: Invalid value: {{"metric":"a"}}: {KEYS}',
        ),
        (
            MetricsOptions(allowed_labels_manifest="/does/not/exist"),
            'metrics.allowListMappingManifest: Invalid value: "/does/not/exist": failed to read allow list '
            "manifest: open /does/not/exist: no such file or directory",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(options: MetricsOptions, problem: str) -> None:
    assert options.problems(36) == [problem]


def test_the_previous_version_is_accepted() -> None:
    assert MetricsOptions(show_hidden_for_version="1.35").problems(36) == []


@pytest.mark.parametrize("text", ["- a\n", "a,b: [1]\n", "a,b: 5\n", "a: b: c\n"])
def test_a_manifest_has_to_be_a_map_of_texts(text: str, tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text(text)
    (problem,) = MetricsOptions(allowed_labels_manifest=str(file)).problems(36)
    assert "failed to parse allow list manifest: " in problem
    assert "\n" not in problem


def test_a_manifest_s_keys_are_checked_too(tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text("no label: a\n")
    (problem,) = MetricsOptions(allowed_labels_manifest=str(file)).problems(36)
    assert "invalid allow list mapping in manifest: [" in problem


def test_labels_are_given_in_one_place_only(tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    file.write_text("a,b: c\n")
    options = MetricsOptions(allowed_labels={"a,b": "c"}, allowed_labels_manifest=str(file))
    (problem,) = options.problems(36)
    assert problem.startswith("metrics: Invalid value: {")
    assert problem.endswith("cannot specify both allowListMapping and allowListMappingManifest")


def test_a_family_that_is_switched_off_is_not_shown_but_counted() -> None:
    lines = lines_with(MetricsOptions(disabled=(ATTEMPTS, ATTEMPTS, "no_such_metric")))
    assert not [line for line in lines if ATTEMPTS in line]
    assert "disabled_metrics_total 2" in lines


@pytest.mark.parametrize("wrapped", [False, True])
def test_values_that_are_not_allowed_are_added_up(wrapped: bool, tmp_path: Path) -> None:
    allowed = {f"{ATTEMPTS},profile": "default-scheduler,mine"}
    file = tmp_path / "manifest.yaml"
    text = f'"{ATTEMPTS},profile": "default-scheduler,mine"\n'
    file.write_text(f"allowListMapping:\n  {text}" if wrapped else text)
    for options in (
        MetricsOptions(allowed_labels=allowed),
        MetricsOptions(allowed_labels_manifest=str(file)),
    ):
        assert options.problems(36) == []
        shown = [line for line in lines_with(options) if line.startswith(ATTEMPTS)]
        assert shown == [
            f'{ATTEMPTS}{{profile="default-scheduler",result="scheduled"}} 3',
            f'{ATTEMPTS}{{profile="mine",result="scheduled"}} 4',
            f'{ATTEMPTS}{{profile="unexpected",result="scheduled"}} 5',
        ]
        assert "cardinality_enforcement_unexpected_categorizations_total 5" in lines_with(options)


def test_distributions_are_added_up_bucket_by_bucket() -> None:
    name = "scheduler_scheduling_attempt_duration_seconds"
    lines = lines_with(MetricsOptions(allowed_labels={f"{name},profile": "nobody"}))
    assert f'{name}_bucket{{profile="unexpected",result="scheduled",le="0.002"}} 0' in lines
    assert f'{name}_bucket{{profile="unexpected",result="scheduled",le="0.004"}} 12' in lines
    assert f'{name}_count{{profile="unexpected",result="scheduled"}} 12' in lines
    assert len([line for line in lines if line.startswith(f"{name}_count")]) == 1
