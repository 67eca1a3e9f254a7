"""The command `stowplan`."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from stowplan import __version__

_PLACES: Final = {
    "apiserver": "stowplan.cli.apiserver:apiserver",
    "bench": "stowplan.cli.bench:bench",
    "capacity": "stowplan.cli.capacity:capacity",
    "chaos": "stowplan.cli.chaos:chaos",
    "completion": "stowplan.cli.completion:completion",
    "explain": "stowplan.cli.explain:explain",
    "fit": "stowplan.cli.fit:fit",
    "fuzz": "stowplan.cli.fuzz:fuzz",
    "compare": "stowplan.cli.compare:compare",
    "config": "stowplan.cli.config:config_group",
    "controllers": "stowplan.cli.components:controllers",
    "demo": "stowplan.cli.demo:demo",
    "doctor": "stowplan.cli.doctor:doctor",
    "kubelets": "stowplan.cli.components:kubelets",
    "man": "stowplan.cli.man:man",
    "node": "stowplan.cli.node:node_group",
    "pending": "stowplan.cli.explain:pending",
    "plan": "stowplan.cli.plan:plan",
    "record": "stowplan.cli.record:record",
    "replay": "stowplan.cli.replay:replay",
    "run": "stowplan.cli.run:run",
    "shadow": "stowplan.cli.shadow:shadow",
    "simulate": "stowplan.cli.simulate:simulate",
    "snapshot": "stowplan.cli.snapshot:snapshot",
    "sweep": "stowplan.cli.sweep:sweep",
    "top": "stowplan.cli.top:top",
    "up": "stowplan.cli.up:up",
    "verify": "stowplan.cli.verify:verify_command",
    "version": "stowplan.cli.version:version",
    "view": "stowplan.cli.shadow:view",
    "whatif": "stowplan.cli.whatif:whatif",
}

_SUMMARIES: Final = {
    "apiserver": "Run a Kubernetes API server.",
    "bench": "Measure stowplan on this machine.",
    "capacity": "Tell how many sets of a mix of pods fit.",
    "chaos": "Test the scheduler under random faults.",
    "compare": "Compare configurations by simulation.",
    "completion": "Print a script that completes commands in a shell.",
    "config": "Show, validate and migrate configurations.",
    "controllers": "Run controllers against an API server.",
    "demo": "Replay kube-scheduler's decisions and explain one.",
    "doctor": "Check whether stowplan can schedule a cluster.",
    "explain": "Explain why a pod or group is pending, or a pod on its node.",
    "fit": "Tell whether a workload fits, and where it would go.",
    "fuzz": "Test the scheduler with hostile objects.",
    "kubelets": "Run simulated kubelets against an API server.",
    "man": "Print the manual page of a command.",
    "node": "Make simulated nodes fail and recover.",
    "pending": "Group waiting pods by cause.",
    "plan": "Plan steps that improve a cluster.",
    "record": "Record what happens in a cluster.",
    "replay": "Replay RECORDING: the same decisions, or others.",
    "run": "Run the scheduler in place of kube-scheduler.",
    "shadow": "Judge every binding of a cluster's scheduler.",
    "simulate": "Run SCENARIO in virtual time with the whole scheduler.",
    "snapshot": "Write a cluster to one compact file.",
    "sweep": "Simulate every combination of EXPERIMENT.",
    "top": "Show queue, rate and causes of a cluster, live.",
    "up": "Run a Kubernetes cluster in this process.",
    "verify": "Compare decisions with recorded ones.",
    "version": "Show versions: stowplan, Kubernetes, dependencies.",
    "view": "Show a cluster on a page, whoever schedules it.",
    "whatif": "Try changes of a cluster, and tell what comes of them.",
}
"""The first line of each command's help, so that `stowplan --help` need not load the commands."""


_SECTIONS: Final = {
    "A cluster in this process": ("up", "node", "apiserver", "controllers", "kubelets"),
    "Why pods are where they are, on any cluster": ("explain", "pending", "top", "view", "shadow"),
    "Will it fit, what if": ("fit", "whatif", "capacity", "plan", "snapshot"),
    "Days of a cluster": ("simulate", "compare", "sweep", "record", "replay"),
    "In place of kube-scheduler": ("run", "config", "doctor"),
    "About stowplan": ("demo", "verify", "bench", "chaos", "fuzz", "version", "man", "completion"),
}
"""How `stowplan --help` lists the commands: by what somebody wants to do."""


class Commands(MutableMapping[str, click.Command]):
    """Commands by name, loaded when they are asked for.

    Most of them need NumPy and take their time; `stowplan run --version` does not.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = self._places[name].partition(":")
            self._loaded[name] = getattr(import_module(module), attribute)
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._places, *self._loaded)))

    def __len__(self) -> int:
        return len(self._places.keys() | self._loaded.keys())


class OneLineErrors(click.Group):
    """A group that reports user errors in one line: `Error: …`, exit code 1, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            place = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(f"{place}{error.strerror or error}") from None
        except ValueError as error:
            if not isinstance(error, _user_errors()):
                raise
            raise click.ClickException(" ".join(str(error).split())) from None


class Program(OneLineErrors):
    """The group of all commands: lists them by their summaries, without loading them."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = {name for names in _SECTIONS.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in listed)
        width = max(map(len, self.list_commands(ctx)))
        for heading, names in {**_SECTIONS, "Others": others}.items():
            if names:
                with formatter.section(heading):
                    formatter.write_dl([(name.ljust(width), self._summary(name)) for name in names])

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
    from stowplan.framework.status import ProfileError
    from stowplan.recording.files import RecordingError
    from stowplan.snapshot.files import SnapshotError

    return ConfigError, DecodeError, ProfileError, RecordingError, SnapshotError


@click.group(
    "stowplan",
    cls=Program,
    commands=Commands(_PLACES),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, package_name="stowplan", message="stowplan %(version)s")
def stowplan() -> None:
    """A Kubernetes scheduler, and a cluster in one process."""


def main() -> None:
    """The console script."""
    stowplan()
