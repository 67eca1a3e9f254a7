"""How arguments are read: forms, values, and what is said about those that make no sense."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.api.releases import DEFAULT
from stowplan.gocompat.durations import Duration
from stowplan.gocompat.quoting import quote
from stowplan.server.command import usage_text
from stowplan.server.flags.parser import Flag, FlagError, FlagGroup, parse
from stowplan.server.flags.table import GROUPS
from stowplan.server.flags.values import (
    INT,
    ModuleLevel,
    NamedPair,
    read_float32,
    read_list,
    show_float32,
    write_list,
)

_ODD_QUOTE = 'extraneous or missing " in quoted field'


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--config=a"], "config", "a"),
        (["--config", "a"], "config", "a"),
        (["--config", "--master"], "config", "--master"),
        (["--config="], "config", ""),
        (["--config=a=b"], "config", "a=b"),
        (["--config=a", "--config=b"], "config", "b"),
        (["--write_config-to=x"], "write-config-to", "x"),
        (["--leader_elect=false"], "leader-elect", False),
        (["--leader-elect=F"], "leader-elect", False),
        (["--authentication-skip-lookup"], "authentication-skip-lookup", True),
        (["--authentication-skip-lookup=0"], "authentication-skip-lookup", False),
        (["-v=2"], "v", 2),
        (["-v2"], "v", 2),
        (["-v", "2"], "v", 2),
        (["--v=10"], "v", 10),
        (["-hv4"], "v", 4),
        (["--secure-port=0x10"], "secure-port", 16),
        (["--secure-port=010"], "secure-port", 8),
        (["--secure-port=1_000"], "secure-port", 1000),
        (["--secure-port=-1"], "secure-port", -1),
        (["--kube-api-qps=7"], "kube-api-qps", 7.0),
        (["--kube-api-qps=1e2"], "kube-api-qps", 100.0),
        (["--kube-api-qps=0x1p3"], "kube-api-qps", 8.0),
        (["--kube-api-burst=-3"], "kube-api-burst", -3),
        (["--leader-elect-retry-period=1m30s"], "leader-elect-retry-period", Duration.of_seconds(90)),
        (["--bind-address=::"], "bind-address", "::"),
        (["--bind-address="], "bind-address", "0.0.0.0"),
        (["--bind-address= 10.0.0.1 "], "bind-address", "10.0.0.1"),
        (["--bind-address=::ffff:10.0.0.1"], "bind-address", "10.0.0.1"),
        (["--disabled-metrics=a,b", "--disabled-metrics", "c"], "disabled-metrics", ("a", "b", "c")),
        (["--authorization-always-allow-paths="], "authorization-always-allow-paths", ()),
        (['--disabled-metrics="a,b",c'], "disabled-metrics", ("a,b", "c")),
        (["--plugin=m:C,x", "--plugin=n:D"], "plugin", ("m:C,x", "n:D")),
        (["--tls-curve-preferences=23,0x18"], "tls-curve-preferences", (23, 24)),
        (["--allow-metric-labels=m,l=v"], "allow-metric-labels", {"m,l": "v"}),
        (['--allow-metric-labels="m,l=a,b","m,k=c"'], "allow-metric-labels", {"m,l": "a,b", "m,k": "c"}),
        (
            ["--allow-metric-labels=m,l=a", "--allow-metric-labels=m,k=b"],
            "allow-metric-labels",
            {"m,l": "a", "m,k": "b"},
        ),
        (
            ["--tls-sni-cert-key=a.crt, a.key:*.x.y,z"],
            "tls-sni-cert-key",
            (NamedPair("a.crt", "a.key", ("*.x.y", "z")),),
        ),
        (["--vmodule=a*=3,b=4,"], "vmodule", (ModuleLevel("a*", 3), ModuleLevel("b", 4))),
        (["--log-text-info-buffer-size=2Ki"], "log-text-info-buffer-size", "2Ki"),
        (
            ["--feature-gates=A=true, kube:B=false", "--feature-gates=C=1"],
            "feature-gates",
            (("", "A=true"), ("kube", "B=false"), ("", "C=1")),
        ),
        (["--version"], "version", "true"),
        (["--version=raw"], "version", "raw"),
        ([f"--version=v{DEFAULT.version}-rc.1+x"], "version", f"v{DEFAULT.version}-rc.1+x"),
    ],
)
def test_a_value_is_read(arguments: list[str], name: str, value: Any) -> None:
    parsed = parse(arguments, GROUPS)
    assert parsed.value(name) == value
    assert parsed.given(name)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--=x"], "bad flag syntax: --=x"),
        (["---config"], "bad flag syntax: ---config"),
        (["--no_such=1"], "unknown flag: --no_such"),
        (["-hz"], "unknown shorthand flag: 'z' in -z"),
        (["-'"], r"unknown shorthand flag: '\'' in -'"),
        (["-v"], "flag needs an argument: 'v' in -v"),
        (["--secure_port"], "flag needs an argument: --secure_port"),
        (
            ["--secure_port="],
            'invalid argument "" for "--secure-port" flag: strconv.ParseInt: parsing "": invalid syntax',
        ),
        (
            ["-v="],
            'invalid argument "=" for "-v, --v" flag: strconv.ParseUint: parsing "=": invalid syntax',
        ),
    ],
)
def test_a_mistake_is_told_in_the_words_people_know(arguments: list[str], message: str) -> None:
    with pytest.raises(FlagError) as refused:
        parse(arguments, GROUPS)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("v", "-1", 'strconv.ParseUint: parsing "-1": invalid syntax'),
        ("v", "2147483648", 'strconv.ParseUint: parsing "2147483648": value out of range'),
        ("secure-port", "08", 'strconv.ParseInt: parsing "08": invalid syntax'),
        ("secure-port", " 1", 'strconv.ParseInt: parsing " 1": invalid syntax'),
        ("secure-port", "1__0", 'strconv.ParseInt: parsing "1__0": invalid syntax'),
        ("secure-port", f"{2**63}", f'strconv.ParseInt: parsing "{2**63}": value out of range'),
        ("kube-api-burst", "2147483648", 'strconv.ParseInt: parsing "2147483648": value out of range'),
        ("kube-api-qps", "1e39", 'strconv.ParseFloat: parsing "1e39": value out of range'),
        ("kube-api-qps", "x", 'strconv.ParseFloat: parsing "x": invalid syntax'),
        ("bind-address", "1.2.3", 'failed to parse IP: "1.2.3"'),
        ("leader-elect-retry-period", "1y", 'time: unknown unit "y" in duration "1y"'),
        ("allow-metric-labels", "a", "a must be formatted as key=value"),
        ("allow-metric-labels", "a=1,b=2,c", "c must be formatted as key=value"),
        ("disabled-metrics", 'a"b', 'parse error on line 1, column 2: bare " in non-quoted field'),
        (
            "disabled-metrics",
            '"a',
            f"parse error on line 1, column 3: {_ODD_QUOTE}",
        ),
        (
            "disabled-metrics",
            '"a"b',
            f"parse error on line 1, column 3: {_ODD_QUOTE}",
        ),
        ("disabled-metrics", "\n", "EOF"),
        ("tls-sni-cert-key", "a", "expected comma separated certificate and key file paths"),
        ("tls-sni-cert-key", "a,b:", "empty names list is not allowed"),
        ("vmodule", "a", '"a" does not have the pattern=N format'),
        ("vmodule", "a=x", 'parsing verbosity in "a=x": strconv.ParseUint: parsing "x": invalid syntax'),
        ("version", "v1", 'illegal version string "v1"'),
        ("version", "vx", 'could not parse "vx" as version'),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_the_reason(name: str, text: str, reason: str) -> None:
    with pytest.raises(FlagError) as refused:
        parse([f"--{name}={text}"], GROUPS)
    shown = "-v, --v" if name == "v" else f"--{name}"
    assert str(refused.value) == f"invalid argument {quote(text)} for {quote(shown)} flag: {reason}"


def test_what_is_no_flag_is_left_over() -> None:
    assert parse(["a", "-v=1", "-", "--", "--config", "-v"], GROUPS).rest == ["a", "-", "--config", "-v"]


def test_a_deprecated_flag_works_and_is_hidden_from_the_help() -> None:
    group = FlagGroup(
        "old", (Flag("port", INT, 0, "A port.", deprecated="use --secure-port"), Flag("v", INT, 0, "V"))
    )
    parsed = parse(["--port=7"], [group])
    assert (parsed.number("port"), [flag.name for flag in parsed.deprecated]) == (7, ["port"])
    assert "--port" not in usage_text([group])


def test_values_are_shown_as_they_would_be_given() -> None:
    shown = parse(
        [
            "--disabled-metrics=b,a",
            "--allow-metric-labels=m,l=v",
            "--feature-gates=kube:B=true,kube:A=true",
            "--v=3",
            "--tls-sni-cert-key=a,b:c",
            "--tls-sni-cert-key=d,e",
            "--vmodule=x=1",
            "--kube-api-qps=0.1",
        ],
        GROUPS,
    ).shown()
    assert shown["disabled-metrics"] == "[b,a]"
    assert shown["allow-metric-labels"] == '["m,l=v"]'
    assert shown["feature-gates"] == "kube:B=true,kube:A=true"
    assert shown["tls-sni-cert-key"] == "[a,b:c;d,e]"
    assert (shown["v"], shown["vmodule"], shown["kube-api-qps"]) == ("3", "x=1", "0.1")
    assert list(shown) == sorted(shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("50", "50"),
        ("0.1", "0.1"),
        ("1e5", "100000"),
        ("1e6", "1e+06"),
        ("1e-5", "1e-05"),
        ("-2.5", "-2.5"),
        ("0", "0"),
        ("16777217", "1.6777216e+07"),
        ("inf", "+Inf"),
        ("NaN", "NaN"),
        (".5", "0.5"),
        ("123456", "123456"),
    ],
)
def test_numbers_are_shown_as_short_as_possible(text: str, shown: str) -> None:
    assert show_float32(read_float32(text)) == shown


@given(st.floats(width=32, allow_nan=False))
def test_a_number_survives_being_shown(number: float) -> None:
    assert read_float32(show_float32(number)) == number


@given(st.lists(st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"])), min_size=1))
def test_a_list_survives_being_written(values: list[str]) -> None:
    text = write_list(values)
    if text.strip("\n") == text and text:
        assert read_list(text) == tuple(values)
