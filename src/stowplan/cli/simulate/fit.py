"""`stowplan fit`: will it fit, where would it go, how many more."""

from pathlib import Path

import click

from stowplan.cli.output import say
from stowplan.cli.progress import elapsed
from stowplan.cli.simulate.simulation import Simulation, simulation_options
from stowplan.cli.values import AtLeast


@click.command("fit")
@click.option(
    "-f",
    "--filename",
    "manifests",
    type=click.Path(exists=True, allow_dash=True, path_type=Path),
    multiple=True,
    required=True,
    help="Manifest of what is to be placed; or -.",
)
@click.option("-n", "--namespace", default="default", show_default=True, help="Namespace of what names none.")
@click.option("--replicas", type=AtLeast(0), help="How many replicas [default: as in the manifest].")
@click.option("--max", "as_many", is_flag=True, help="How many replicas fit at most.")
@click.option("--preempt", is_flag=True, help="Let pods evict others of lower priority.")
@click.option("--pending-first", is_flag=True, help="Place the pods first that are waiting already.")
@simulation_options
def fit(
    manifests: tuple[Path, ...],
    namespace: str,
    replicas: int | None,
    as_many: bool,
    preempt: bool,
    pending_first: bool,
    simulation: Simulation,
) -> None:
    """Tell whether a workload fits, and where it would go.

    Pods are placed one after the other by the scheduler's engine, with the default profile or that of
    --config, on a cluster in memory. Nothing is written. A Deployment, StatefulSet, ReplicaSet, Job, CronJob
    or DaemonSet stands for its pods; it is placed beside what is there already. Exit code 1 if it does not
    fit.

    \b
      stowplan fit -f app.yaml
      stowplan fit -f app.yaml --replicas 30 --from cluster.snap
      stowplan fit -f app.yaml --max --json
    """
    from stowplan.simulate.fit import fit as placed
    from stowplan.simulate.fit import fit_max, report_of
    from stowplan.simulate.manifests import read_manifests

    if as_many and (replicas is not None or preempt):
        other = "--preempt" if preempt else "--replicas"
        raise click.UsageError(f"--max counts what fits without evicting anybody: expected no {other}")
    found = read_manifests(manifests, namespace)
    for note in found.notes:
        say(f"note: {note}", err=True)
    if not found.workloads:
        raise click.ClickException(f"{manifests[0]}: expected a pod or something that makes pods")
    if as_many and (len(found.workloads) > 1 or found.workloads[0].kind == "DaemonSet"):
        titles = ", ".join(one.title for one in found.workloads)
        hint = "stowplan capacity counts sets of several"
        raise click.ClickException(f"--max: expected one workload with replicas, got {titles}; {hint}")
    snapshot = simulation.snapshot()
    cluster = simulation.cluster(snapshot)
    with elapsed("placing"):
        if pending_first:
            cluster.schedule()
        if as_many:
            result = fit_max(cluster, found, found.workloads[0], source=snapshot.source)
        else:
            result = placed(cluster, found, replicas=replicas, preempt=preempt, source=snapshot.source)
    simulation.show(report_of(result, at_most=as_many))
    if not result.fits:
        raise SystemExit(1)
