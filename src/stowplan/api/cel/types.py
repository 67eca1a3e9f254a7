"""Types of CEL: what a declaration says, how it is written, and when one type may stand for another."""

from collections.abc import Iterable
from typing import Final, NamedTuple


class Type(NamedTuple):
    """A type. `kind` decides how it behaves; only structs, opaque types and parameters differ by name."""

    kind: str
    name: str
    params: tuple["Type", ...] = ()

    def __str__(self) -> str:
        """As cel-go prints a type by itself (`google.protobuf.Any`)."""
        return _with_params(f"<{self.name}>" if self.kind == "param" else self.name, map(str, self.params))

    def described(self) -> str:
        """As cel-go prints a type in an error of the checker (`any`)."""
        if self.kind in _DESCRIBED:
            return _DESCRIBED[self.kind]
        return _with_params(self.name, (one.described() for one in self.params))

    @property
    def is_dyn(self) -> bool:
        return self.kind in ("dyn", "any")

    @property
    def is_optional(self) -> bool:
        return self.kind == "opaque" and self.name == "optional_type"


def _with_params(name: str, params: Iterable[str]) -> str:
    shown = ", ".join(params)
    return f"{name}({shown})" if shown else name


_DESCRIBED: Final = {
    "any": "any",
    "duration": "duration",
    "timestamp": "timestamp",
    "error": "!error!",
    "null": "null",
}

BOOL: Final = Type("bool", "bool")
INT: Final = Type("int", "int")
UINT: Final = Type("uint", "uint")
DOUBLE: Final = Type("double", "double")
STRING: Final = Type("string", "string")
BYTES: Final = Type("bytes", "bytes")
NULL: Final = Type("null", "null_type")
DYN: Final = Type("dyn", "dyn")
ANY: Final = Type("any", "google.protobuf.Any")
ERROR: Final = Type("error", "*error*")
TYPE: Final = Type("type", "type")
DURATION: Final = Type("duration", "google.protobuf.Duration")
TIMESTAMP: Final = Type("timestamp", "google.protobuf.Timestamp")
QUANTITY: Final = Type("struct", "kubernetes.Quantity")
SEMVER: Final = Type("struct", "kubernetes.Semver")
URL: Final = Type("struct", "kubernetes.URL")
FORMAT: Final = Type("struct", "kubernetes.NamedFormat")
AUTHORIZER: Final = Type("struct", "kubernetes.authorization.Authorizer")
PATH_CHECK: Final = Type("struct", "kubernetes.authorization.PathCheck")
GROUP_CHECK: Final = Type("struct", "kubernetes.authorization.GroupCheck")
RESOURCE_CHECK: Final = Type("struct", "kubernetes.authorization.ResourceCheck")
DECISION: Final = Type("struct", "kubernetes.authorization.Decision")
IP: Final = Type("opaque", "net.IP")
CIDR: Final = Type("opaque", "net.CIDR")


def list_of(item: Type) -> Type:
    return Type("list", "list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(item: Type) -> Type:
    return Type("opaque", "optional_type", (item,))


def type_of(item: Type) -> Type:
    return Type("type", "type", (item,))


def param(name: str) -> Type:
    return Type("param", name)


def unwrapped(one: Type) -> tuple[Type, bool]:
    """The type inside an optional, and whether it was one."""
    return (one.params[0], True) if one.is_optional else (one, False)


class Mapping(dict[Type, Type]):
    """Current substitutions of type parameters."""

    def substitute(self, one: Type, *, free_to_dyn: bool = False) -> Type:
        """The type with its parameters replaced; free ones stay, or become dyn."""
        while one in self:
            one = self[one]
        if one.kind == "param":
            return DYN if free_to_dyn else one
        if not one.params:
            return one
        params = tuple([self.substitute(part, free_to_dyn=free_to_dyn) for part in one.params])
        return Type(one.kind, one.name, params)

    def assignable(self, first: Type, second: Type) -> bool:
        """True if the first type may be used where the second is wanted; learns parameters on the way."""
        if second.kind == "param":
            valid, known = self._substitutes(first, second)
            if valid:
                return True
            if known:
                return False
        if first.kind == "param":
            return self._substitutes(second, first)[0]
        if first.is_dyn or second.is_dyn or "error" in (first.kind, second.kind):
            return True
        if "null" in (first.kind, second.kind):
            other = second if first.kind == "null" else first
            return other.kind in ("null", "opaque", "struct", "duration", "timestamp")
        if first.kind == "type" or second.kind == "type":
            return first.kind == second.kind
        if first.kind in ("opaque", "list", "map"):
            return (
                (first.kind, first.name, len(first.params)) == (second.kind, second.name, len(second.params))
            ) and self.assignable_list(first.params, second.params)
        return first == second

    def assignable_list(self, first: tuple[Type, ...], second: tuple[Type, ...]) -> bool:
        if len(first) != len(second):
            return False
        return all(self.assignable(one, other) for one, other in zip(first, second, strict=True))

    def _substitutes(self, one: Type, parameter: Type) -> tuple[bool, bool]:
        """Two flags: a type may stand for a parameter, and the parameter was bound already."""
        if one == parameter:
            return True, True
        known = self.get(parameter)
        if known is not None:
            if one == known:
                return True, True
            if not self.assignable(one, known):
                return False, True
            general = most_general(one, known)
            if not self._occurs(parameter, general):
                self[parameter] = general
            return True, True
        if self._occurs(parameter, one):
            return False, False
        self[parameter] = one
        return True, False

    def _occurs(self, parameter: Type, within: Type) -> bool:
        if parameter == within:
            return True
        if within.kind == "param":
            known = self.get(within)
            return known is not None and self._occurs(parameter, known)
        return any(self._occurs(parameter, part) for part in within.params)


def most_general(first: Type, second: Type) -> Type:
    """The less specific of two types that fit each other."""
    return first if _less_specific(first, second) else second


def _less_specific(first: Type, second: Type) -> bool:
    if first.is_dyn or first.kind == "param":
        return True
    if second.is_dyn or second.kind == "param" or first.kind != second.kind:
        return False
    if first.kind in ("opaque", "list", "map"):
        same = first.name == second.name and len(first.params) == len(second.params)
        return same and all(_less_specific(*pair) for pair in zip(first.params, second.params, strict=True))
    return first.kind == "type" or first == second


def equivalent(first: Type, second: Type) -> bool:
    """Equal but for the names of type parameters."""
    if first.kind != second.kind or len(first.params) != len(second.params):
        return False
    if first.kind != "param" and first.name != second.name:
        return False
    return all(equivalent(*pair) for pair in zip(first.params, second.params, strict=True))
