"""The syntax of names: label keys and values, resource names. Each check gives the problems it finds."""

import re

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
_NATIVE_DOMAIN = "kubernetes.io/"
_QUOTA_PREFIX = "requests."


def label_key_problems(key: str) -> list[str]:
    """What is wrong with a label key (`name` or `prefix/name`); also the syntax of resource names."""
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
        problems += [f"prefix part {problem}" for problem in _subdomain_problems(prefix)]
    if not name:
        problems.append("name part must be non-empty")
    elif _bytes(name) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_NAME, name):
        problems.append(f"name part {_NAME_PROBLEM}")
    return problems


def label_value_problems(value: str) -> list[str]:
    """What is wrong with a label's value."""
    problems = ["must be no more than 63 bytes"] if _bytes(value) > 63 else []
    return problems if re.fullmatch(_VALUE, value) else [*problems, _VALUE_PROBLEM]


def is_extended_resource(name: str) -> bool:
    """Whether a resource is one that a cluster adds for itself: `domain/name` outside kubernetes.io."""
    if "/" not in name or _NATIVE_DOMAIN in name or name.startswith(_QUOTA_PREFIX):
        return False
    return not label_key_problems(_QUOTA_PREFIX + name)


def _subdomain_problems(value: str) -> list[str]:
    problems = ["must be no more than 253 bytes"] if _bytes(value) > 253 else []
    return problems if re.fullmatch(_SUBDOMAIN, value) else [*problems, _SUBDOMAIN_PROBLEM]


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
