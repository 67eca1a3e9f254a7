"""`stowplan capacity`: how many sets of a mix fit, and the cheapest nodes for them."""

from pathlib import Path
from typing import Final

import click

from stowplan.cli.progress import elapsed
from stowplan.cli.simulate.simulation import Simulation, simulation_options
from stowplan.cli.values import AtLeast

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("capacity")
@click.option("--mix", type=_FILE, required=True, help="Templates with counts or proportions.")
@click.option("--shapes", type=_FILE, help="Node types with prices: find the cheapest nodes for the mix.")
@click.option(
    "--sets", type=AtLeast(1), help="Number of sets [default: with --shapes 1, else as many as fit]."
)
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace for objects without one."
)
@simulation_options
def capacity(
    mix: Path, shapes: Path | None, sets: int | None, namespace: str, simulation: Simulation
) -> None:
    """Count how many sets of a mix of pods fit.

    A set has a number of pods of each template. Sets are placed one after the other until one is incomplete,
    and the limiting resource or constraint is shown. With --shapes it finds the nodes to buy: combinations of
    node types are tried from the cheapest up, until the scheduler can place everything. These are all nodes,
    or, with a cluster (--from, --kubeconfig, --context), the nodes that it needs in addition.

    \b
      stowplan capacity --mix mix.yaml --from cluster.snap
      stowplan capacity --mix mix.yaml --shapes catalogue.yaml --sets 40
      stowplan capacity --mix mix.yaml --shapes catalogue.yaml --sets 40 --from cluster.snap
    """
    from stowplan.simulate.capacity import cheapest, read_catalogue, read_mix, report_of, sets_that_fit
    from stowplan.simulate.cheapest import report_of_cheapest

    wanted = read_mix(mix, namespace)
    if shapes is None:
        cluster = simulation.cluster(manifests=wanted.all_manifests)
        with elapsed("placing sets"):
            found = sets_that_fit(cluster, wanted, sets)
        simulation.show(report_of(found))
        if sets is not None and found.sets < sets:
            raise SystemExit(1)
        return
    types = read_catalogue(shapes)
    there = simulation.cluster(manifests=wanted.all_manifests) if simulation.names_a_cluster else None
    settings = simulation.settings_for((), wanted.all_manifests) if there is None else there.settings
    with elapsed("looking for the cheapest nodes"):
        best = cheapest(types, wanted, sets or 1, settings=settings, seed=simulation.seed, cluster=there)
    simulation.show(report_of_cheapest(best))
    if not best.fits:
        raise SystemExit(1)
