"""The target for CEL: expressions over devices are parsed, checked, estimated and evaluated."""

import re
from typing import Any, Final

from stowplan.api.cel.devices import FEATURES_1_36, FEATURES_1_37, SelectorError, compile_selector, device_of
from stowplan.lab.fuzz.targets.target import FuzzTarget, Violation, expect, oracle, refused

_DEVICES: Final = tuple(
    device_of(
        "d",
        {
            "attributes": {
                "s": {"string": text},
                "i": {"int": len(text)},
                "b": {"bool": not text},
                "v": {"version": "1.2.3"},
            },
            "capacity": {"c": {"value": "10Gi"}},
        },
    )
    for text in ("a100", "")
)
_COMMON: Final = re.compile(r"[0-9a-z\s+*/%<>=!&|?:()\[\],'-]{1,60}")
"""Expressions that cel-python evaluates by the same rules: numbers, short texts, lists and operators."""


def _check_cel(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    outcomes: list[str] = []
    for features in (FEATURES_1_36, FEATURES_1_37):
        try:
            compiled = compile_selector(text, features)
        except SelectorError as error:
            outcomes.append(refused(error))
            continue
        for device in _DEVICES:
            match = compiled.match(device)
            if match.error is None and match.cost is not None and match.cost > compiled.max_cost:
                raise Violation(
                    "nothing costs more than was estimated", f"{match.cost}, not {compiled.max_cost}"
                )
            expect("an evaluation can be repeated", compiled.match(device), match)
            outcomes.append(f"{match.matched} {match.error and re.sub('[^a-z ]', '', match.error)[:30]}")
        if match.error is None and "device" not in text:
            _compare_with_celpy(text, match.matched)
    return "; ".join(dict.fromkeys(outcomes))[:200]


def _compare_with_celpy(text: str, matched: bool) -> None:
    """A constant expression has the value that cel-python gives it, if it understands it."""
    celpy = oracle("celpy")
    if celpy is None or not _COMMON.fullmatch(text):
        return
    try:
        environment = celpy.Environment()
        value: Any = environment.program(environment.compile(text)).evaluate({})
    except Exception:  # noqa: BLE001 - refuses input it does not understand with any exception
        return
    if isinstance(value, int) and type(value).__name__ == "BoolType":
        expect("the value is that of cel-python", matched, bool(value))


EXPRESSIONS: Final = (
    FuzzTarget(
        "cel",
        "CEL selectors of devices: parsing, checking, estimates, evaluation",
        _check_cel,
        (
            b"device.attributes['d'].s == 'a100' && device.attributes['d'].i > 2",
            b"device.capacity['d'].c.compareTo(quantity('5Gi')) >= 0",
            b"device.driver.matches('^[a-z]+$') || !has(device.attributes['d'].x)",
            b"[1, 2, 3].all(x, x in [3, 2, 1]) ? 1 + 2 * 3 == 7 : false",
            b"{'a': 1}.exists(k, k.startsWith('a'))",
            b"device.attributes['d'].v.isGreaterThan(semver('1.0.0'))",
            b"'%s %d'.format(['a', 1]).split(' ').map(x, size(x)).sum() == 2",
            b"cel.bind(x, device.attributes['d'].?s, x.hasValue()) && duration('1h') > duration('1s')",
            b"'aXbX'.replace('X', '-', 1).lowerAscii().indexOf('-') == 1 && -7 / 2 == -3 && 7 % -3 == 1",
            b"int('5') == 5 && string(1.5) == '1.5' && b'a' != b'b' && 1u < 2u && type(1) == int",
        ),
        (
            b"(",
            b")",
            b"[",
            b"]",
            b"{",
            b"}",
            b".",
            b",",
            b"?",
            b":",
            b"==",
            b"!=",
            b"<=",
            b"&&",
            b"||",
            b"!",
            b"-",
            b"+",
            b"in ",
            b"'a'",
            b"1",
            b"1u",
            b"1.5",
            b"9223372036854775807",
            b"-9223372036854775808",
            b"device",
            b".all(x, ",
            b".map(x, ",
            b".exists_one(x, ",
            b".filter(x, ",
            b"size(",
            b"int(",
            b"string(",
            b"double(",
            b"timestamp('2026-01-01T00:00:00Z')",
            b"duration('1s')",
            b"quantity('1')",
            b".matches('a*')",
            b".format([",
            b"lists.range(9)",
            b"optional.none()",
            b".orValue(",
            b"null",
            b"true",
            b"false",
            b"dyn(",
            b"ip('::1')",
            b"url('http://a/')",
            b".split('')",
            b".substring(1)",
            b".charAt(",
            b".join('')",
            b".sort()",
            b".slice(0, 1)",
            b".flatten()",
            b".distinct()",
            b"math.greatest(",
            b".reverse()",
        ),
        oracle="cel-python on constant expressions, and its own estimate of the cost",
        modules=("celpy",),
    ),
)
