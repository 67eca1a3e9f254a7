"""The command `stowplan`."""

import logging
import os
import sys
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from stowplan import __version__
from stowplan.cli.lazy import Commands
from stowplan.gocompat.quoting import visible
from stowplan.runtime.gc_tuning import collect_rarely

COMMANDS: Final = {
    "Run a scheduler or a cluster": {
        "up": ("hosts.up:up", "Run a Kubernetes cluster in this process."),
        "run": ("hosts.run:run", "Run the scheduler in place of kube-scheduler."),
        "apiserver": ("hosts.apiserver:apiserver", "Run a Kubernetes API server."),
        "controllers": ("hosts.components:controllers", "Run controllers against an API server."),
        "kubelets": ("hosts.components:kubelets", "Run simulated kubelets against an API server."),
        "node": ("explain.node:node_group", "Make simulated nodes fail and recover."),
    },
    "Understand a cluster": {
        "explain": (
            "explain.explain:explain",
            "Explain why a pod, workload or group waits, or a pod on its node.",
        ),
        "pending": ("explain.explain:pending", "Group pending pods by cause."),
        "top": ("explain.top:top", "Show queue, rate, causes and costs of a cluster, live."),
        "view": ("simulate.view:view", "Show any cluster on a page in the browser."),
        "shadow": ("simulate.shadow:shadow", "Judge every binding of a cluster's scheduler."),
        "doctor": ("explain.doctor:doctor", "Check whether stowplan can schedule a cluster."),
    },
    "Plan changes to a cluster": {
        "fit": ("simulate.fit:fit", "Check whether a workload fits, and where it would go."),
        "capacity": ("simulate.capacity:capacity", "Count how many sets of a mix of pods fit."),
        "whatif": ("simulate.whatif:whatif", "Try changes on a copy of a cluster, and show the result."),
        "plan": ("simulate.plan:plan", "Plan steps that improve a cluster."),
        "snapshot": ("simulate.snapshot:snapshot", "Write a cluster to one compact file."),
    },
    "Simulate, record and replay": {
        "simulate": (
            "simulate.simulate:simulate_command",
            "Run SCENARIO in virtual time with the whole scheduler.",
        ),
        "compare": ("simulate.compare:compare_command", "Compare configurations by simulation."),
        "sweep": ("simulate.sweep:sweep_command", "Simulate every combination of EXPERIMENT."),
        "record": ("simulate.record:record", "Record what happens in a cluster."),
        "replay": ("simulate.replay:replay", "Replay RECORDING, or compare another configuration on it."),
        "demo": ("hosts.demo:demo", "Replay decisions of kube-scheduler and explain one."),
    },
    "Configuration and help": {
        "config": ("config:config_group", "Show, validate and migrate configurations."),
        "version": ("version:version", "Show versions: stowplan, Kubernetes, dependencies."),
        "completion": ("completion:completion", "Print a script that completes commands in a shell."),
        "man": ("man:man", "Print the manual page of a command."),
    },
    "Test stowplan itself": {
        "verify": ("lab.verify:verify_command", "Compare decisions with recorded ones."),
        "bench": ("lab.bench:bench", "Measure stowplan on this machine."),
        "lab": ("lab:lab", "Test and measure stowplan: bench, chaos, fuzz, verify and more."),
    },
}
"""Commands by what they are for: where each is in `stowplan.cli`, and the first line of its help, so that
`stowplan --help` need not load it."""

_PLACES: Final = {
    name: f"stowplan.cli.{place}" for section in COMMANDS.values() for name, (place, _) in section.items()
}
_MOVED: Final = ("chaos", "fuzz")
"""Commands that were here before they moved below `lab`."""

_SUMMARIES: Final = {name: summary for section in COMMANDS.values() for name, (_, summary) in section.items()}


class OneLineErrors(click.Group):
    """A group that reports user errors in one line: `Error: …`, exit code 1, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            _make_visible(error)
            raise
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            place = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(visible(f"{place}{error.strerror or error}")) from None
        except ValueError as error:
            if not isinstance(error, _user_errors()):
                raise
            raise click.ClickException(visible(" ".join(str(error).split()))) from None
        except Exception as error:
            # Without the framework, no plugin can have failed: `--help` ends with an exception, too.
            status = sys.modules.get("stowplan.scheduler.framework.status")
            if status is None or not isinstance(error, status.PluginError):
                raise
            raise click.ClickException(visible(" ".join(str(error).split()))) from None


def _make_visible(error: click.ClickException) -> None:
    """Escape what a terminal would act upon in the message of an error, which may quote anything."""
    shown = visible(error.message, "\n")
    if shown != error.message:
        error.__dict__["message"] = shown


class Program(OneLineErrors):
    """The group of all commands: lists them by what they are for, without loading them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, _SUMMARIES))
        for title, section in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), summary) for name, (_, summary) in section.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in _MOVED:
            raise click.ClickException(f"`stowplan {args[0]}` is `stowplan lab {args[0]}` now")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands, again without loading them, and the options."""
        found = [
            CompletionItem(name, help=self._summary(name))
            for name in self.list_commands(ctx)
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _summary(self, name: str) -> str:
        return _SUMMARIES.get(name) or self.commands[name].get_short_help_str(200)


def _user_errors() -> tuple[type[ValueError], ...]:
    """The errors that are about something the user wrote."""
    from stowplan.api.decode import DecodeError
    from stowplan.config import ConfigError
    from stowplan.scheduler.framework.status import ProfileError
    from stowplan.scheduler.recording.files import RecordingError
    from stowplan.simulate.snapshot.files import SnapshotError

    return ConfigError, DecodeError, ProfileError, RecordingError, SnapshotError


@click.group(
    "stowplan",
    cls=Program,
    commands=Commands(_PLACES),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, package_name="stowplan", message="stowplan %(version)s")
@click.option("--traceback", is_flag=True, help="Print the traceback of an error in a plugin.")
def stowplan(traceback: bool) -> None:
    """A Kubernetes scheduler, and a cluster in one process.

    `stowplan up --demo` is a good start. Every command has its own help: `stowplan up --help`.
    """
    if traceback:
        log = logging.getLogger("stowplan.plugins")
        log.addHandler(logging.StreamHandler())
        log.setLevel(logging.DEBUG)


def main() -> None:
    """The console script.

    NumPy starts as many threads as there are cores, for linear algebra that nothing here uses. Starting and
    ending them takes longer than all else of loading it.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    collect_rarely()
    stowplan()
