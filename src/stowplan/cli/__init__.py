"""The command line: one command, `stowplan`; a module per sub-command.

`main` lists all commands by what they are for and imports one when it is used. The folders hold commands
that run something (`hosts`), explain, simulate, or test stowplan itself (`lab`). A command reads options
and prints results; the work is in the packages below, all of which it may import. Begin with `main`.
"""
