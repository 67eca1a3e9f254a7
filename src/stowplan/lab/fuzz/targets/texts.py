"""Targets for what people write: numbers with units, selectors, JSON, YAML and regular expressions."""

import json
import re
from collections.abc import Callable
from fractions import Fraction
from math import ceil
from typing import Any, Final

import yaml

from stowplan.api import quantity
from stowplan.api.labels import SelectorError, parse_selector
from stowplan.api.quantity import Quantity, QuantityError
from stowplan.api.requests import parse_field_selector
from stowplan.gocompat import regexps
from stowplan.gocompat.durations import Duration, DurationError
from stowplan.gocompat.jsontext import Number, ObjectNode, TextError, Tree, parse_json, to_python
from stowplan.gocompat.numbers import MAX_INT64, fits_int64
from stowplan.gocompat.yamltext import to_yaml, yaml_to_json
from stowplan.lab.fuzz.targets.target import FuzzTarget, Violation, expect, oracle, refused

# Quantities

_PLAIN_QUANTITY: Final = re.compile(
    r"([+-]?)([0-9]{1,40}|[0-9]{1,20}\.[0-9]{0,20}|\.[0-9]{1,20})"
    r"(?:([numkMGTPE]|)|([KMGTPE])i|[eE]([+-]?[0-9]{1,3}))"
)
# Upstream takes a suffix without digits for zero.
_BROAD_QUANTITY: Final = re.compile(r"[+-]?[0-9]*\.?[0-9]*[eEinumkKMGTP]*[-+]?[0-9]*")
_POWERS: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = "KMGTPE"
_COMPARABLE: Final = 100
"""Exponents up to which amounts are compared exactly; the parser itself gets any."""


def _amount(text: str) -> tuple[Fraction, bool] | None:
    """A plainly written quantity as a fraction, and whether its suffix is binary; None for any other text."""
    found = _PLAIN_QUANTITY.fullmatch(text)
    if found is None:
        return None
    sign, digits, decimal, binary, exponent = found.groups()
    amount = Fraction(digits if not digits.startswith(".") else f"0{digits}")
    if binary:
        amount *= 1024 ** (_BINARY.index(binary) + 1)
    elif exponent is not None:
        if abs(int(exponent)) > _COMPARABLE:
            return None
        amount *= Fraction(10) ** int(exponent)
    elif decimal:
        amount *= Fraction(10) ** _POWERS[decimal]
    return -amount if sign == "-" else amount, bool(binary)


def _exact(found: Quantity) -> Fraction | None:
    return found.mantissa * Fraction(10) ** found.scale if abs(found.scale) <= _COMPARABLE else None


def _check_quantity(data: bytes) -> str:
    """Two quantities, one on each line: what they are, and their sum, difference and order."""
    texts = data.decode("utf-8", "replace").split("\n")[:2]
    read: list[Quantity] = []
    for text in texts:
        try:
            read.append(quantity.parse(text))
        except QuantityError as error:
            if _amount(text) is not None:
                raise Violation("a plain quantity is read", f"{text!r}: {error}") from None
            return refused(error)
        if not _BROAD_QUANTITY.fullmatch(text):
            raise Violation("what is no quantity is refused", repr(text))
        _check_amount(text, read[-1])
    if len(read) == 2:
        _check_pair(*read)
    return " ".join(f"{one.format}{one.wide}{one.text is None}" for one in read)


def _check_amount(text: str, found: Quantity) -> None:
    for value in (found.value(), found.milli_value()):
        if not fits_int64(value):
            raise Violation("values are 64-bit integers", f"{text!r}: {value}")
    try:
        again = quantity.parse(str(found))
    except QuantityError as error:
        raise Violation("what is printed can be read", f"{text!r}: {str(found)!r}: {error}") from None
    expect("what is printed is the same amount", again, found)
    expected = _amount(text)
    exact = _exact(found)
    if expected is None or exact is None:
        return
    amount, is_binary = expected
    nanos = abs(amount) * 10**9
    rounded = Fraction(ceil(nanos), 10**9)
    if is_binary and rounded > MAX_INT64:
        rounded = Fraction(MAX_INT64)
    expect(f"the amount of {text!r}", exact, -rounded if amount < 0 else rounded)


def _check_pair(left: Quantity, right: Quantity) -> None:
    order = left.cmp(right)
    expect("the order is the reverse of the reverse order", -right.cmp(left), order)
    if not order:
        expect("equal amounts have equal hashes", hash(left), hash(right))
    first, second = _exact(left), _exact(right)
    if first is None or second is None:
        return
    expect("the order is that of the amounts", order, (first > second) - (first < second))
    for name, made, wanted in (
        ("sum", left.add(right), first + second),
        ("difference", left.sub(right), first - second),
    ):
        expect(f"the {name} is exact", _exact(made), wanted)


# Durations

_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_UNITS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def _check_duration(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    try:
        found = Duration.parse(text)
    except DurationError as error:
        return refused(error)
    if not fits_int64(found.nanoseconds):
        raise Violation("a duration is a 64-bit integer", text)
    expect("what is printed is the same duration", Duration.parse(str(found)), found)
    parts = _PART.findall(text)
    exact = Fraction(0)
    for whole, fraction, unit in parts:
        size = _UNITS[unit.replace("\u00b5", "u").replace("\u03bc", "u")]
        exact += size * (int(whole or "0") + Fraction(int(fraction or "0"), 10 ** len(fraction)))
    if abs(abs(found.nanoseconds) - exact) > len(parts) + abs(exact) / 2**52:
        raise Violation("a duration is the sum of its parts", f"{text!r}: {found.nanoseconds}, not {exact}")
    return f"{len(parts)} parts"


# Selectors


def _check_label_selector(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    try:
        found = parse_selector(text)
    except SelectorError as error:
        return refused(error)
    expect("what is printed selects the same", parse_selector(str(found)), found)
    words = sorted(set(re.findall(r"[\w./-]+", text)))[:20]
    for labels in ({}, dict.fromkeys(words, ""), dict(zip(words, reversed(words), strict=True))):
        wanted = all(demand.matches(labels) for demand in found.requirements)
        expect("a selector matches what all of its requirements match", found.matches(labels), wanted)
    return " ".join(sorted({demand.operator for demand in found.requirements}))


def _check_field_selector(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    try:
        found = parse_field_selector(text)
    except SelectorError as error:
        return refused(error)
    again = parse_field_selector(",".join(map(str, found)))
    expect("what is printed selects the same", sorted(again), sorted(found))
    return f"{len(found)} terms"


# JSON and YAML

_SURROGATES: Final = re.compile("[\ud800-\udfff]")


def _check_json(data: bytes) -> str:
    wanted: Any = None
    try:
        text = data.decode()
        wanted = _as_tree(_json(text))
        is_json: bool | None = True
    except (UnicodeDecodeError, RecursionError):
        is_json = None
    except ValueError:
        is_json = False
    try:
        found = parse_json(data)
    except TextError as error:
        if is_json and "max depth" not in str(error):
            raise Violation("what the standard library reads is read", str(error)) from None
        return refused(error)
    if is_json is False:
        raise Violation("what the standard library refuses is refused", repr(data[:100]))
    if is_json:
        expect("the value is that of the standard library", found, wanted)
    to_python(found)
    return type(found).__name__


def _json(text: str) -> Any:
    return json.loads(
        text,
        object_pairs_hook=lambda pairs: ObjectNode(tuple((_clean(name), value) for name, value in pairs)),
        parse_int=Number,
        parse_float=Number,
        parse_constant=_refuse,
    )


def _refuse(name: str) -> None:
    raise ValueError(name)


def _clean(text: str) -> str:
    return _SURROGATES.sub("\ufffd", text)


def _as_tree(value: Any) -> Any:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, list):
        return [_as_tree(one) for one in value]
    if isinstance(value, ObjectNode):
        return ObjectNode(tuple((name, _as_tree(one)) for name, one in value.members))
    return value


_BASE_LOADER: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


def _check_yaml(data: bytes) -> str:
    try:
        tree = yaml_to_json(data).tree
    except TextError as error:
        return refused(error)
    if not any(word in data for word in (b"<<", b"!", b"*")):
        try:
            wanted = next(yaml.load_all(data, Loader=_BASE_LOADER), None)
        except yaml.YAMLError as error:
            raise Violation("what PyYAML refuses is refused", str(error)) from None
        _compare_yaml(tree, wanted)
    value = to_python(tree)
    if isinstance(value, dict):
        again = to_python(yaml_to_json(to_yaml(value).encode()).tree)
        expect("what is written is read back", repr(again), repr(_sorted(value)))
    return type(tree).__name__


def _sorted(value: Any) -> Any:
    """Members in the order in which they are read back."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


_TRUE_OR_FALSE: Final = {True: ("y", "yes", "true", "on"), False: ("n", "no", "false", "off")}


def _compare_yaml(tree: Tree, wanted: Any) -> None:
    """Compare with PyYAML, which leaves all words as text here: the shape, and the words that stay text."""
    if isinstance(tree, ObjectNode):
        if not isinstance(wanted, dict):
            raise Violation("the shape is that of PyYAML", f"a map instead of {wanted!r}")
        # `1` and `01` are one key here and two there.
        texts = wanted if len(wanted) == len(tree.members) else {}
        for name, value in tree.members:
            if name in texts:
                _compare_yaml(value, texts[name])
    elif isinstance(tree, list):
        if not isinstance(wanted, list) or len(wanted) != len(tree):
            raise Violation("the shape is that of PyYAML", f"{len(tree)} elements instead of {wanted!r}")
        for one, other in zip(tree, wanted, strict=True):
            _compare_yaml(one, other)
    elif isinstance(tree, str):
        expect("text is that of PyYAML", tree, wanted)
    elif isinstance(tree, bool):
        if not isinstance(wanted, str) or wanted.lower() not in _TRUE_OR_FALSE[tree]:
            raise Violation("a truth value is written as one", f"{tree} for {wanted!r}")
    elif tree is None:
        if wanted not in (None, "", "~", "null", "Null", "NULL"):
            raise Violation("null is written as such", repr(wanted))
    elif not isinstance(wanted, str) or not re.match(r"[-+.0-9]", wanted):
        raise Violation("a number is written as one", f"{tree.text} for {wanted!r}")


# Regular expressions

_COMMON: Final = re.compile(r"[abc.|()*+?]{1,15}")
_NOT_IN_GO: Final = re.compile(r"\\C|\\[pP]|\(\?P?<")
"""Where RE2 and Go differ, or have more than is supported here: scripts, \\C, names of groups."""


def _check_regexp(data: bytes) -> str:
    """A pattern on the first line, a text on the others."""
    pattern, _, text = data.decode("utf-8", "replace").partition("\n")
    try:
        found = regexps.Regexp(pattern)
    except regexps.RegexpError as error:
        _compare_refusal(pattern, error)
        return refused(error)
    try:
        matches, place = found.matches(text), found.find(text)
        found.find_all(text, 5)
    except regexps.TooCostlyError as error:
        return refused(error)
    expect("there is a match where one is found", matches, place is not None)
    search = _other_search(pattern)
    if search is None:
        return f"{matches}"
    expect("the match is the oracle's", place, search(text))
    return f"{matches} compared"


def _compare_refusal(pattern: str, error: regexps.RegexpError) -> None:
    other = _re2(pattern)
    if other is not None and not _NOT_IN_GO.search(pattern) and "too large" not in str(error):
        raise Violation("what RE2 compiles is compiled", f"{pattern!r}: {error}")


def _re2(pattern: str) -> Any:
    """RE2's compiled pattern, None if it refuses the pattern or is not installed."""
    re2 = oracle("re2")
    if re2 is None:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None


def _other_search(pattern: str) -> Callable[[str], tuple[int, int] | None] | None:
    """The search of another library for what both understand: RE2, or Python's `re` for little patterns."""
    if oracle("re2") is not None:
        compiled = _re2(pattern)
        if compiled is None:
            if _NOT_IN_GO.search(pattern):
                return None
            raise Violation("what RE2 refuses is refused", repr(pattern))
    elif _COMMON.fullmatch(pattern) and "(?" not in pattern:
        compiled = re.compile(pattern)
    else:
        return None

    def search(text: str) -> tuple[int, int] | None:
        match = compiled.search(text)
        return None if match is None else match.span()

    return search


_NUMBERS: Final = (b"0", b"1", b"-", b"+", b".", b"9" * 19, b"9" * 40, b"1e3", b"e-9", b"E400", b"00")

TEXTS: Final = (
    FuzzTarget(
        "quantity",
        "quantities: reading, printing, sums, order",
        _check_quantity,
        (
            b"100m\n1",
            b"1.5Gi\n1536Mi",
            b"3e6",
            b"-2.000000001k\n0",
            b"1E5\n.5",
            b"9223372036854775807Ki",
            b"1e-12\n1n",
        ),
        (*_NUMBERS, *(f"{unit}i".encode() for unit in _BINARY), b"m", b"u", b"n", b"k", b"P", b"\n"),
        oracle="fractions of the standard library",
        failed_once=(b"1000m\n1",),
    ),
    FuzzTarget(
        "duration",
        "durations as Go writes them",
        _check_duration,
        (b"1h15m30.918s", b"-1.5h", b"0", b"100ms", b"9223372036s", b"1\xc2\xb5s", b".5s"),
        (*_NUMBERS, b"h", b"m", b"s", b"ms", b"us", b"ns", "µs".encode()),
        oracle="fractions of the standard library",
    ),
    FuzzTarget(
        "labelselector",
        "label selectors as text",
        _check_label_selector,
        (
            b"app=web,tier in (a,b),!x",
            b"a notin (b,,c),d",
            b"k>5,l<-3",
            b"a==b,a!=c",
            b"in in (in,notin)",
            b" x , y ",
        ),
        (b"in", b"notin", b"(", b")", b",", b"=", b"==", b"!=", b"!", b">", b"<", b"a.b/c", b" ", b"\0"),
        oracle="itself: what is printed is read again",
    ),
    FuzzTarget(
        "fieldselector",
        "field selectors as text",
        _check_field_selector,
        (b"spec.nodeName=a,status.phase!=Failed", b"a==b\\,c", b"x=\\\\,y=\\=", b",,a=b"),
        (b"=", b"==", b"!=", b",", b"\\", b"\\,", b"\\=", b"\\\\", b"metadata.name"),
        oracle="itself: what is printed is read again",
    ),
    FuzzTarget(
        "json",
        "JSON text as Go reads it",
        _check_json,
        (
            b'{"a":[1,-0.5e+3,true,false,null,"x"],"a":{}}',
            b'["\\ud83d\\ude00\\u00e9\\n", ""]',
            b" 0 ",
            b'"\\ud800x"',
        ),
        (
            b"{",
            b"}",
            b"[",
            b"]",
            b'"',
            b"\\u",
            b"\\ud800",
            b"\\udc00",
            b":",
            b",",
            b"null",
            b"true",
            *_NUMBERS,
            b"NaN",
        ),
        oracle="the standard library's json",
    ),
    FuzzTarget(
        "yaml",
        "YAML as sigs.k8s.io/yaml reads and writes it",
        _check_yaml,
        (
            b"a: 1\nb: [x, 'y', \"z\\n\"]\nc:\n  - {d: ~, e: 1.5}\n  - |\n    text\n",
            b"a: &x {k: 010}\nb: *x\nc:\n  <<: *x\n  l: yes\n",
            b"--- \nx: !!str 1\ny: !!float 3\nz: 2001-01-01\n...\n",
            b'? k\n: v\n"q": 0x1F\n1_000: -.inf\n',
            b"a: >-\n  folded\n  text\n\nb: 1:30\n",
        ),
        (
            b": ",
            b"- ",
            b"\n",
            b"  ",
            b"&a ",
            b"*a",
            b"<<: ",
            b"!!int ",
            b"!!binary ",
            b"? ",
            b"|\n",
            b"#",
            *_NUMBERS,
            b"{",
            b"}",
            b"[",
            b"]",
        ),
        oracle="PyYAML, and itself: what is written is read again",
        failed_once=(
            b"a\nb: c\n",
            b'b: [x, "z\\N", "\\L a", "\\r"]\n',
        ),
    ),
    FuzzTarget(
        "regexp",
        "regular expressions as Go's regexp package has them",
        _check_regexp,
        (
            b"^[a-z]([-a-z0-9]*[a-z0-9])?$\nabc-d",
            b"(a|bc){2,3}?x*\\b\nabcxx ab",
            b"(?i)(?P<n>\\w+)\\s[^[:alpha:]]\nAb 1",
            b"a??b*?(?s).\\x41\\pL\nab\n",
            b"(a*)*|b+\naab",
        ),
        (
            b"(",
            b")",
            b"[",
            b"]",
            b"*",
            b"+",
            b"?",
            b"{2}",
            b"{1,3}",
            b"|",
            b"\\d",
            b"\\b",
            b"(?i)",
            b"(?:",
            b"^",
            b"$",
            b"\\Q",
            b"[^",
            b"\n",
            b"a",
        ),
        oracle="RE2; without it Python's re on patterns of both",
        failed_once=(b"(?i)[^a]\nA", b"[[:a]\na", b"ba(?i)+\nbaA", b"(?)a\na"),
        modules=("re2",),
    ),
)
