"""The command line: one command, `stowplan`, put together in `main`; a module per sub-command."""
