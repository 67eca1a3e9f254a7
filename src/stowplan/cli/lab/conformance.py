"""`stowplan lab conformance`: Kubernetes' end-to-end tests against a fresh `stowplan up`."""

import asyncio
import sys
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from stowplan.api.gates.feature_gates import DEFAULT_GATES
from stowplan.cli.one_line import one_line_errors
from stowplan.cli.output import say
from stowplan.cli.values import AtLeast, Seconds
from stowplan.lab.conformance import E2eTests, Excuses, SuiteError, TestResult, report_of, run_all, table_of
from stowplan.lab.conformance.report import is_failure
from stowplan.localcluster.apiserver.server import write_kubeconfig
from stowplan.localcluster.kubelets import KubeletSettings, NodeShape, Pretend
from stowplan.localcluster.up import ClusterPlan, LocalCluster
from stowplan.localcluster.up.schedulers import SchedulerSource

FOCUS = r"\[sig-(apps|api-machinery)\].*\[Conformance\]"
_MISSING_IMAGES = ("*webserver:404*", "foo:*", "invalid*")
"""Images that the tests expect not to exist."""
_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.command("conformance")
@click.option(
    "--e2e-test",
    "binary",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The e2e.test binary of a release of Kubernetes.",
)
@click.option(
    "--focus",
    default=FOCUS,
    show_default="conformance tests of sig-apps and sig-api-machinery",
    help="Regular expression of the tests to run.",
)
@click.option("--skip", default="", help="Regular expression of tests to leave out.")
@click.option("--nodes", type=AtLeast(1), default=3, show_default=True, help="Nodes of the cluster.")
@click.option("--processes", type=AtLeast(1), default=2, show_default=True, help="Tests at a time.")
@click.option("--timeout", type=Seconds(), default="10m", show_default=True, help="Time limit for each test.")
@click.option("--markdown", type=_FILE, help="Also write a table of all tests to this file.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def conformance(
    binary: Path,
    focus: str,
    skip: str,
    nodes: int,
    processes: int,
    timeout: float,
    markdown: Path | None,
    as_json: bool,
) -> None:
    """Run Kubernetes' end-to-end tests against a fresh cluster.

    Starts the cluster of `stowplan up` in this process and runs the tests of an e2e.test binary against it,
    each in a process of its own with a time limit. Tests that need a process in a container cannot pass and
    are counted separately. The exit code is 1 if a test failed that should pass.
    """
    excuses = Excuses.ours()
    with one_line_errors():
        try:
            results = asyncio.run(
                _run(E2eTests(binary.resolve(), timeout=timeout), focus, skip, nodes, processes)
            )
        except SuiteError as error:
            raise click.ClickException(str(error)) from None
    if markdown is not None:
        markdown.write_text("\n".join(table_of(results, excuses)) + "\n", encoding="utf-8")
    if as_json:
        found = [{**asdict(one), "excuse": excuses.reason_for(one.name)} for one in results]
        click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        for line in report_of(results, excuses):
            say(line)
    sys.exit(int(any(is_failure(one, excuses) for one in results)))


async def _run(tests: E2eTests, focus: str, skip: str, nodes: int, processes: int) -> list[TestResult]:
    names = await tests.names(focus, skip)
    if not names:
        raise SuiteError(f"--focus: expected a regular expression that matches a test, got {focus!r}")
    source = SchedulerSource("", (), DEFAULT_GATES)
    plan = ClusterPlan(
        shapes=(NodeShape(count=nodes, zones=("a", "b", "c")),),
        settings=source.settings(source.load()),
        source=source,
        kubelets=replace(
            KubeletSettings(), pretend=Pretend(follow_commands=True), missing_images=_MISSING_IMAGES
        ),
    )
    cluster = LocalCluster(plan)
    with TemporaryDirectory(prefix="stowplan-conformance-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        async with cluster.running():
            write_kubeconfig(kubeconfig, cluster.server.kubeconfig())
            say(f"{len(names)} tests against {cluster.server.url}", err=True)
            given = E2eTests(tests.binary, kubeconfig, tests.timeout, tests.options)
            return await run_all(given, names, processes=processes, told=_Progress(len(names)))


class _Progress:
    """Tells of each test when it has ended."""

    def __init__(self, count: int) -> None:
        self._left = count

    def __call__(self, result: TestResult) -> None:
        self._left -= 1
        said = f"{self._left} left: {result.outcome} after {result.seconds:.0f} s: {result.name}"
        say(said, err=True)
