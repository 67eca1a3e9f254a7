"""Tables of discovery.k8s.io and networking.k8s.io."""

from collections.abc import Mapping, Sequence
from typing import Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.embedded.apiserver.tables.columns import AGE, NAME, Column, field_cell


def _addresses(slice_: Json, now: float) -> str:
    found = [address for end in slice_.get("endpoints") or () for address in end.get("addresses") or ()]
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") or "<unset>"


ENDPOINT_SLICES: Final = (
    NAME,
    Column("AddressType", field_cell("addressType", "")),
    Column(
        "Ports",
        lambda obj, now: ",".join(str(port.get("port")) for port in obj.get("ports") or ()) or "<unset>",
    ),
    Column("Endpoints", _addresses),
    AGE,
)

COLUMNS: Final[Mapping[Resource, Sequence[Column]]] = {
    catalogue.ENDPOINT_SLICES: ENDPOINT_SLICES,
}
