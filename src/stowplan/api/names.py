"""The syntax of names: label keys and values, resource names. Each check gives the problems it finds.

`closest` is for those that nothing has: what was probably meant.
"""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

from stowplan.gocompat.caching import cached_by_text

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = rf"({_NAME})?"
_SUBDOMAIN_PROBLEM = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_NAME_PROBLEM = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_PROBLEM = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '{_VALUE}')"
)
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_PROBLEM = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    f"'{_LABEL}')"
)
_SERVICE = r"[a-z]([-a-z0-9]*[a-z0-9])?"
_SERVICE_PROBLEM = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
    f"validation is '{_SERVICE}')"
)
_CONFIG_KEY = r"[-._a-zA-Z0-9]+"
_CONFIG_KEY_PROBLEM = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
    f"'KEY_NAME',  or 'key-name', regex used for validation is '{_CONFIG_KEY}')"
)
_HEADER = r"[-A-Za-z0-9]+"
_SIMILAR = 0.75
"""Share of equal letters from which two names count as one with a typo."""
_BEGINS = 3
"""Letters from which a name counts as the beginning of another."""
_NATIVE_DOMAIN = "kubernetes.io/"
_QUOTA_PREFIX = "requests."


_PLAIN_KEY = re.compile(rf"(?:(?={_SUBDOMAIN}/)[^/]{{1,253}}/)?(?=.{{1,63}}$){_NAME}", re.ASCII)
_PLAIN_VALUE = re.compile(_VALUE, re.ASCII)
_PLAIN_SUBDOMAIN = re.compile(_SUBDOMAIN.replace("(", "(?:"), re.ASCII)


@cached_by_text(4096)
def is_label_key(key: str) -> bool:
    """True if a label key is valid."""
    return _PLAIN_KEY.fullmatch(key) is not None


def label_key_problems(key: str) -> list[str]:
    """Problems of a label key (`name` or `prefix/name`); also the syntax of resource names."""
    if is_label_key(key):
        return []
    prefix, slash, name = key.partition("/")
    if "/" in name:
        return [
            f"a valid label key {_NAME_PROBLEM} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    problems: list[str] = []
    if not slash:
        name = prefix
    elif not prefix:
        problems.append("prefix part must be non-empty")
    else:
        problems += [
            f"prefix part {problem.replace('characters', 'bytes', 1) if 'no more' in problem else problem}"
            for problem in subdomain_problems(prefix)
        ]
    if not name:
        problems.append("name part must be non-empty")
    elif _bytes(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_NAME, name):
        problems.append(f"name part {_NAME_PROBLEM}")
    return problems


def label_value_problems(value: str) -> list[str]:
    """Problems of a label value."""
    if len(value) <= 63 and _PLAIN_VALUE.fullmatch(value):
        return []
    problems = ["must be no more than 63 bytes"] if _bytes(value) > 63 else []
    return problems if re.fullmatch(_VALUE, value) else [*problems, _VALUE_PROBLEM]


def is_extended_resource(name: str) -> bool:
    """True if a resource is an extended one: `domain/name` outside kubernetes.io."""
    if "/" not in name or _NATIVE_DOMAIN in name or name.startswith(_QUOTA_PREFIX):
        return False
    return not label_key_problems(_QUOTA_PREFIX + name)


def subdomain_problems(value: str) -> list[str]:
    """Problems of the name of most objects: dots are allowed in it."""
    if len(value) <= 253 and _PLAIN_SUBDOMAIN.fullmatch(value):
        return []
    problems = ["must be no more than 253 characters"] if _bytes(value) > 253 else []
    return problems if re.fullmatch(_SUBDOMAIN, value) else [*problems, _SUBDOMAIN_PROBLEM]


def dns_label_problems(value: str) -> list[str]:
    """Problems of a name that has to be a single label: a namespace's, a container's."""
    problems = ["must be no more than 63 characters"] if _bytes(value) > 63 else []
    if re.fullmatch(_LABEL, value):
        return problems
    dotted = re.fullmatch(_SUBDOMAIN, value) is not None
    return [*problems, "must not contain dots" if dotted else _LABEL_PROBLEM]


def service_name_problems(value: str) -> list[str]:
    """Problems of a service's name, which has to begin with a letter."""
    problems = ["must be no more than 63 characters"] if _bytes(value) > 63 else []
    return problems if re.fullmatch(_SERVICE, value) else [*problems, _SERVICE_PROBLEM]


def path_segment_problems(value: str) -> list[str]:
    """Problems of a name that may be anything that fits into a path, such as a role's."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in "/%" if part in value]


def config_key_problems(value: str) -> list[str]:
    """Problems of a key in the data of a ConfigMap or Secret."""
    problems = ["must be no more than 253 characters"] if _bytes(value) > 253 else []
    if not re.fullmatch(_CONFIG_KEY, value):
        problems.append(_CONFIG_KEY_PROBLEM)
    if value in (".", ".."):
        problems.append(f"must not be '{value}'")
    elif value.startswith(".."):
        problems.append("must not start with '..'")
    return problems


def port_name_problems(value: str) -> list[str]:
    """Problems of the name of a container's port."""
    problems = ["must be no more than 15 characters"] if _bytes(value) > 15 else []
    if not re.fullmatch(r"[-a-z0-9]+", value):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        problems.append("must contain at least one letter (a-z)")
    if "--" in value:
        problems.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return problems


def http_header_problems(value: str) -> list[str]:
    """Problems of the name of an HTTP header."""
    if re.fullmatch(_HEADER, value):
        return []
    return [
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
        f"regex used for validation is '{_HEADER}')"
    ]


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def similarity(one: str, other: str) -> float:
    """Share of equal characters of two names, in order."""
    return SequenceMatcher(None, one, other, autojunk=False).ratio()


def closest(name: str, existing: Iterable[str]) -> str:
    """The existing name that is most like one that does not exist; "" if none is like it."""
    known = {one.lower(): one for one in sorted(existing)}
    found = get_close_matches(name.lower(), known, n=1, cutoff=_SIMILAR)
    if not found and len(name) >= _BEGINS:
        found = [one for one in known if one.startswith(name.lower()) or name.lower().startswith(one + "-")]
    return known[found[0]] if found else ""
