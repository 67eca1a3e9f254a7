"""The functions of the Kubernetes environments: their overloads, with the types they take and give.

One line per overload: the function, the overload's name, its arguments (`string.(int)` for a method) and its
result. Capital letters are type parameters.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from stowplan.api.cel import types
from stowplan.api.cel.types import Type


class Overload(NamedTuple):
    """One signature of a function."""

    id: str
    function: str
    is_member: bool
    args: tuple[Type, ...]
    result: Type
    params: tuple[Type, ...]


_ORDERED: Final = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE: Final = ("int", "uint", "double", "duration")

_NAMES: Final = {
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "dyn": types.DYN,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "quantity": types.QUANTITY,
    "semver": types.SEMVER,
    "url": types.URL,
    "ip": types.IP,
    "cidr": types.CIDR,
    "format": types.FORMAT,
    "authorizer": types.AUTHORIZER,
    "pathCheck": types.PATH_CHECK,
    "groupCheck": types.GROUP_CHECK,
    "resourceCheck": types.RESOURCE_CHECK,
    "decision": types.DECISION,
}

_TABLE: Final = """
_?_:_ conditional (bool, A, A) A
_&&_ logical_and (bool, bool) bool
_||_ logical_or (bool, bool) bool
!_ logical_not (bool) bool
@not_strictly_false not_strictly_false (bool) bool
_==_ equals (A, A) bool
_!=_ not_equals (A, A) bool
_+_ add_bytes (bytes, bytes) bytes
_+_ add_double (double, double) double
_+_ add_duration_duration (duration, duration) duration
_+_ add_duration_timestamp (duration, timestamp) timestamp
_+_ add_timestamp_duration (timestamp, duration) timestamp
_+_ add_int64 (int, int) int
_+_ add_list (list(A), list(A)) list(A)
_+_ add_string (string, string) string
_+_ add_uint64 (uint, uint) uint
_/_ divide_double (double, double) double
_/_ divide_int64 (int, int) int
_/_ divide_uint64 (uint, uint) uint
_%_ modulo_int64 (int, int) int
_%_ modulo_uint64 (uint, uint) uint
_*_ multiply_double (double, double) double
_*_ multiply_int64 (int, int) int
_*_ multiply_uint64 (uint, uint) uint
-_ negate_double (double) double
-_ negate_int64 (int) int
_-_ subtract_double (double, double) double
_-_ subtract_duration_duration (duration, duration) duration
_-_ subtract_int64 (int, int) int
_-_ subtract_timestamp_duration (timestamp, duration) timestamp
_-_ subtract_timestamp_timestamp (timestamp, timestamp) duration
_-_ subtract_uint64 (uint, uint) uint
_[_] index_list (list(A), int) A
_[_] index_map (map(A, B), A) B
_[_] optional_list_index_int (optional(list(A)), int) optional(A)
_[_] optional_map_index_value (optional(map(A, B)), A) optional(B)
_[?_] list_optindex_optional_int (list(A), int) optional(A)
_[?_] optional_list_optindex_optional_int (optional(list(A)), int) optional(A)
_[?_] map_optindex_optional_value (map(A, B), A) optional(B)
_[?_] optional_map_optindex_optional_value (optional(map(A, B)), A) optional(B)
@in in_list (A, list(A)) bool
@in in_map (A, map(A, B)) bool
size size_bytes (bytes) int
size bytes_size bytes.() int
size size_list (list(A)) int
size list_size list(A).() int
size size_map (map(A, B)) int
size map_size map(A, B).() int
size size_string (string) int
size string_size string.() int
type type (A) type(A)
bool bool_to_bool (bool) bool
bool string_to_bool (string) bool
bytes bytes_to_bytes (bytes) bytes
bytes string_to_bytes (string) bytes
double double_to_double (double) double
double int64_to_double (int) double
double string_to_double (string) double
double uint64_to_double (uint) double
duration duration_to_duration (duration) duration
duration string_to_duration (string) duration
dyn to_dyn (A) dyn
int int64_to_int64 (int) int
int double_to_int64 (double) int
int duration_to_int64 (duration) int
int string_to_int64 (string) int
int timestamp_to_int64 (timestamp) int
int uint64_to_int64 (uint) int
string string_to_string (string) string
string bool_to_string (bool) string
string bytes_to_string (bytes) string
string double_to_string (double) string
string duration_to_string (duration) string
string int64_to_string (int) string
string timestamp_to_string (timestamp) string
string uint64_to_string (uint) string
string ip_to_string (ip) string
string cidr_to_string (cidr) string
timestamp timestamp_to_timestamp (timestamp) timestamp
timestamp int64_to_timestamp (int) timestamp
timestamp string_to_timestamp (string) timestamp
uint uint64_to_uint64 (uint) uint
uint double_to_uint64 (double) uint
uint int64_to_uint64 (int) uint
uint string_to_uint64 (string) uint
contains contains_string string.(string) bool
endsWith ends_with_string string.(string) bool
startsWith starts_with_string string.(string) bool
matches matches (string, string) bool
matches matches_string string.(string) bool
getHours duration_to_hours duration.() int
getMinutes duration_to_minutes duration.() int
getSeconds duration_to_seconds duration.() int
getMilliseconds duration_to_milliseconds duration.() int
optional.of optional_of (V) optional(V)
optional.ofNonZeroValue optional_ofNonZeroValue (V) optional(V)
optional.none optional_none () optional(V)
value optional_value optional(V).() V
hasValue optional_hasValue optional(V).() bool
or optional_or_optional optional(V).(optional(V)) optional(V)
orValue optional_orValue_value optional(V).(V) V
first list_first list(V).() optional(V)
last list_last list(V).() optional(V)
optional.unwrap optional_unwrap (list(optional(V))) list(V)
unwrapOpt optional_unwrapOpt list(optional(V)).() list(V)
charAt string_char_at_int string.(int) string
indexOf list_a_index_of_int list(A).(A) int
indexOf string_index_of_string string.(string) int
indexOf string_index_of_string_int string.(string, int) int
lastIndexOf list_a_last_index_of_int list(A).(A) int
lastIndexOf string_last_index_of_string string.(string) int
lastIndexOf string_last_index_of_string_int string.(string, int) int
lowerAscii string_lower_ascii string.() string
upperAscii string_upper_ascii string.() string
replace string_replace_string_string string.(string, string) string
replace string_replace_string_string_int string.(string, string, int) string
split string_split_string string.(string) list(string)
split string_split_string_int string.(string, int) list(string)
substring string_substring_int string.(int) string
substring string_substring_int_int string.(int, int) string
trim string_trim string.() string
format string_format string.(list(dyn)) string
strings.quote strings_quote (string) string
join list_join list(string).() string
join list_join_string list(string).(string) string
slice list_slice list(T).(int, int) list(T)
flatten list_flatten list(list(T)).() list(T)
flatten list_flatten_int list(dyn).(int) list(dyn)
lists.range lists_range (int) list(int)
reverse list_reverse list(T).() list(T)
distinct list_distinct list(T).() list(T)
sets.contains list_sets_contains_list (list(T), list(T)) bool
sets.equivalent list_sets_equivalent_list (list(T), list(T)) bool
sets.intersects list_sets_intersects_list (list(T), list(T)) bool
cel.@mapInsert @mapInsert_map_key_value (map(K, V), K, V) map(K, V)
cel.@mapInsert @mapInsert_map_map (map(K, V), map(K, V)) map(K, V)
find string_find_string string.(string) string
findAll string_find_all_string string.(string) list(string)
findAll string_find_all_string_int string.(string, int) list(string)
url string_to_url (string) url
getScheme url_get_scheme url.() string
getHost url_get_host url.() string
getHostname url_get_hostname url.() string
getPort url_get_port url.() string
getEscapedPath url_get_escaped_path url.() string
getQuery url_get_query url.() map(string, list(string))
isURL is_url_string (string) bool
quantity string_to_quantity (string) quantity
isQuantity is_quantity_string (string) bool
sign quantity_sign (quantity) int
isGreaterThan quantity_is_greater_than quantity.(quantity) bool
isLessThan quantity_is_less_than quantity.(quantity) bool
compareTo quantity_compare_to quantity.(quantity) int
asApproximateFloat quantity_get_float quantity.() double
asInteger quantity_get_int quantity.() int
isInteger quantity_is_integer quantity.() bool
add quantity_add quantity.(quantity) quantity
add quantity_add_int quantity.(int) quantity
sub quantity_sub quantity.(quantity) quantity
sub quantity_sub_int quantity.(int) quantity
semver string_to_semver (string) semver
semver string_bool_to_semver (string, bool) semver
isSemver is_semver_string (string) bool
isSemver is_semver_string_bool (string, bool) bool
isGreaterThan semver_is_greater_than semver.(semver) bool
isLessThan semver_is_less_than semver.(semver) bool
compareTo semver_compare_to semver.(semver) int
major semver_major semver.() int
minor semver_minor semver.() int
patch semver_patch semver.() int
ip string_to_ip (string) ip
ip cidr_ip cidr.() ip
ip.isCanonical ip_is_canonical (string) bool
isIP is_ip (string) bool
family ip_family ip.() int
isUnspecified ip_is_unspecified ip.() bool
isLoopback ip_is_loopback ip.() bool
isLinkLocalMulticast ip_is_link_local_multicast ip.() bool
isLinkLocalUnicast ip_is_link_local_unicast ip.() bool
isGlobalUnicast ip_is_global_unicast ip.() bool
cidr string_to_cidr (string) cidr
isCIDR is_cidr (string) bool
containsIP cidr_contains_ip_string cidr.(string) bool
containsIP cidr_contains_ip_ip cidr.(ip) bool
containsCIDR cidr_contains_cidr_string cidr.(string) bool
containsCIDR cidr_contains_cidr cidr.(cidr) bool
prefixLength cidr_prefix_length cidr.() int
masked cidr_masked cidr.() cidr
validate format-validate format.(string) optional(list(string))
format.named format-named (string) optional(format)
path authorizer_path authorizer.(string) pathCheck
group authorizer_group authorizer.(string) groupCheck
serviceAccount authorizer_serviceaccount authorizer.(string, string) authorizer
resource groupcheck_resource groupCheck.(string) resourceCheck
subresource resourcecheck_subresource resourceCheck.(string) resourceCheck
namespace resourcecheck_namespace resourceCheck.(string) resourceCheck
name resourcecheck_name resourceCheck.(string) resourceCheck
fieldSelector authorizer_fieldselector resourceCheck.(string) resourceCheck
labelSelector authorizer_labelselector resourceCheck.(string) resourceCheck
check pathcheck_check pathCheck.(string) decision
check resourcecheck_check resourceCheck.(string) decision
allowed decision_allowed decision.() bool
reason decision_reason decision.() string
errored decision_errored decision.() bool
error decision_error decision.() string
"""

_COMPARISONS: Final = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
_GETTERS: Final = {
    "getFullYear": "year",
    "getMonth": "month",
    "getDayOfYear": "day_of_year",
    "getDayOfMonth": "day_of_month",
    "getDate": "day_of_month_1_based",
    "getDayOfWeek": "day_of_week",
    "getHours": "hours",
    "getMinutes": "minutes",
    "getSeconds": "seconds",
    "getMilliseconds": "milliseconds",
}
FORMATS: Final = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "qualifiedName",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
]


def _lines() -> list[str]:
    lines = _TABLE.strip().splitlines()
    numbers = ("int", "uint", "double")
    wire = {"int": "int64", "uint": "uint64"}
    for operator, name in _COMPARISONS.items():
        for kind in ("bool", "string", "bytes", "timestamp", "duration"):
            lines.append(f"{operator} {name}_{kind} ({kind}, {kind}) bool")
        for left in numbers:
            for right in numbers:
                pair = wire.get(left, left) + ("" if left == right else f"_{wire.get(right, right)}")
                lines.append(f"{operator} {name}_{pair} ({left}, {right}) bool")
    for function, name in _GETTERS.items():
        lines.append(f"{function} timestamp_to_{name} timestamp.() int")
        lines.append(f"{function} timestamp_to_{name}_with_tz timestamp.(string) int")
    for kind in _ORDERED:
        declared = _NAMES[kind].name
        lines += (
            f"isSorted list_{kind}_is_sorted_bool list({kind}).() bool",
            f"max list_{kind}_max_{kind} list({kind}).() {kind}",
            f"min list_{kind}_min_{kind} list({kind}).() {kind}",
            f"sort list_{declared}_sort list({kind}).() list({kind})",
            f"@sortByAssociatedKeys list_{declared}_sortByAssociatedKeys list(T).(list({kind})) list(T)",
        )
    lines += [f"sum list_{kind}_sum_{kind} list({kind}).() {kind}" for kind in _SUMMABLE]
    lines += [f"format.{name} format.{name} () format" for name in FORMATS]
    return lines


_WORDS = re.compile(r"[A-Za-z]+|[(),]")


class _Reader:
    def __init__(self, text: str) -> None:
        self._words = _WORDS.findall(text)
        self._at = 0

    def one(self) -> Type:
        name = self._words[self._at]
        self._at += 1
        params = self.several() if self._peek() == "(" and name in ("list", "map", "optional", "type") else ()
        match name:
            case "list" | "map":
                return Type(name, name, params)
            case "optional":
                return types.optional_of(*params)
            case "type":
                return types.type_of(*params)
        return _NAMES[name] if name in _NAMES else types.param(name)

    def several(self) -> tuple[Type, ...]:
        found = []
        self._at += 1
        while self._peek() != ")":
            if self._peek() == ",":
                self._at += 1
            found.append(self.one())
        self._at += 1
        return tuple(found)

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""


def _overload(line: str) -> Overload:
    function, name, signature = line.split(" ", 2)
    target, dot, rest = signature.partition(".(")
    reader = _Reader(f"({rest}" if dot else signature)
    args = reader.several()
    result = reader.one()
    if dot:
        args = (_Reader(target).one(), *args)
    params = dict.fromkeys(part for one in (*args, result) for part in _params(one))
    return Overload(name, function, bool(dot), args, result, tuple(params))


def _params(one: Type) -> list[Type]:
    return [one] if one.kind == "param" else [part for inner in one.params for part in _params(inner)]


INCLUDES: Final = "includes list_includes_dyn_dyn dyn.(dyn) bool"
"""A function that not every environment has."""

ESCAPE_KEY: Final = "jsonpatch.escapeKey string_jsonpatch_escapeKey_string (string) string"
"""A function of expressions that make JSON patches."""


@lru_cache(maxsize=8)
def functions(extra: tuple[str, ...] = ()) -> dict[str, tuple[Overload, ...]]:
    """The overloads of every function, with those of extra lines."""
    found: dict[str, tuple[Overload, ...]] = {}
    for line in (*_lines(), *extra):
        overload = _overload(line)
        found[overload.function] = (*found.get(overload.function, ()), overload)
    return found


TYPE_NAMES: Final = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "int": types.INT,
    "list": types.list_of(types.param("A")),
    "map": types.map_of(types.param("A"), types.param("B")),
    "null_type": types.NULL,
    "optional_type": types.optional_of(types.param("V")),
    "string": types.STRING,
    "type": types.TYPE,
    "uint": types.UINT,
    "net.IP": types.IP,
    "net.CIDR": types.CIDR,
}
"""Names that stand for types in an expression."""
