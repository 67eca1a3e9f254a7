"""Versions of Kubernetes as releases and feature gates name them: major and minor."""

from typing import NamedTuple


class Version(NamedTuple):
    """Major and minor version."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @classmethod
    def parse(cls, text: str) -> "Version":
        """The version of `1.37`, `v1.37.0-rc.1` and the like. Raises ValueError."""
        major, dot, rest = text.removeprefix("v").partition(".")
        minor = rest.partition(".")[0]
        if not dot or not major.isdecimal() or not minor.isdecimal():
            raise ValueError(f"{text!r} is not a version, expected major.minor such as 1.36")
        return cls(int(major), int(minor))

    @property
    def previous(self) -> "Version":
        return Version(self.major, max(self.minor - 1, 0))
