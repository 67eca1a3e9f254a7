"""The one error the outside sees of this package."""

import errno


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one clear line.

    `stage` says how far it came: `read` (the file), `decode` (parsing and strict decoding), `validation`
    (values), or `build` (putting extenders and profiles together).
    """

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage
        self.message = message


def describe_os_error(error: OSError, path: str) -> str:
    """Why a file could not be read, such as `open /x: no such file or directory`."""
    action = "read" if error.errno == errno.EISDIR else "open"
    return f"{action} {path}: {(error.strerror or str(error)).lower()}"
