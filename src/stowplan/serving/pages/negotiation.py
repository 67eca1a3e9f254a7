"""In which form a z-page is wanted: as text for people, or as an object of some version."""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import yaml
from aiohttp import web

from stowplan.gocompat.jsontext import as_json
from stowplan.serving.pages.accepting import Clause, accepted
from stowplan.serving.pages.answers import answer

GROUP: Final = "config.k8s.io"
VERSIONS: Final = ("v1alpha1", "v1beta1")
DEPRECATED: Final = frozenset({"v1alpha1"})

JSON: Final = "application/json"
YAML: Final = "application/yaml"
TEXT: Final = "text/plain"
_OFFERED: Final = (JSON, YAML, TEXT)
_OBJECT: Final = frozenset({"as", "g", "v"})
_NOT_ACCEPTABLE: Final = f"only the following media types are accepted: {', '.join(_OFFERED)}"
_PEOPLE: Final = ("curl", "Wget", "Mozilla/5.0")
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class Form(NamedTuple):
    """A media type, and the version of the object if it is one."""

    media_type: str
    version: str = ""


def wanted_form(header: str, kind: str) -> Form | None:
    """The form an Accept header asks for, None if it is none of those there are."""
    if not header.strip():
        return Form(TEXT)
    for clause in accepted(header):
        for media_type in _OFFERED:
            if clause.matches(media_type) and (form := _form(clause, media_type, kind)) is not None:
                return form
    return None


def _form(clause: Clause, media_type: str, kind: str) -> Form | None:
    """Text is no object, and everything else has to be one that is known."""
    said = clause.parameters
    if said.get("stream") or said.get("sv"):
        return None
    if media_type == TEXT:
        return None if said.keys() & _OBJECT else Form(TEXT)
    known = said.get("as") == kind and said.get("g") == GROUP and said.get("v") in VERSIONS
    return Form(media_type, said["v"]) if known else None


def object_answer(request: web.Request, form: Form, kind: str, fields: Mapping[str, Any]) -> web.Response:
    """An object in the form that is wanted."""
    whole = {"kind": kind, "apiVersion": f"{GROUP}/{form.version}", **fields}
    content_type = f"{form.media_type};g={GROUP};v={form.version};as={kind}"
    headers = {}
    if form.version in DEPRECATED:
        page = kind.lower()
        warning = f"This version of the {page} endpoint is deprecated. Please use a newer version."
        headers["Warning"] = f'299 - "{warning}"'
    return answer(_written(request, form.media_type, whole), content_type, sniffed=True, headers=headers)


def not_acceptable(request: web.Request) -> web.Response:
    """A refusal, in YAML for who wants that, in JSON for everybody else."""
    clauses = accepted(request.headers.get("Accept", ""))
    plain = (media for one in clauses for media in (JSON, YAML) if one.matches(media) and not one.parameters)
    media_type = next(plain, JSON)
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": _NOT_ACCEPTABLE,
        "reason": "NotAcceptable",
        "code": 406,
    }
    return answer(_written(request, media_type, status), media_type, status=406, sniffed=True)


def _written(request: web.Request, media_type: str, whole: Mapping[str, Any]) -> str:
    if media_type == YAML:
        return yaml.safe_dump(dict(whole), default_flow_style=False, allow_unicode=True)
    if _for_people(request):
        return json.dumps(whole, ensure_ascii=False, indent=2)
    return as_json(dict(whole)) + "\n"


def _for_people(request: web.Request) -> bool:
    """Whether somebody is going to read it: they say so, or use a tool for people."""
    asked = request.query.get("pretty", "")
    if asked:
        return asked in _TRUE
    return request.headers.get("User-Agent", "").startswith(_PEOPLE)
