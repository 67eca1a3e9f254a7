"""Command lines that were given to a real kube-scheduler end here with the same code and the same words."""

import re
from pathlib import Path
from typing import Any

import pytest

from observed.files import recorded
from releases import EMULATE_1_36
from server.flags.commands import HEADER, KUBECONFIG, call
from stowplan.server.command import help_text, usage_text
from stowplan.server.flags.table import GROUPS
from stowplan.server.version import VERSION

CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in recorded("cli/cases")}

_QUEUE_SORT = "plugins: {queueSort: {enabled: [%s], disabled: [{name: '*'}]}}"
_INVALID = """\
parallelism: -1
leaderElection: {leaseDuration: 1s, renewDeadline: 2s, retryPeriod: 1s}
percentageOfNodesToScore: 101
podInitialBackoffSeconds: 0
profiles:
- {}
- schedulerName: a
- {schedulerName: a, percentageOfNodesToScore: 200}
extenders:
- {urlPrefix: "http://a", prioritizeVerb: p, bindVerb: b}
- {urlPrefix: "http://b", bindVerb: b}
- {urlPrefix: "http://c", managedResources: [{name: cpu}]}
"""
_BAD_ARGS = """\
profiles:
- pluginConfig:
  - {name: NodeResourcesFit, args: {}}
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 300}}
  - name: PodTopologySpread
    args:
      defaultingType: System
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
  - {name: VolumeBinding, args: {bindTimeoutSeconds: -1}}
  - {name: DefaultPreemption, args: {minCandidateNodesPercentage: 200}}
"""


def _names(text: str) -> list[str]:
    return text.split()


def _config(text: str) -> str:
    return f"{HEADER}clientConnection: {{kubeconfig: $DIR/sched-direct.kubeconfig}}\n{text}"


def _profile(text: str) -> str:
    return _config(f"profiles:\n- {{schedulerName: a, {text}}}\n")


_TWICE = (
    "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {}}, {name: InterPodAffinity, args: {}}]}]"
)

FILES = {
    "notyaml.yaml": "{{{",
    "empty.yaml": "",
    "unknownfield.yaml": HEADER + "foo: 1\n",
    "unknownnested.yaml": HEADER + "profiles: [{plugns: {}}]\n",
    "dup.yaml": HEADER + "parallelism: 1\nparallelism: 2\n",
    "oldver.yaml": HEADER.replace("/v1", "/v1beta3"),
    "kind.yaml": HEADER.replace("KubeSchedulerConfiguration", "Foo"),
    "wrongtype.yaml": HEADER + "parallelism: many\n",
    "wrongcase.yaml": HEADER + "Parallelism: 1\n",
    "invalid.yaml": HEADER + _INVALID,
    "qs.yaml": _config(
        f"profiles:\n- schedulerName: a\n- schedulerName: b\n  {_QUEUE_SORT % '{name: SchedulingGates}'}\n"
    ),
    "qs0.yaml": _config(f"profiles:\n- schedulerName: a\n- schedulerName: b\n  {_QUEUE_SORT % ''}\n"),
    "nobind.yaml": _profile("plugins: {bind: {disabled: [{name: '*'}]}}"),
    "noplugin.yaml": _profile("plugins: {filter: {enabled: [{name: NoSuch}]}}"),
    "wrongpoint.yaml": _profile("plugins: {score: {enabled: [{name: NodeName}]}}"),
    "twice.yaml": _profile("plugins: {filter: {enabled: [{name: NodeName}, {name: NodeName}]}}"),
    "badargs.yaml": HEADER + _BAD_ARGS,
    "badargf.yaml": HEADER + "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {nope: 1}}]}]\n",
    "cfgtwice.yaml": HEADER + _TWICE,
    "w-empty.yaml": _config(""),
    "w-bare.yaml": HEADER,
    "w-bare2.yaml": HEADER,
    "both.yaml": _config("leaderElection: {leaderElect: false}\n"),
    "le.yaml": _config("leaderElection: {leaderElect: true}\n"),
    "w0.yaml": _profile("plugins: {score: {enabled: [{name: NodeAffinity, weight: 0}]}}"),
    "wov.yaml": _profile("plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 2147483647}]}}"),
    "w-two-profiles.yaml": _config(
        "profiles:\n- schedulerName: a\n- schedulerName: b\n"
        "  plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, "
        "{name: DefaultBinder}, {name: NodeResourcesFit, weight: 3}]}}\n"
    ),
    "sched-direct.kubeconfig": KUBECONFIG,
    "unreach.kubeconfig": KUBECONFIG,
    "emptykc.yaml": "apiVersion: v1\nkind: Config\n",
    "garbagekc.yaml": "{{{ - nonsense",
    "badctx.yaml": KUBECONFIG.replace("current-context: here", "current-context: nope"),
}

PARSING = _names(
    "version-set version-bad unknown-flag unknown-shorthand flag-missing-value bad-bool bad-duration "
    "bad-int bad-v "
)
FAILING = _names(
    "port-out-of-range unknown-feature-gate locked-feature-gate missing-config "
    "config-not-yaml config-empty-file config-unknown-field config-unknown-nested-field "
    "config-duplicate-field config-unknown-kind config-wrong-type config-wrong-case "
    "config-invalid-values config-two-queuesorts config-no-queuesort-in-one config-no-bind-plugin "
    "config-unknown-plugin config-plugin-wrong-point config-plugin-twice config-bad-plugin-args "
    "config-unknown-plugin-arg-field config-plugin-config-twice write-config-bare-no-kubeconfig "
    "write-config-unwritable no-kubeconfig-no-args kubeconfig-missing kubeconfig-empty "
    "kubeconfig-bad-context "
)
WRITING = _names("empty two-profiles no-config-file flags bare-master ")
STARTING = _names(
    "config-score-weight-zero-ok config-weight-overflow config-and-deprecated-flags "
    "leader-elect-flag-over-config unreachable-server-leader-elect unreachable-server-no-leader-elect "
)
NEEDS_A_PROCESS = re.compile(
    "signal-.*|lease-lost-.*|bad-token-401|no-rbac-403|port-in-use|cert-file-missing|authn-lookup-intolerant"
    "|unreachable-server-authn-lookup"
)
"""Cases about a scheduler that runs, or gets further than the command line: see `tests/server/process`."""
APART = _names(
    "help help-short version version-raw positional-arg bad-logging-format kubeconfig-garbage "
    "config-old-version bad-emulated-version "
)
"""Cases with a test of their own."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace("$DIR", str(tmp_path)))
    return tmp_path


def arguments(name: str, folder: Path) -> list[str]:
    """The arguments of a case, and the release that it was recorded from."""
    given = [argument.replace("$DIR", str(folder)) for argument in CASES[name]["argv"][1:]]
    return given if any("emulated-version" in argument for argument in given) else [EMULATE_1_36, *given]


def failure(log: str) -> str:
    """Last error message of a log."""
    _, found, message = log.partition('"command failed" err=')
    assert found, log
    return message


def test_every_recorded_case_is_accounted_for() -> None:
    named = {
        *PARSING,
        *FAILING,
        *(f"write-config-{name}" for name in WRITING),
        *STARTING,
        *APART,
    }
    assert CASES.keys() - named == {name for name in CASES if NEEDS_A_PROCESS.fullmatch(name)}
    assert named <= CASES.keys()


@pytest.mark.parametrize("name", PARSING)
def test_arguments_that_make_no_sense_are_answered_with_the_usage_and_a_line(name: str, folder: Path) -> None:
    called = call(*arguments(name, folder))
    usage, error = CASES[name]["stderr"].split("\n\n", 1)
    assert usage == "(usage: help.txt from its line 'Usage:' on)"
    error = re.sub(r"v0\.0\.0-master\+\w+", VERSION.replace("\\", ""), error)
    assert (called.code, called.stdout) == (CASES[name]["rc"], "")
    assert called.stderr == f"{usage_text(GROUPS)}\n{error}"


@pytest.mark.parametrize("name", FAILING)
def test_what_cannot_start_says_why_in_the_log(name: str, folder: Path) -> None:
    called = call(*arguments(name, folder))
    assert (called.code, called.stdout) == (CASES[name]["rc"], "")
    told = re.sub(r' hint="[^"]*"', "", failure(called.stderr))
    assert told == failure(CASES[name]["stderr"]).replace("$DIR", str(folder))
    assert not called.plans


def test_versions_out_of_range_are_refused_with_the_range_of_this_installation(folder: Path) -> None:
    called = call(*arguments("bad-emulated-version", folder))
    recorded = failure(CASES["bad-emulated-version"]["stderr"])
    assert "[1.33, 1.36.0]" in recorded
    expected = recorded.replace("1.33", "1.34").replace("1.36.0", "1.37.0")
    assert (called.code, failure(called.stderr)) == (1, expected)


@pytest.mark.parametrize("name", ["no-kubeconfig-no-args", "write-config-bare-no-kubeconfig"])
def test_a_server_that_is_not_named_is_looked_for_as_a_pod_would(name: str, folder: Path) -> None:
    lines = [line for line in CASES[name]["stderr"].splitlines() if "client_config.go" in line]
    called = call(*arguments(name, folder))
    assert called.messages[:-1] == [line.partition("] ")[2] for line in lines]


@pytest.mark.parametrize("name", WRITING)
def test_the_configuration_is_written_as_recorded(name: str, folder: Path) -> None:
    given = arguments(f"write-config-{name}", folder)
    called = call(*given)
    assert called.code == 0
    out = given[given.index("--write-config-to") + 1]
    assert f'"Wrote configuration" file="{out}"' in called.messages
    expected = (Path(__file__).parents[2] / "observed" / "cli" / f"write-config-{name}.yaml").read_text()
    assert Path(out).read_text() == expected.replace("$DIR", str(folder))


@pytest.mark.parametrize("name", STARTING)
def test_what_could_start_gets_as_far_as_starting(name: str, folder: Path) -> None:
    called = call(*arguments(name, folder))
    assert len(called.plans) == 1, called.stderr


def test_with_a_file_deprecated_flags_are_ignored(folder: Path) -> None:
    called = call(*arguments("config-and-deprecated-flags", folder))
    assert called.options.client.kubeconfig == str(folder / "sched-direct.kubeconfig")
    assert (called.options.client.qps, called.options.profiling) == (50, True)
    assert '"--kubeconfig has no effect: --config is set"' in called.messages


def test_leader_election_flags_win_over_a_file(folder: Path) -> None:
    assert not call(*arguments("leader-elect-flag-over-config", folder)).options.election.leader_elect


@pytest.mark.parametrize("name", ["help", "help-short"])
def test_help(name: str, folder: Path) -> None:
    called = call(*arguments(name, folder))
    assert (called.code, called.stdout, called.stderr) == (CASES[name]["rc"], help_text(GROUPS), "")


@pytest.mark.parametrize("name", ["version", "version-raw"])
def test_the_version_has_the_recorded_form(name: str) -> None:
    called = call(*CASES[name]["argv"][1:])
    values = re.compile(r'v0\.0\.0-master\+\w+|"[^"]*"')
    ours = called.stdout.replace(VERSION, "…")
    assert values.sub("…", ours) == values.sub("…", CASES[name]["stdout"])
    assert (called.code, called.stderr) == (0, "")


def test_a_positional_argument_is_refused_without_the_usage() -> None:
    called = call("foo")
    assert called.stderr == CASES["positional-arg"]["stderr"].replace("kube-scheduler", "stowplan run")
    assert (called.code, called.stdout) == (1, "")


def test_a_log_that_cannot_be_kept_is_told_in_plain_text() -> None:
    called = call("--logging-format=xml")
    assert (called.code, called.stderr) == (1, CASES["bad-logging-format"]["stderr"])


def test_a_file_of_an_earlier_version_is_read_unless_there_never_was_such_a_version(folder: Path) -> None:
    given = arguments("config-old-version", folder)
    assert len(call("--master=http://127.0.0.1:1", *given).plans) == 1
    file = folder / "oldver.yaml"
    file.write_text(file.read_text().replace("v1beta3", "v1beta9"))
    refused = failure(CASES["config-old-version"]["stderr"]).replace("v1beta3", "v1beta9")
    assert failure(call(*given).stderr) == refused


def test_a_kubeconfig_that_is_no_yaml_is_named(folder: Path) -> None:
    called = call(*arguments("kubeconfig-garbage", folder))
    start = (
        failure(CASES["kubeconfig-garbage"]["stderr"]).replace("$DIR", str(folder)).partition("line 1: ")[0]
    )
    assert failure(called.stderr).startswith(start)
