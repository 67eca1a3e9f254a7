"""In which form an answer is wanted: the Accept header."""

from functools import lru_cache
from typing import Final, NamedTuple

from stowplan.api.status import ApiError

OBJECT: Final = ""
TABLE: Final = "Table"
METADATA: Final = "PartialObjectMetadata"
METADATA_LIST: Final = "PartialObjectMetadataList"
DISCOVERY: Final = "APIGroupDiscoveryList"

_JSON: Final = frozenset(("application/json", "application/*", "*/*"))
_KNOWN: Final = frozenset(
    (
        (TABLE, "meta.k8s.io", "v1"),
        (TABLE, "meta.k8s.io", "v1beta1"),
        (METADATA, "meta.k8s.io", "v1"),
        (METADATA, "meta.k8s.io", "v1beta1"),
        (METADATA_LIST, "meta.k8s.io", "v1"),
        (METADATA_LIST, "meta.k8s.io", "v1beta1"),
        (DISCOVERY, "apidiscovery.k8s.io", "v2"),
        (DISCOVERY, "apidiscovery.k8s.io", "v2beta1"),
    )
)


class Wanted(NamedTuple):
    """A form and its version; the objects themselves if no form is named."""

    form: str = OBJECT
    version: str = ""


PLAIN: Final = Wanted()


@lru_cache(maxsize=256)
def wanted(accept: str) -> Wanted:
    """The first form somebody accepts that we have. Raises `ApiError` 406 if we have none of them."""
    if not accept or accept == "application/json":
        return PLAIN
    for choice in accept.split(","):
        media, *parameters = (part.strip() for part in choice.split(";"))
        if media not in _JSON:
            continue
        given = dict(parameter.partition("=")[::2] for parameter in parameters)
        form = given.get("as", OBJECT)
        if form == OBJECT:
            return PLAIN
        if (form, given.get("g", ""), given.get("v", "")) in _KNOWN:
            return Wanted(form, given["v"])
    text = "only the following media types are accepted: application/json"
    raise ApiError(406, "NotAcceptable", text)
