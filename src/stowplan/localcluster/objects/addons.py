"""Projects beside Kubernetes whose objects `stowplan up --with` acts on."""

from enum import StrEnum


class AddOn(StrEnum):
    """A project by its name on the command line."""

    JOBSET = "jobset"
    LWS = "lws"
