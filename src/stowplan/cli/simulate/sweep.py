"""`stowplan sweep`: an experiment of many simulations, here or on a Dask cluster."""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stowplan.cli.output import report_options, show
from stowplan.cli.progress import Progress
from stowplan.cli.values import AtLeast

if TYPE_CHECKING:
    from stowplan.simulate.scenario.sweep import Row, Run

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_DASK: Final = "dask://"
_CONNECT_WITHIN: Final = 30
"""Seconds that a Dask scheduler is waited for."""


@click.command("sweep")
@click.argument("experiment", type=_FILE)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    default=None,
    show_default="EXPERIMENT with .parquet",
    help="Parquet file for the results, one row per run.",
)
@click.option("--jobs", type=AtLeast(1), help="Number of concurrent runs [default: one per CPU].")
@click.option(
    "--on", metavar="dask://HOST:PORT", default="", help="Dask scheduler whose workers run the simulations."
)
@click.option("--replace", is_flag=True, help="Drop results of another experiment from the output.")
@report_options
def sweep_command(
    experiment: Path,
    output: Path | None,
    jobs: int | None,
    on: str,
    replace: bool,
    as_json: bool,
    page: Path | None,
) -> None:
    """Simulate every combination of EXPERIMENT.

    The file names scenarios, configurations, seeds and parameters. Finished runs are kept in a journal beside
    the results: an interrupted sweep continues where it stopped, and one with added seeds runs only those.
    Every row has the versions and digests of what it was made from; rows of other code, configurations or
    scenarios are not mixed with it.
    """
    from stowplan.simulate.experiments import sweep

    _expect("pyarrow", "sweep")
    if on:
        _expect("distributed", "dask")
        if not on.startswith(_DASK) or not on.removeprefix(_DASK).rpartition(":")[0]:
            raise click.ClickException(f"--on: expected dask://HOST:PORT, got {on!r}")
    with Progress("simulating", 100, "% of the runs") as progress:
        found = sweep(
            experiment,
            output=experiment.with_suffix(".parquet") if output is None else output,
            jobs=jobs or os.cpu_count() or 1,
            replace_others=replace,
            progress=lambda share: progress.reach(round(100 * share)),
            carry=partial(_on_dask, address=on) if on else None,
        )
    show(found.report, as_json=as_json, page=page)


def _expect(module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise click.ClickException(f"sweep needs {module}: pip install 'stowplan[{extra}]'")


def _on_dask(runs: "Sequence[Run]", address: str) -> "Iterator[Row]":
    """Carry out runs on the workers of a Dask scheduler, which need stowplan installed."""
    from distributed import Client, as_completed

    from stowplan.simulate.scenario.sweep import carry_out

    place = f"tcp://{address.removeprefix(_DASK)}"
    try:
        client: Any = Client(place, timeout=_CONNECT_WITHIN, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise click.ClickException(f"--on: no Dask scheduler at {address}: {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_CONNECT_WITHIN)
        except TimeoutError:
            raise click.ClickException(f"--on: the Dask scheduler at {address} has no workers") from None
        futures = [client.submit(carry_out, run, pure=False) for run in runs]
        for future in as_completed(futures, loop=client.loop):
            yield future.result()
