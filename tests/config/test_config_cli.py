"""`stowplan config` on the command line."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from config.documents import HEADER
from stowplan.cli.config import config_group

Write = Callable[[str], str]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(config_group, list(arguments), catch_exceptions=False)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """A function that writes a file and gives its name."""

    def write_file(text: str) -> str:
        path = tmp_path / "scheduler.yaml"
        path.write_text(text)
        return str(path)

    return write_file


def test_defaults_prints_a_configuration_that_is_valid(write: Write) -> None:
    result = run("defaults")
    assert result.exit_code == 0
    assert yaml.safe_load(result.stdout)["kind"] == "KubeSchedulerConfiguration"
    assert run("validate", write(result.stdout)).exit_code == 0


def test_defaults_follow_feature_gates() -> None:
    result = run("defaults", "--emulated-version=1.37", "--feature-gates", "GenericWorkload=true")
    assert "GangScheduling" in result.stdout
    older = run("defaults", "--emulated-version=1.36", "--feature-gates", "GenericWorkload=true")
    assert "GangScheduling" not in older.stdout
    assert "GangScheduling" not in run("defaults").stdout


def test_a_valid_file_is_confirmed(write: Write) -> None:
    file = write(HEADER)
    result = run("validate", file)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == f"{file}: valid, schedules for default-scheduler\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "Error: Object 'Kind' is missing in ''"),
        (
            HEADER + "parallelism: 0",
            "Error: parallelism: Invalid value: 0: should be an integer value greater than zero",
        ),
        (
            HEADER + "foo: 1\nfoo: 2",
            'Error: strict decoding error: yaml: unmarshal errors: line 4: key "foo" already set '
            'in map, unknown field "foo"',
        ),
        (
            HEADER + "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]",
            "Error: initializing profiles: creating profile for scheduler name default-scheduler: "
            'at least one bind plugin is needed for profile with scheduler name "default-scheduler"',
        ),
    ],
)
@pytest.mark.parametrize("command", ["validate", "show"])
def test_a_bad_file_is_one_line_on_stderr_and_exit_code_1(
    write: Write, command: str, text: str, line: str
) -> None:
    result = run(command, write(text))
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", line + "\n")


def test_a_missing_file_is_one_line_and_so_is_a_directory(tmp_path: Path) -> None:
    missing = run("validate", str(tmp_path / "absent.yaml"))
    assert missing.exit_code == 1
    assert missing.stderr == f"Error: open {tmp_path}/absent.yaml: no such file or directory\n"
    assert run("show", str(tmp_path)).stderr == f"Error: read {tmp_path}: is a directory\n"


def test_a_bad_feature_gate_is_one_line() -> None:
    result = run("defaults", "--feature-gates", "NoSuch=true")
    assert (result.exit_code, result.stderr) == (1, "Error: unrecognized feature gate: NoSuch\n")


def test_show_tells_what_runs_and_the_completed_configuration(write: Write) -> None:
    result = run(
        "show",
        write(
            f"{HEADER}percentageOfNodesToScore: 30\n"
            "extenders: [{urlPrefix: 'http://a', ignorable: true, bindVerb: b}, "
            "{urlPrefix: 'http://b', prioritizeVerb: p, weight: 3}]\n"
            "profiles: [{schedulerName: mine, plugins: {score: {enabled: [{name: ImageLocality, "
            "weight: 7}]}}}]\n"
        ),
    )
    assert result.exit_code == 0
    shown, _, completed = result.stdout.partition("Completed configuration\n\n")
    assert "Profile mine (scores 30 % of the nodes)" in shown
    assert "  score              ImageLocality×7, TaintToleration×3," in shown
    assert "  http://b: prioritize×3\n  http://a: bind, ignorable\n" in shown
    assert yaml.safe_load(completed)["profiles"][0]["schedulerName"] == "mine"


PLUGIN = """
import msgspec
from stowplan.framework import Plugin


class Args(msgspec.Struct):
    highest: int


class Price(Plugin):
    args_type = Args

    def score_node(self, cycle, pod, node):
        return self.args.highest
"""


def with_price(args: str) -> str:
    return (
        f"{HEADER}profiles:\n- plugins: {{multiPoint: {{enabled: [{{name: Price, weight: 7}}]}}}}\n"
        f"  pluginConfig: [{{name: Price, args: {args}}}]\n"
    )


def test_a_plugin_from_outside_the_tree_is_found_where_it_is_said_to_be(write: Write, tmp_path: Path) -> None:
    (tmp_path / "price.py").write_text(PLUGIN)
    file = write(with_price("{highest: 4}"))
    assert run("validate", file).stderr.endswith(
        'PreFilterPlugin "Price" does not exist (pass --plugin file.py:Price if it is one of your own)\n'
    )
    reference = f"{tmp_path / 'price.py'}:Price"
    assert run("validate", file, "--plugin", reference).exit_code == 0
    assert "Price×7" in run("show", file, "--plugin", reference).stdout


def test_arguments_that_a_plugin_does_not_understand_are_refused_in_one_line(
    write: Write, tmp_path: Path
) -> None:
    (tmp_path / "price.py").write_text(PLUGIN)
    file = write(with_price("{highest: dear}"))
    result = run("validate", file, "--plugin", f"{tmp_path / 'price.py'}:Price")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1
    assert 'initializing plugin "Price": args.highest: expected int, got str' in result.stderr
