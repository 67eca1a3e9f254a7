"""Options common to commands that simulate: cluster, configuration, seed, and the form of the answer."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.cli.explain.explain import Configuration, connect
from stowplan.cli.options import gates_options, plugins_option
from stowplan.cli.output import page_option, say, show
from stowplan.cli.values import AtLeast

if TYPE_CHECKING:
    from stowplan.api.meta import Object
    from stowplan.client.http import HttpClient
    from stowplan.explain.report import Report
    from stowplan.scheduler.settings import Settings
    from stowplan.simulate import Cluster
    from stowplan.simulate.creation.manifests import Manifests
    from stowplan.simulate.snapshot import Snapshot

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_AGENT: Final = "stowplan-simulate"
_KUBECONFIG: Final = "kind: Config"
_HEAD: Final = 4096


@dataclass(frozen=True, slots=True)
class Simulation:
    """Subject of a question, and the form of its answer."""

    kubeconfig: Path | None
    context: str
    files: tuple[Path, ...]
    configuration: Configuration
    seed: int
    output: str
    page: Path | None

    @property
    def is_live(self) -> bool:
        """True if the cluster is read from an API server."""
        return not self.files

    @property
    def names_a_cluster(self) -> bool:
        """True if an option says which cluster is meant."""
        return bool(self.files or self.kubeconfig or self.context)

    def settings(self) -> "Settings":
        """The configuration that decides; mistakes are reported in one line."""
        from stowplan.cli.explain.offline import scheduler_settings

        return scheduler_settings(*self.configuration)

    def settings_for(self, objects: "Iterable[Object]", manifests: "Manifests | None" = None) -> "Settings":
        """The same for a cluster of these objects: pod groups in it or in manifests are honoured."""
        from stowplan.cli.explain.offline import settings_with_groups

        settings, notes = settings_with_groups(self.configuration, objects, manifests)
        for note in notes:
            say(f"note: {note}", err=True)
        return settings

    def snapshot(self) -> "Snapshot":
        """The cluster as it is, from wherever it comes; what is missing is noted on standard error."""
        from stowplan.cli.explain.offline import read_dump

        found = read_dump(self.files) if self.files else asyncio.run(self._listed())
        for note in found.notes:
            say(f"note: {note}", err=True)
        return found

    def cluster(self, snapshot: "Snapshot | None" = None, manifests: "Manifests | None" = None) -> "Cluster":
        """The cluster, ready to be changed. Pod groups in it or in manifests are honoured."""
        from stowplan.cli.progress import elapsed
        from stowplan.simulate import Cluster

        self.settings()
        snapshot = self.snapshot() if snapshot is None else snapshot
        settings = self.settings_for(snapshot.objects, manifests)
        with elapsed("building the table"):
            return Cluster.load(snapshot, settings=settings, seed=self.seed)

    async def read_again(self, client: "HttpClient", address: str) -> "Cluster":
        """The cluster of an API server as it is now."""
        from stowplan.cli.explain.offline import read_lists
        from stowplan.simulate import Cluster

        snapshot = await read_lists(client, address)
        return Cluster.load(snapshot, settings=self.settings_for(snapshot.objects), seed=self.seed)

    async def _listed(self) -> "Snapshot":
        from stowplan.cli.explain.offline import read_lists

        async with connect(self.kubeconfig, self.context, _AGENT) as (client, address, _):
            return await read_lists(client, address)

    def show(self, report: "Report") -> None:
        """Print the answer in the form that was asked for, and write the page."""
        show(report, form=self.output, page=self.page)


def simulation_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every question has; the command is given one argument for them, `simulation`."""

    @wraps(command)
    def with_simulation(
        kubeconfig: Path | None,
        context: str,
        files: tuple[Path, ...],
        config: Path | None,
        gates: FeatureGates | None,
        plugins: tuple[str, ...],
        seed: int,
        output: str,
        as_json: bool,
        page: Path | None,
        **others: Any,
    ) -> Any:
        asked = Simulation(
            kubeconfig,
            context,
            files,
            Configuration(config, gates, plugins),
            seed,
            "json" if as_json else output,
            page,
        )
        return command(simulation=_live(asked), **others)

    decorated: Callable[..., Any] = with_simulation
    for option in reversed(
        (
            click.option(
                "--from",
                "files",
                type=click.Path(exists=True, allow_dash=True, path_type=Path),
                multiple=True,
                help="Source of the cluster: a snapshot, a dump (file, directory or tar archive of "
                "`kubectl get … -o yaml`, or -), a recording, a trace, a file of shapes, or a kubeconfig.",
            ),
            click.option("--kubeconfig", type=_FILE, help="Kubeconfig of the cluster [default: as kubectl]."),
            click.option("--context", default="", help="Context of the kubeconfig to use."),
            click.option("--config", type=_FILE, help="KubeSchedulerConfiguration of the scheduler."),
            gates_options,
            plugins_option,
            click.option(
                "--seed",
                type=AtLeast(0),
                default=0,
                show_default=True,
                help="Seed for choices between nodes with equal scores.",
            ),
            click.option(
                "-o",
                "--output",
                type=click.Choice(["text", "json", "yaml"]),
                default="text",
                show_default=True,
                help="Output format.",
            ),
            click.option("--json", "as_json", is_flag=True, help="The same as -o json."),
            page_option,
        )
    ):
        decorated = option(decorated)
    return decorated


def _live(asked: Simulation) -> Simulation:
    """A kubeconfig given as the source is a cluster to be read."""
    if len(asked.files) == 1 and asked.kubeconfig is None and _is_kubeconfig(asked.files[0]):
        return replace(asked, kubeconfig=asked.files[0], files=())
    return asked


def _is_kubeconfig(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(_HEAD).decode(errors="replace")
    return any(line.strip() == _KUBECONFIG for line in head.splitlines()) and "apiVersion: v1" in head
