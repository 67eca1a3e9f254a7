"""Definitions of custom kinds that `stowplan up --with` acts on, for clusters where nobody installed others.

They have the fields that the controllers here act on, under the names of the projects' own definitions.
"""

from collections.abc import Collection, Iterable, Iterator
from importlib.resources import files
from typing import Final

from stowplan.api.catalogue import CUSTOM_RESOURCE_DEFINITIONS
from stowplan.api.requests import Json
from stowplan.gocompat.yamltext import load_yaml_documents
from stowplan.localcluster.objects.addons import AddOn
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.writer import WriteContext, WritingComponent

_KUBECTL: Final = WriteContext(WritingComponent("system:apiserver"), "kubectl")
"""kubectl's field manager: a project's own definition, applied later, replaces ours without a conflict."""


def define_missing_kinds(
    store: Store, add_ons: Collection[AddOn], defined_elsewhere: Iterable[object] = ()
) -> None:
    """Define the kinds of some projects, except those that are defined or are about to be."""
    others = set(defined_elsewhere)
    for definition in definitions_of(add_ons):
        name = definition["metadata"]["name"]
        if name not in others and store.find(CUSTOM_RESOURCE_DEFINITIONS, "", name) is None:
            store.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, _KUBECTL)


def definitions_of(add_ons: Collection[AddOn]) -> Iterator[Json]:
    """Our CustomResourceDefinitions of some projects."""
    for add_on in AddOn:
        if add_on in add_ons:
            text = files(__name__).joinpath(f"{add_on}.yaml").read_text(encoding="utf-8")
            yield from load_yaml_documents(text)
