"""`stowplan run`: the scheduler on a real cluster."""

from typing import TYPE_CHECKING

import click

from stowplan.run.command import main

if TYPE_CHECKING:
    from stowplan.run.startup import StartupPlan


class OwnArguments(click.Command):
    """A command that reads all of its arguments itself."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return ctx.args


@click.command("run", cls=OwnArguments, add_help_option=False)
@click.pass_context
def run(ctx: click.Context) -> None:
    """Run the scheduler in place of kube-scheduler."""
    ctx.exit(main(ctx.args, _run))


def _run(plan: "StartupPlan") -> int:
    from stowplan.run.process import run_process

    return run_process(plan)
