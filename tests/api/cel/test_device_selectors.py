"""Selectors of devices: what the language can say, beyond the recorded expressions."""

import pytest

from stowplan.api.cel.devices import (
    FEATURES_1_37,
    CelDevice,
    CelFeatures,
    SelectorError,
    compile_selector,
    device_of,
)

GPU = device_of(
    "gpu.example.com",
    {
        "attributes": {
            "model": {"string": "a100"},
            "count": {"int": 4},
            "healthy": {"bool": True},
            "driverVersion": {"version": "535.2.1"},
            "numa.example.com/node": {"int": 1},
        },
        "capacity": {"memory": {"value": "40Gi"}, "cores": {"value": "6912"}},
    },
)


def result(expression: str, device: CelDevice = GPU) -> bool | str:
    match = compile_selector(expression).match(device)
    return match.matched if match.error is None else match.error


TRUE = """
device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == 'a100'
device.attributes['numa.example.com'].node in [0, 1]
device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0
cel.bind(gpu, device.attributes['gpu.example.com'], gpu.count > 2 && gpu.healthy)
device.attributes['gpu.example.com'].driverVersion.isGreaterThan(semver('535.0.0'))
!device.allowMultipleAllocations
device.attributes['gpu.example.com'].?model.optMap(m, m + '!').orValue('none') == 'a100!'
device.attributes['gpu.example.com'].?nothing.optMap(m, m + '!').orValue('none') == 'none'
optional.of(optional.of(1)).optFlatMap(o, o).value() == 1
optional.ofNonZeroValue('').or(optional.of('x')).value() == 'x'
[1, 2, 3][?7].hasValue() == false
{'a': {'b': 1}}.?a.?b.value() == 1
{?'a': optional.none(), 'b': 2}.size() == 1
[?optional.of(1), ?optional.none()] == [1]
[1, 2, 3, 4].filter(x, x % 2 == 0).map(x, x * x) == [4, 16]
{'a': 1, 'b': 2}.all(k, v, v > 0)
{'a': 1, 'b': 2}.transformMap(k, v, v * 10) == {'a': 10, 'b': 20}
['x', 'y'].transformMapEntry(i, v, {v: i}) == {'x': 0, 'y': 1}
[3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sortBy(s, s)[0] == 'a'
[[1], [2]].size() == 2
[[1, 2], [3]].flatten() == [1, 2, 3]
'x'.startsWith('x') ? 1 < 2 : 1 / 0 == 1
1 / 0 == 1 || true
!(1 / 0 == 1 && false)
[1, 0].exists(x, 1 / x == 1)
-7 / 2 == -3 && -7 % 2 == -1
dyn(1) == 1u && dyn(1) == 1.0 && 2u > 1 && 1.5 < 2
0xff == 255 && 1e3 == 1000.0 && .5 == 0.5
r'a\\d' == 'a\\\\d' && '''it's''' == "it's" && "\\u00e9" == 'é' && b'\\x61' == b'a'
'héllo'.size() == 5 && bytes('é').size() == 2
'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'abc'.split('') == ['a', 'b', 'c']
'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3 && 'hello'.indexOf('l', 3) == 3
'a-b_c'.replace('-', '_') == 'a_b_c' && ' x '.trim() == 'x'
'abc'.find('b+') == 'b' && 'a1b22'.findAll('[0-9]+') == ['1', '22'] && 'aaa'.findAll('a', 2).size() == 2
'ab'.find('a|ab') == 'a' && 'aab'.find('a*?b') == 'aab' && 'aaa'.find('a+?') == 'a'
'GPU'.matches('(?i)gpu') && !'gpu0'.matches('^gpu$')
'%s has %d, %.2f, %x, %b, %o, %%'.format(['n', 3, 2.5, 255, 5, 8]) == 'n has 3, 2.50, ff, 101, 10, %'
'%s'.format([['a', 1]]) == '["a", 1]' && '%s'.format([{'k': true}]) == '{"k":true}'
string(1.0) == '1' && string(1e21) == '1e+21' && string(0.00001) == '1e-05' && string(true) == 'true'
int('-5') == -5 && uint('5') == 5u && double('2.5') == 2.5 && bool('true')
int(timestamp('1970-01-01T00:01:00Z')) == 60 && string(duration('90m')) == '5400s'
timestamp('2024-02-29T10:00:00+02:00').getHours() == 8
timestamp('2024-02-29T23:00:00Z').getDate('+02:00') == 1
timestamp('2024-02-29T00:00:00Z') + duration('24h') == timestamp('2024-03-01T00:00:00Z')
duration('1h30m').getMinutes() == 90 && duration('1.5s').getMilliseconds() == 1500
type(1) == int && type('') == string && type([]) == list && type(type(1)) == type
sets.contains([1, 2, 3], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])
lists.range(3) == [0, 1, 2] && [1, 2, 3].slice(1, 3) == [2, 3] && [1, 1, 2].distinct() == [1, 2]
[1, 2].sum() == 3 && [1.5].max() == 1.5 && ['b', 'a'].min() == 'a' && [1, 2].isSorted()
quantity('1.5Gi').add(quantity('512Mi')) == quantity('2Gi') && sign(quantity('-1')) == -1
quantity('5').sub(2).isLessThan(quantity('4')) && quantity('100m').asApproximateFloat() == 0.1
semver('1.2.3-rc.1').compareTo(semver('1.2.3')) == -1
semver('1.2.3-rc.10').isGreaterThan(semver('1.2.3-rc.9'))
semver('v1', true).minor() == 0 && !isSemver('1.2')
ip('fe80::1').isLinkLocalUnicast() && ip('10.0.0.1').isGlobalUnicast() && string(ip('::1')) == '::1'
cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').masked().ip() == ip('10.0.0.0')
cidr('192.168.0.0/24').prefixLength() == 24 && !isCIDR('10.0.0.0')
url('https://u@h.example:80/a%20b?x=1&x=2').getQuery()['x'] == ['1', '2']
url('http://[::1]:8080/').getHostname() == '::1' && !isURL('h.example')
format.named("dns1123Label").value().validate("UPPER").hasValue() && format.uuid().validate("x").hasValue()
has({'a': 1}.a) && !has({'a': 1}.b) // a comment
'GPU-ÄÉ'.lowerAscii() == 'gpu-ÄÉ' && 'gpu-äéß'.upperAscii() == 'GPU-äéß'
""".strip().splitlines()


@pytest.mark.parametrize("expression", TRUE)
def test_what_the_language_says_is_so(expression: str) -> None:
    assert result(expression) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("device.attributes['gpu.example.com'].nothing == 1", "no such key: nothing"),
        ("device.attributes['other.example.com'].model == 'a'", "no such key: model"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("-dyn(-9223372036854775808) > 0", "integer overflow"),
        ("0u - 1u == 0u", "unsigned integer overflow"),
        ("1 % 0 == 1", "modulus by zero"),
        ("[1][1] == 1", "index out of bounds: 1"),
        ("{1: 2}[2] == 1", "no such key: 2"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("dyn('a') < dyn(1)", "no such overload"),
        ("dyn([]) < dyn([])", "no such overload: _<_"),
        ("size(dyn(1)) == 1", "no such overload: size"),
        ("dyn(1).contains('a')", "no such overload"),
        ("dyn(1).lowerAscii() == 'a'", "no such overload: lowerAscii(int)"),
        ("dyn(1).all(x, x)", "got 'types.Int', expected iterable type"),
        ("dyn(1) && true", "no such overload"),
        ("'abc'.substring(2, 1) == ''", "invalid substring range. start: 2, end: 1"),
        ("'abc'.charAt(-1) == ''", "index out of range: -1"),
        ("'abc'.charAt(4) == ''", "index out of range: 4"),
        ("'abc'.indexOf('b', -1) == 1", "index out of range: -1"),
        ("'abc'.lastIndexOf('b', -1) == 1", "index out of range: -1"),
        ("[1, 2].slice(1, 5) == []", "cannot slice(1, 5), list is length 2"),
        ("['a', 'a'].transformMapEntry(i, v, {v: i}) == {}", "insert failed: key a already exists"),
        ("timestamp('2024-01-01T00:00:00Z').getHours('No/Where') == 1", "unknown time zone No/Where"),
        ("cidr('10.0.0.0/8').containsIP('x.y')", "IP Address"),
        ("dyn('x').matches('[' + '')", "error parsing regexp: missing closing ]: `[`"),
    ],
)
def test_errors_are_told_in_upstreams_words(expression: str, error: str) -> None:
    told = result(expression)
    assert isinstance(told, str)
    assert told.startswith(error)


@pytest.mark.parametrize(
    ("expression", "where", "message"),
    [
        ("true &", "1:6", "Syntax error: token recognition error at: '&'"),
        ("(true", "1:6", "Syntax error: missing ')' at '<EOF>'"),
        ("true true", "1:6", "Syntax error: extraneous input 'true' expecting <EOF>"),
        ("true\n  && x", "2:6", "undeclared reference to 'x' (in container '')"),
        ("device.nothing == 1", "1:7", "undefined field 'nothing'"),
        ("1.a == 1", "1:2", "type 'int' does not support field selection"),
        ("device.driver.x == 1", "1:14", "type 'string' does not support field selection"),
        ("[1, 'a'].size() == 2", "1:5", "expected type 'int' but found 'string'"),
        ("[1].all(device.driver, true)", "1:15", "argument must be a simple name"),
        ("[1].all(i, i, true)", "1:12", "duplicate variable name: i"),
        ("if == 1", "1:1", "reserved identifier: if"),
        ("99999999999999999999 == 1", "1:1", "invalid int literal"),
        ("'%d'.format(['a']) == ''", "1:14", "error during formatting: decimal clause can only be used"),
        ("'%s %s'.format(['a']) == ''", "1:15", "index 1 out of range"),
        ("'%s'.format(['a', 'b']) == ''", "1:12", "too many arguments supplied to string.format"),
        ("timestamp('today') == timestamp('now')", "1:11", "invalid timestamp argument"),
    ],
)
def test_what_does_not_compile_is_told_with_its_place(expression: str, where: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        compile_selector(expression)
    assert caught.value.message.startswith(f"compilation failed: ERROR: <input>:{where}: {message}")


def test_many_devices_are_asked_at_once_and_one_that_fails_does_not_stop_the_others() -> None:
    devices = [
        device_of("d", {"attributes": {"model": {"string": model}}} if model else {})
        for model in ("a100", "", "h100")
    ]
    matches = compile_selector("device.attributes['d'].model == 'h100'").matches(devices)
    assert [match.matched for match in matches] == [False, False, True]
    assert [match.error for match in matches] == [None, "no such key: model", None]


def test_a_device_that_cannot_be_shown_fails_with_the_attribute_named() -> None:
    device = device_of("d", {"attributes": {"v": {"version": "1.x"}, "m": {"string": "a"}}})
    message = "attribute v: parse semantic version: No Major.Minor.Patch elements found"
    assert compile_selector("true").match(device).error == message
    empty = device_of("d", {"attributes": {"v": {}}})
    assert compile_selector("true").match(empty).error == "attribute v: unsupported attribute value"


def test_lists_as_attributes_are_for_environments_that_have_them() -> None:
    raw = {"attributes": {"links": {"strings": ["a", "b"]}, "versions": {"versions": ["1.0.0"]}}}
    assert device_of("d", raw).error == "attribute links: unsupported attribute value"
    device = device_of("d", raw, list_attributes=True)
    for expression in (
        "device.attributes['d'].links.exists(l, l == 'b')",
        "device.attributes['d'].links.includes('a')",
        "device.attributes['d'].versions[0] == semver('1.0.0')",
    ):
        assert compile_selector(expression, FEATURES_1_37).match(device).matched, expression
    with pytest.raises(SelectorError, match="cannot be range of a comprehension"):
        compile_selector("device.attributes['d'].links.exists(l, l == 'b')")


def test_a_field_of_a_gate_that_is_off_is_not_there() -> None:
    with pytest.raises(SelectorError, match="undefined field 'allowMultipleAllocations'"):
        compile_selector("device.allowMultipleAllocations", CelFeatures(consumable_capacity=False))
