"""Defaults by API group: what an object gets that its writer left out, set in place."""

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.admission.defaults import core, smallgroups, workloads

DEFAULTS: Final[Mapping[Resource, Callable[[Json], None]]] = {
    **core.DEFAULTS,
    **workloads.DEFAULTS,
    **smallgroups.DEFAULTS,
}
