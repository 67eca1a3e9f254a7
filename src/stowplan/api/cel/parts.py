"""The parts of an expression, for people: what of a conjunction is false, and which values it looked at."""

import re
from typing import Final

from stowplan.api.cel.syntax import END, Issue, Token, tokens

_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_LOOSER: Final = frozenset(("||", "?"))
"""Operators that bind less than `&&` does."""

_MENTIONED: Final = re.compile(
    r"device\.(attributes|capacity)\s*\[\s*\??\s*([\"'])(?P<domain>[^\"']+)\2\s*\]\s*"
    r"(?:\.\s*\??\s*(?P<name>[A-Za-z_][A-Za-z0-9_]*)|\[\s*\??\s*([\"'])(?P<quoted>[^\"']+)\5\s*\])"
)


def conjuncts(expression: str) -> list[str]:
    """Conditions that must all be true: the parts between `&&`, or the expression itself."""
    issues: list[Issue] = []
    found = [token for token in tokens(expression, issues) if token.kind != END]
    if issues or not found:
        return [expression.strip()]
    inner = _without_parentheses(found)
    if inner is not found:
        return conjuncts(expression[inner[0].offset : _end(inner[-1])]) if inner else [expression.strip()]
    depth, borders = 0, [0]
    for token in found:
        depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
        if depth == 0 and token.kind in _LOOSER:
            return [expression.strip()]
        if depth == 0 and token.kind == "&&":
            borders += [token.offset, _end(token)]
    borders.append(len(expression))
    parts = [expression[begin:end].strip() for begin, end in zip(borders[::2], borders[1::2], strict=True)]
    if len(parts) == 1 or not all(parts):
        return [expression.strip()]
    return [one for part in parts for one in conjuncts(part)]


def _without_parentheses(found: list[Token]) -> list[Token]:
    """The tokens within the parentheses that enclose all of them, if they do."""
    if found[0].kind != "(" or found[-1].kind != ")":
        return found
    depth = 0
    for place, token in enumerate(found):
        depth += (token.kind in _OPENING) - (token.kind in _CLOSING)
        if depth == 0:
            return found[1:-1] if place == len(found) - 1 else found
    return found


def _end(token: Token) -> int:
    return token.offset + len(token.text)


def mentioned(expression: str) -> list[tuple[str, str, str]]:
    """References of an expression: `attributes` or `capacity`, domain and name, each once."""
    found = [
        (match[1], match["domain"], match["name"] or match["quoted"])
        for match in _MENTIONED.finditer(expression)
    ]
    return list(dict.fromkeys(found))
