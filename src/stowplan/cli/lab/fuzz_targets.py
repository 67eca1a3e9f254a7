"""`stowplan lab fuzz --target` and `--openapi`: arbitrary bytes for parsers, requests for the API server."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import click

from stowplan.cli.output import say
from stowplan.cli.progress import Progress
from stowplan.cli.values import AtLeast
from stowplan.lab.fuzz.openapi import is_alive, run_openapi, serving
from stowplan.lab.fuzz.targets import TARGETS, FuzzTarget
from stowplan.lab.fuzz.targets.guided import guided_campaign
from stowplan.lab.fuzz.targets.mutation import TargetFinding, TargetRun, campaign, tried
from stowplan.lab.fuzz.targets.target import is_installed

F = TypeVar("F", bound=Callable[..., Any])
ALL = "all"
_EXAMPLES = 10
"""Requests of an operation in a round, of each sort."""
_SECONDS, _INPUT, _RANDOM = "fuzz seconds", "fuzz input", "fuzz random seed"


def target_options(command: F) -> F:
    """Add the options of campaigns against parsers to the command."""
    for option in (
        click.option(
            "--input",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            callback=_kept(_INPUT),
            is_eager=True,
            expose_value=False,
            help="With --target: feed this file only.",
        ),
        click.option(
            "--random-seed",
            type=AtLeast(0),
            default=0,
            show_default=True,
            callback=_kept(_RANDOM),
            is_eager=True,
            expose_value=False,
            help="With --target or --openapi: seed of the inputs.",
        ),
        click.option(
            "--seconds",
            type=AtLeast(1),
            default=60,
            show_default=True,
            callback=_kept(_SECONDS),
            is_eager=True,
            expose_value=False,
            help="With --target: seconds for each target. With --openapi: seconds in total.",
        ),
        click.option(
            "--target",
            metavar="NAME",
            callback=_run,
            expose_value=False,
            help="Fuzz this parser (see --targets), or all of them, instead of the scheduler. With atheris "
            "installed (pip install 'stowplan[fuzz]') inputs are chosen by coverage.",
        ),
        click.option(
            "--openapi",
            metavar="GROUP",
            callback=_run_openapi,
            expose_value=False,
            help="Send requests to an API server in this process, made from its OpenAPI document of this "
            "group and version (api/v1, apis/apps/v1), or of all. Needs pip install 'stowplan[fuzz]'.",
        ),
        click.option(
            "--targets", is_flag=True, callback=_list, expose_value=False, help="List the parsers and exit."
        ),
    ):
        command = option(command)
    return command


def _kept(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        ctx.meta[key] = value

    return keep


def _list(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value:
        return
    width = max(map(len, TARGETS))
    for target in TARGETS.values():
        missing = f" (not installed: {', '.join(target.missing)})" if target.missing else ""
        say(f"{target.name:{width}}  {target.about}; compared with {target.oracle}{missing}")
    ctx.exit()


def _run(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    chosen = list(TARGETS.values()) if value == ALL else [TARGETS[value]] if value in TARGETS else []
    if not chosen:
        known = ", ".join((ALL, *TARGETS))
        raise click.ClickException(f"--target: expected one of {known}; got {value!r}")
    path: Path | None = ctx.meta[_INPUT]
    if path is not None:
        _feed(chosen, path)
        ctx.exit()
    failed = False
    for target in chosen:
        run = _campaign(target, ctx.meta[_SECONDS], ctx.meta[_RANDOM])
        for finding in run.findings:
            say(f"{finding}\n  written to {_written(finding)}")
        how = "guided by coverage" if run.guided else "guided by outcome"
        counts = f"{run.executions:,} inputs, {run.outcomes:,} kept, {how}"
        say(f"{target.name}: {counts}, {len(run.findings):,} findings")
        failed = failed or bool(run.findings)
    ctx.exit(int(failed))


def _run_openapi(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    if not is_installed("schemathesis"):
        raise click.ClickException("--openapi: needs schemathesis: pip install 'stowplan[fuzz]'")
    with serving() as server:
        documents = server.documents()
        if value != ALL and value not in documents:
            known = ", ".join((ALL, *documents))
            raise click.ClickException(f"--openapi: expected one of {known}; got {value!r}")
        chosen = [document for place, document in documents.items() if value in (ALL, place)]
        with Progress("running", unit="operations") as progress:
            run = run_openapi(
                server,
                chosen,
                seconds=ctx.meta[_SECONDS],
                examples=_EXAMPLES,
                seed=ctx.meta[_RANDOM],
                show=lambda label: progress.advance(detail=label),
            )
        is_alive(server, run)
    for finding in run.findings:
        say(str(finding))
    codes = ", ".join(f"{count:,} × {code}" for code, count in sorted(run.codes.items()))
    counts = f"{run.operations:,} operations, {run.requests:,} requests ({codes})"
    say(f"{value}: {counts}, {len(run.findings):,} findings")
    ctx.exit(int(bool(run.findings)))


def _campaign(target: FuzzTarget, seconds: int, seed: int) -> TargetRun:
    if is_installed("atheris"):
        try:
            return guided_campaign(target, seconds, seed)
        except RuntimeError as error:
            raise click.ClickException(str(error)) from None
    with Progress(f"fuzzing {target.name}", unit="inputs") as progress:
        return campaign(target, seconds, Random(seed), lambda run: progress.advance(1000))


def _feed(targets: list[FuzzTarget], path: Path) -> None:
    """Feed one file to each target: how a finding is looked at again."""
    broken: list[TargetFinding] = []
    for target in targets:
        outcome, finding = tried(target, path.read_bytes())
        say(f"{target.name}: {outcome}" if finding is None else str(finding))
        broken += [] if finding is None else [finding]
    if broken:
        raise SystemExit(1)


def _written(finding: TargetFinding) -> Path:
    """Write the input of a finding to the working directory."""
    number = 1
    while (path := Path(f"finding-{finding.target}-{number}")).exists():
        number += 1
    path.write_bytes(finding.data)
    return path
