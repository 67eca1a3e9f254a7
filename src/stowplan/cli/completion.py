"""`stowplan completion`: scripts that complete command lines of stowplan in a shell."""

import click
from click.shell_completion import ShellComplete, get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands in a shell.

    \b
    bash:  source <(stowplan completion bash)
    zsh:   source <(stowplan completion zsh)
    fish:  stowplan completion fish | source

    Put the line into ~/.bashrc or ~/.zshrc, or the script of fish into
    ~/.config/fish/completions/stowplan.fish.
    """
    found = get_completion_class(shell)
    assert found is not None
    # The script only; click's own `source` of bash would run bash first to look at its version.
    click.echo(ShellComplete.source(found(ctx.find_root().command, {}, "stowplan", "_STOWPLAN_COMPLETE")))
