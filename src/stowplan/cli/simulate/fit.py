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
    help="Manifest of the workload to place; or -.",
)
@click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace for objects without one."
)
@click.option("--replicas", type=AtLeast(0), help="Number of replicas [default: as in the manifest].")
@click.option("--max", "as_many", is_flag=True, help="Count how many replicas fit.")
@click.option("--preempt", is_flag=True, help="Let pods evict others of lower priority.")
@click.option("--pending-first", is_flag=True, help="Place the cluster's pending pods first.")
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
    """Check whether a workload fits, and where it would go.

    Pods are placed one after the other by the scheduler's engine, with the default profile or that of
    --config, on a copy of the cluster in memory. Nothing is written. A Deployment, StatefulSet, ReplicaSet,
    Job, CronJob or DaemonSet stands for its pods, which are placed in addition to existing ones. Exit code 1
    if it does not fit.

    \b
      stowplan fit -f app.yaml
      stowplan fit -f app.yaml --replicas 30 --from cluster.snap
      stowplan fit -f app.yaml --max --json
    """
    from stowplan.simulate.creation.manifests import read_manifests
    from stowplan.simulate.fit import fit as placed
    from stowplan.simulate.fit import fit_max, report_of

    if as_many and (replicas is not None or preempt):
        other = "--preempt" if preempt else "--replicas"
        raise click.UsageError(f"--max counts replicas that fit without evictions: expected no {other}")
    found = read_manifests(manifests, namespace)
    for note in found.notes:
        say(f"note: {note}", err=True)
    if not found.workloads:
        raise click.ClickException(f"{manifests[0]}: expected a pod or a workload")
    if as_many and (len(found.workloads) > 1 or found.workloads[0].kind == "DaemonSet"):
        titles = ", ".join(one.title for one in found.workloads)
        hint = "stowplan capacity counts sets of several"
        raise click.ClickException(f"--max: expected one workload with replicas, got {titles}; {hint}")
    snapshot = simulation.snapshot()
    cluster = simulation.cluster(snapshot, found)
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
