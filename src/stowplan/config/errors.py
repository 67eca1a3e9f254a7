"""The one error the outside sees of this package."""


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one clear line.

    `stage` says how far it came: `read` (the file), `decode` (parsing and strict decoding), `validation`
    (values), or `build` (putting extenders and profiles together).
    """

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage
        self.message = message
