"""Commands of stowplan in processes that are forked from one that has loaded its modules.

Most processes of the tests are `stowplan run`, `up` and `apiserver`, which spend two thirds of their CPU on
importing. `install` replaces `subprocess.Popen` by a class that has `python -c "from stowplan…"` forked
instead: a process with its own id, signals, files and exit code, which the caller waits for as for any child.
All other commands (`python -m stowplan`, the console script, scripts that look at imports) are executed as
ever, and so are these under coverage and in `make test-long`.
"""

import ctypes
import gc
import json
import os
import socket
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any, Final

_MODULES: Final = (
    "stowplan.cli.main",
    "stowplan.cli.hosts.apiserver",
    "stowplan.cli.hosts.run",
    "stowplan.cli.hosts.up",
    "stowplan.server.process",
    "stowplan.server.startup",
)
_SET_CHILD_SUBREAPER: Final = 36
_REQUEST: Final = 1 << 20
"""Bytes of a request: arguments and environment."""


def serve(connection: socket.socket) -> str:
    """Fork a process for each request. Returns in these processes alone: the code they have to run."""
    for module in _MODULES:
        import_module(module)
    gc.collect()
    gc.freeze()
    while True:
        request, files, _, _ = socket.recv_fds(connection, _REQUEST, 3)
        if not request:
            os._exit(0)
        told, tells = os.pipe()
        between = os.fork()
        if between:
            os.waitpid(between, 0)
            connection.send(os.read(told, 64))
            for file in (*files, told, tells):
                os.close(file)
            continue
        # The process between ends at once, so the next one up that adopts orphans becomes the parent.
        child = os.fork()
        if child:
            os.write(tells, str(child).encode())
            os._exit(0)
        return _become(json.loads(request), files)


def _become(request: dict[str, Any], files: list[int]) -> str:
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 64)
    if request["session"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    code, *sys.argv[1:] = request["arguments"]
    return str(code)


_BEGINNING: Final = """
import socket, sys
sys.path.insert(0, {folder!r})
from preforked import serve
del sys.path[0]
code = serve(socket.socket(fileno={descriptor}))
exec(compile(code, "<string>", "exec"), {{"__name__": "__main__"}})
"""


class _Forks:
    """The process that forks, started when it is needed first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def child(self, request: dict[str, Any], files: list[int]) -> int:
        """The id of a new process, which is a child of this one."""
        with self._lock:
            connection = self._connection or self._start()
            adopt_orphans(True)
            try:
                socket.send_fds(connection, [json.dumps(request).encode()], files)
                answer = connection.recv(64)
            finally:
                adopt_orphans(False)
            return int(answer)

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _REQUEST)
        code = _BEGINNING.format(folder=str(Path(__file__).parent), descriptor=theirs.fileno())
        _EXECUTED([sys.executable, "-c", code], stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
        theirs.close()
        self._connection = ours
        return ours

    def end(self) -> None:
        if self._connection is not None:
            self._connection.close()


def adopt_orphans(adopts: bool) -> None:
    """Processes whose parent ends become children of this one, or of init as usual."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, int(adopts), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


_EXECUTED: Final = subprocess.Popen
_FORKS: Final = _Forks()


class _Popen(subprocess.Popen[Any]):
    """`subprocess.Popen`, which forks commands of stowplan and executes all others."""

    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: bool,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        startupinfo: Any,
        creationflags: int,
        shell: bool,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        *others: Any,
    ) -> None:
        environment = dict(os.environ if env is None else env)
        pipes = p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite
        if executable or preexec_fn or pass_fds or shell or not is_forked(args, environment):
            what = args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags
            super()._execute_child(*what, shell, *pipes, *others)  # type: ignore[misc]
            return
        request = {
            "arguments": [os.fspath(argument) for argument in args[2:]],
            "environment": environment,
            "folder": os.fspath(cwd or Path.cwd()),
            "session": others[5],
        }
        Path(request["folder"]).stat()
        files = [
            given if given >= 0 else number for number, given in enumerate((p2cread, c2pwrite, errwrite))
        ]
        self.pid = _FORKS.child(request, files)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


def is_forked(args: Any, environment: dict[str, str]) -> bool:
    """Is this stowplan in this Python? What Python reads from its environment must not be given anew."""
    if isinstance(args, str | bytes | os.PathLike) or len(args) < 3:
        return False
    program, option, code = args[:3]
    return (
        (program, option) == (sys.executable, "-c")
        and code.startswith("from stowplan.cli.")
        and {name: value for name, value in environment.items() if name.startswith("PYTHON")}
        == {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    )


def install() -> None:
    """Fork commands of stowplan from now on."""
    subprocess.Popen = _Popen  # type: ignore[misc]


def end() -> None:
    """The process that forks ends with its connection; processes that it forked go on."""
    _FORKS.end()
