"""`stowplan run`: the scheduler on a real cluster."""

from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from stowplan.runtime.gc_tuning import resting_collector
from stowplan.server.command import main

if TYPE_CHECKING:
    from stowplan.server.startup import StartupPlan


class OwnArguments(click.Command):
    """A command that reads all of its arguments itself."""

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Its flags."""
        from stowplan.server.flags.table import GROUPS

        return [
            CompletionItem(f"--{flag.name}", help=flag.help)
            for group in GROUPS
            for flag in group.flags
            if not flag.deprecated and f"--{flag.name}".startswith(incomplete)
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return ctx.args


@click.command("run", cls=OwnArguments, add_help_option=False)
@click.pass_context
def run(ctx: click.Context) -> None:
    """Run the scheduler in place of kube-scheduler."""
    ctx.exit(main(ctx.args, _run))


def _run(plan: "StartupPlan") -> int:
    with resting_collector():
        from stowplan.server.process import run_process

        questions = None
        if plan.options.page:
            # Loaded now: a question would hold the scheduling loop while it is loaded.
            from stowplan.simulate.questions import ForkedQuestions

            questions = ForkedQuestions()
            questions.load()
    return run_process(plan, questions=questions)
