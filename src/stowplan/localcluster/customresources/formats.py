"""The formats of strings that schemas of custom resources may name, and their checks.

Names are compared without dashes (`date-time` is `datetime`), except the two that are Kubernetes' own. An
unknown format is not checked; the writer of the definition gets a warning.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Final
from urllib.parse import urlsplit

from stowplan.gocompat.durations import Duration, DurationError
from stowplan.gocompat.numbers import parse_count

INTEGER_FORMATS: Final = frozenset(("int32", "int64"))
NUMBER_FORMATS: Final = frozenset(("float", "double"))

Check = Callable[[str], bool]


def _pattern(text: str, flags: int = re.ASCII) -> Check:
    compiled = re.compile(rf"(?:{text})\Z", flags)
    return lambda value: compiled.match(value) is not None


_HEX: Final = "[0-9a-f]"
_IS_CARD: Final = _pattern(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}"
)
_COLOR: Final = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_CLOCK: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))\Z")
_DURATION_PART: Final = re.compile(r"(?<!\d)(\d++)\s*+([A-Za-zµ]+)")
_DURATION_UNITS: Final = (
    ("ns", "nano"),
    ("us", "µs", "micro"),
    ("ms", "milli"),
    ("s", "sec"),
    ("m", "min"),
    ("h", "hr", "hour"),
    ("d", "day"),
    ("w", "wk", "week"),
)
_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST_END: Final = re.compile(r"[^\W\d_]{2,63}\Z")


def _is_uri(value: str) -> bool:
    """True if Go's `url.ParseRequestURI` accepts it: an absolute URI or an absolute path."""
    if not value or any(ord(character) < 0x21 or ord(character) == 0x7F for character in value):
        return False
    if re.search(r"%(?![0-9a-fA-F]{2})", value):
        return False
    if value.startswith("/"):
        return True
    try:
        parts = urlsplit(value)
        return bool(parts.scheme) and parts.port != -1
    except ValueError:
        return False


def _is_email(value: str) -> bool:
    address = value.strip()
    if address.endswith(">") and "<" in address:
        address = address[address.rindex("<") + 1 : -1]
    local, at, domain = address.rpartition("@")
    atoms = _pattern(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\x80-\U0010ffff.-]+")
    quoted = len(local) > 1 and local[0] == local[-1] == '"'
    return bool(at) and (quoted or (atoms(local) and ".." not in local)) and atoms(domain)


def _is_hostname(value: str) -> bool:
    parts = value.split(".")
    if len(value.encode()) > 255 or not value or any(len(part.encode()) > 63 for part in parts):
        return False
    if len(parts) == 1:
        return _is_host_label(value)
    return all(map(_is_host_label, parts[:-1])) and _HOST_END.match(parts[-1]) is not None


def _is_host_label(label: str) -> bool:
    plain = label.replace("-", "a")
    return bool(label) and label[0] != "-" != label[-1] and all(c.isalnum() or ord(c) > 127 for c in plain)


def _is_ipv4(value: str) -> bool:
    if ":" in value:
        return "." in value and _is_ipv6(value)
    parts = value.split(".")
    return len(parts) == 4 and all(parse_count(part) in range(256) for part in parts)


def _is_ipv6(value: str) -> bool:
    try:
        return "%" not in value and bool(ipaddress.IPv6Address(value))
    except ValueError:
        return False


def _is_cidr(value: str) -> bool:
    address, slash, bits = value.partition("/")
    if not slash or not bits.isascii() or not bits.isdigit() or len(bits) > 3:
        return False
    if ":" in address:
        return _is_ipv6(address) and int(bits) <= 128
    return _is_ipv4(address) and int(bits) <= 32


def _is_isbn10(value: str) -> bool:
    digits = re.sub(r"[\s-]+", "", value)
    if re.fullmatch(r"[0-9]{9}[0-9X]", digits) is None:
        return False
    numbers = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((i + 1) * number for i, number in enumerate(numbers)) % 11 == 0


def _is_isbn13(value: str) -> bool:
    digits = re.sub(r"[\s-]+", "", value)
    if re.fullmatch(r"[0-9]{13}", digits) is None:
        return False
    total = sum(int(digit) * (3 if i % 2 else 1) for i, digit in enumerate(digits[:12]))
    return int(digits[12]) == (10 - total % 10) % 10


def _is_credit_card(value: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", value)
    if not _IS_CARD(digits):
        return False
    doubled = [int(digit) * (2 if i % 2 else 1) for i, digit in enumerate(reversed(digits))]
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def _is_date(value: str) -> bool:
    try:
        return re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value) is not None and bool(
            date.fromisoformat(value)
        )
    except ValueError:
        return value[:4] == "0000" and _is_date("2000" + value[4:])


def _is_date_time(value: str) -> bool:
    day, separator, clock = value.lower().partition("t")
    found = _CLOCK.match(clock.partition("t")[0])
    if not separator or found is None or not _is_date(day):
        return False
    return found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _is_duration(value: str) -> bool:
    try:
        Duration.parse(value)
        return True
    except DurationError:
        pass
    for _, unit in _DURATION_PART.findall(value):
        for names in _DURATION_UNITS:
            if unit.lower() in names or unit.lower().startswith(names[-1]):
                return True
    return False


FORMATS: Final[Mapping[str, Check]] = {
    "bsonobjectid": _pattern("[0-9a-fA-F]{24}"),
    "uri": _is_uri,
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "cidr": _is_cidr,
    "mac": _pattern(
        r"[0-9a-fA-F]{2}(?:([:-])[0-9a-fA-F]{2})(?:\1[0-9a-fA-F]{2}){4}(?:(?:\1[0-9a-fA-F]{2}){2})?"
        r"(?:(?:\1[0-9a-fA-F]{2}){12})?|[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4}){2}(?:\.[0-9a-fA-F]{4})?"
    ),
    "uuid": _pattern(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}", re.I | re.A),
    "uuid3": _pattern(f"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}", re.I | re.A),
    "uuid4": _pattern(
        f"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}", re.I | re.A
    ),
    "uuid5": _pattern(
        f"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ab]{_HEX}{{3}}-?{_HEX}{{12}}", re.I | re.A
    ),
    "isbn": lambda value: _is_isbn10(value) or _is_isbn13(value),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": lambda value: len(value) == 11 and re.fullmatch(r"\d{3}[- ]?\d{2}[- ]?\d{4}", value) is not None,
    "hexcolor": _pattern("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _pattern(rf"rgb\({_COLOR},{_COLOR},{_COLOR}\)"),
    "byte": _pattern(
        r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})",
    ),
    "password": lambda value: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_date_time,
    "k8s-short-name": lambda value: len(value) <= 63 and re.fullmatch(_LABEL, value) is not None,
    "k8s-long-name": lambda value: (
        len(value) <= 253 and all(re.fullmatch(_LABEL, part) is not None for part in value.split("."))
    ),
}
"""Checks of formats by name."""


def string_format(name: str) -> Check | None:
    """The check of a format, None if it is not known."""
    return FORMATS.get(name) or FORMATS.get(name.replace("-", ""))


def is_recognized(type_: str, format_: str) -> bool:
    """True if a format has a meaning for a type."""
    if type_ in ("", "string"):
        return string_format(format_) is not None
    if type_ == "integer":
        return format_ in INTEGER_FORMATS
    return type_ == "number" and format_ in NUMBER_FORMATS
