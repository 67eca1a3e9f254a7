"""`stowplan whatif`: changes of a cluster tried in memory, and their effects."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from stowplan.cli.progress import elapsed
from stowplan.cli.simulate.simulation import Simulation, simulation_options
from stowplan.cli.values import AtLeast, Word

if TYPE_CHECKING:
    from stowplan.simulate.changes import Change

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
_NAMESPACE: Final = click.option(
    "-n", "--namespace", default="default", show_default=True, help="Namespace of workloads."
)
_NODES: Final = "Nodes by name or label selector, such as node-7 or pool=a."


@contextmanager
def one_line() -> Iterator[None]:
    """Errors about missing objects and impossible changes, in one line."""
    from stowplan.simulate import NoSuchObjectError

    try:
        yield
    except NoSuchObjectError as error:
        raise click.ClickException(str(error)) from None


@click.group("whatif", invoke_without_command=True)
@click.option("-f", "--filename", type=_FILE, help="File of changes, applied in its order.")
@click.option("--add-nodes", type=_FILE, multiple=True, help="Add nodes of a file of shapes.")
@click.option(
    "--copy-node",
    type=(str, AtLeast(1)),
    metavar="NODE COUNT",
    multiple=True,
    help="Add COUNT nodes like this one.",
)
@click.option("--label", type=(Word(), Word()), metavar="NODES KEY=VALUE", multiple=True, help="Label nodes.")
@click.option(
    "--taint", type=(Word(), Word()), metavar="NODES KEY=VALUE:EFFECT", multiple=True, help="Taint nodes."
)
@click.option("--cordon", metavar="NODES", multiple=True, help=f"Cordon nodes. {_NODES}")
@click.option("--uncordon", metavar="NODES", multiple=True, help="Uncordon nodes.")
@click.option("--remove", metavar="NODES", multiple=True, help="Remove nodes, as if they failed.")
@click.option("--delete", metavar="TYPE/NAME", multiple=True, help="Delete a workload, or a pod.")
@click.option("--apply", type=_FILE, multiple=True, help="Apply a manifest.")
@click.option(
    "--priority", type=(Word(), int), metavar="TYPE/NAME N", multiple=True, help="Change pods' priority."
)
@click.option(
    "--scale", type=(Word(), AtLeast(0)), metavar="TYPE/NAME N", multiple=True, help="Scale a workload."
)
@click.option("--drain", metavar="NODES", multiple=True, help="Drain nodes.")
@click.option("--new-config", type=_FILE, help="Place all pods again with this configuration.")
@click.option(
    "--new-plugin", metavar="MODULE:CLASS", multiple=True, help="Place all pods again with this plugin."
)
@_NAMESPACE
@simulation_options
@click.pass_context
def whatif(ctx: click.Context, /, simulation: Simulation, namespace: str, **given: Any) -> None:
    """Try changes on a copy of a cluster, and show the result.

    Shows which pods move, which stay pending and why, how full and how even the cluster is before and after,
    and which PodDisruptionBudgets are violated. Nothing is written. Changes are applied in the order of the
    options below, those of a file in its order.

    \b
      stowplan whatif --drain node-7 --from cluster.snap
      stowplan whatif --scale deployment/web 30 --taint pool=gpu gpu=true:NoSchedule
      stowplan whatif drain --selector pool=a --max-unavailable 2
      stowplan whatif rollout deployment/web
    """
    if ctx.invoked_subcommand is not None:
        if simulation.files or any(given.values()):
            raise click.UsageError(f"expected the options after `whatif {ctx.invoked_subcommand}`")
        return
    from stowplan.simulate.changes import applied_manifests, read_changes
    from stowplan.simulate.whatif import report_of, what_if

    path: Path | None = given.pop("filename")
    config, plugins = given.pop("new_config"), given.pop("new_plugin")
    changes = [*(read_changes(path) if path else ()), *_changes(given)]
    configs = [Path(one.config) for one in changes if one.config is not None]
    if config or plugins or configs:
        if len(changes) > len(configs) or len(configs) + bool(config) > 1:
            raise click.UsageError("--new-config and --new-plugin: expected no other change")
        _reconfigure(simulation, config or next(iter(configs), None), plugins)
        return
    if not changes:
        raise click.UsageError("expected a change, such as --drain node-7, or --filename")
    with one_line():
        applied = applied_manifests(changes, namespace)
    cluster = simulation.cluster(manifests=applied)
    with one_line(), elapsed("trying"):
        found = what_if(cluster, changes, namespace)
    title = ", ".join(str(next(iter(one.fields))).replace("_", " ") for one in changes)
    simulation.show(report_of(found, title))


def _changes(given: dict[str, Any]) -> list["Change"]:
    from stowplan.simulate.changes import Change, Labelling, Tainting

    made = [Change(add_nodes=str(path)) for path in given["add_nodes"]]
    made += [Change(add_nodes={node: count}) for node, count in given["copy_node"]]
    for nodes, text in given["label"]:
        key, _, value = text.partition("=")
        labels = {key.removesuffix("-"): None} if text.endswith("-") and "=" not in text else {key: value}
        made.append(Change(label=Labelling(nodes, labels)))
    made += [Change(taint=Tainting(nodes, text)) for nodes, text in given["taint"]]
    for field in ("cordon", "uncordon", "remove", "delete"):
        made += [Change(**{field: one}) for one in given[field]]
    made += [Change(apply=str(path)) for path in given["apply"]]
    made += [Change(priority={title: number}) for title, number in given["priority"]]
    made += [Change(scale={title: number}) for title, number in given["scale"]]
    drained = list(given["drain"])
    return [*made, *([Change(drain=drained)] if drained else [])]


def _reconfigure(simulation: Simulation, config: Path | None, plugins: tuple[str, ...]) -> None:
    from stowplan.cli.explain.offline import scheduler_settings
    from stowplan.simulate.whatif import reconfigured, report_of

    base = simulation.configuration
    settings = scheduler_settings(config or base.config, base.gates, (*base.plugins, *plugins))
    cluster = simulation.cluster()
    with elapsed("placing all pods anew"):
        found = reconfigured(cluster, settings, simulation.seed)
    simulation.show(report_of(found, "another configuration"))


@whatif.command("drain")
@click.argument("nodes", nargs=-1, metavar="[NODE]…")
@click.option("-l", "--selector", default="", help="Label selector of the nodes.")
@click.option(
    "--max-unavailable",
    type=AtLeast(1),
    help="Number of nodes per step; they return before the next step [default: all at once, for good].",
)
@simulation_options
def drain_command(
    nodes: tuple[str, ...], selector: str, max_unavailable: int | None, simulation: Simulation
) -> None:
    """Preview a drain, or a rolling upgrade step by step.

    Evictions respect PodDisruptionBudgets: an eviction that a budget refuses is retried as soon as the
    replacements of evicted pods have a node. With --max-unavailable, nodes are drained in steps, and those of
    one step return to service before the next step begins.
    """
    from stowplan.simulate.changes import Change, node_names, selected_nodes
    from stowplan.simulate.whatif import report_of, rolling_drain, what_if

    if not nodes and not selector:
        raise click.UsageError("expected nodes or --selector")
    cluster = simulation.cluster()
    with one_line(), elapsed("draining"):
        chosen = selected_nodes(cluster, selector, "--selector") if selector else []
        names = list(dict.fromkeys([*node_names(cluster, list(nodes)), *chosen]))
        if max_unavailable is None:
            found = what_if(cluster, [Change(drain=names)])
        else:
            found = rolling_drain(cluster, names, max_unavailable)
    simulation.show(report_of(found, f"drain {len(names)} nodes"))


@whatif.command("rollout")
@click.argument("workload", metavar="TYPE/NAME")
@click.option("-f", "--filename", type=_FILE, help="Manifest to roll out [default: the template as it is].")
@click.option(
    "--max-surge", default="25%", show_default=True, help="Additional pods, as a number or a percentage."
)
@click.option(
    "--max-unavailable", default="25%", show_default=True, help="Missing pods, as a number or a percentage."
)
@_NAMESPACE
@simulation_options
def rollout_command(
    workload: str,
    filename: Path | None,
    max_surge: str,
    max_unavailable: str,
    namespace: str,
    simulation: Simulation,
) -> None:
    """Preview a rollout: where new pods go, and the skew meanwhile.

    New pods are created while old ones still count for spreading; when the old ones are gone, the skew may
    exceed maxSkew. It is shown after every surge and after every termination.
    """
    from stowplan.simulate.creation.applying import kind_and_name, pods_of
    from stowplan.simulate.creation.manifests import read_manifests
    from stowplan.simulate.rollout import report_of, restarted, rolled_out, strategy_for

    for option, share in (("--max-surge", max_surge), ("--max-unavailable", max_unavailable)):
        if not share.removesuffix("%").isdecimal():
            raise click.ClickException(
                f"{option}: expected a number or a percentage such as 25%, got {share!r}"
            )
    try:
        kind, name = kind_and_name(workload)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    if kind in ("Pod", "DaemonSet", "Job", "CronJob"):
        raise click.ClickException(f"{workload}: expected a deployment, replicaset or statefulset")
    manifest = None
    if filename is not None:
        read = read_manifests([filename], namespace).workloads
        found = [one for one in read if (one.kind, one.name) == (kind, name)]
        if not found:
            raise click.ClickException(f"{filename}: expected {workload}")
        manifest = found[0]
    cluster = simulation.cluster()
    with one_line(), elapsed("rolling out"), cluster.fork():
        if manifest is None:
            count = len(pods_of(cluster, workload, namespace))
            strategy = strategy_for(count, max_surge, max_unavailable)
            result = restarted(cluster, workload, namespace, strategy)
        else:
            result = rolled_out(cluster, manifest)
    simulation.show(report_of(result))
    if not result.complete:
        raise SystemExit(1)
