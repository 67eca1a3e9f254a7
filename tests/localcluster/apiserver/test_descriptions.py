"""`kubectl explain`: every field of every kind is described, and every description is used."""

from fnmatch import fnmatchcase
from importlib.resources import files

from stowplan.localcluster.apiserver import openapi
from stowplan.localcluster.apiserver.openapi.documents import described
from stowplan.localcluster.schema import the_schema


def test_every_kind_and_every_field_is_described() -> None:
    types = list(the_schema().types.values())
    kinds = [kind.full_name for kind in types if kind.is_kind and not described(kind.name)]
    fields = [f"{each.full_name}.{field}" for each in types for field in each.fields]
    missing = [name for name in fields if not described(*name.rsplit(".", 2)[1:])]
    assert (kinds, missing) == ([], [])


def test_every_description_is_of_something() -> None:
    names = {each.name: each.fields for each in the_schema().types.values()}
    fields = {(each.name, field) for each in the_schema().types.values() for field in each.fields}
    text = files(openapi).joinpath("descriptions.txt").read_text("utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    idle = []
    for line in lines:
        name, _, sentence = line.partition(" ")
        pattern, dot, field = name.partition(".")
        known = any(fnmatchcase(each, pattern) and found == field for each, found in fields)
        if not (known if dot else pattern in names) or not sentence.endswith("."):
            idle.append(line)
    assert idle == []


def test_the_longest_pattern_describes_a_field() -> None:
    assert described("EphemeralContainer", "name") == described("Container", "name")
    assert described("LocalObjectReference", "name") != described("Container", "name")
    assert described("PodCondition", "status") != described("Pod", "status")
    assert described("Pod", "nothing") == ""
