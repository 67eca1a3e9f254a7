"""Go's text/template, as far as templates of manifests use it.

Fields of the data, variables, pipelines, `if`, `range` (also over a number), `with`, and the functions that
text/template has for comparing, choosing and printing; more functions come from the caller. `define`,
`template` and `block` are refused: a file of this kind is one document.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

Function = Callable[..., Any]

_ACTION: Final = re.compile(r"\{\{(-\s)?(.*?)(\s-)?\}\}", re.DOTALL)
_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<string>"(?:[^"\\]|\\.)*"|`[^`]*`)
    | (?P<number>[-+]?\d+(?:\.\d+)?)
    | (?P<variable>\$\w*(?:\.\w+)*)
    | (?P<field>\.(?:\w+(?:\.\w+)*)?)
    | (?P<name>\w+)
    | (?P<sign>:=|[=|(),])
    )""",
    re.VERBOSE,
)
_BLOCKS: Final = frozenset({"if", "range", "with"})
_ESCAPES: Final = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "'": "'"}


class TemplateError(ValueError):
    """A template that cannot be read, or data that do not fit it."""


class Template:
    """A template ready for use."""

    def __init__(self, text: str, functions: Mapping[str, Function] | None = None) -> None:
        self._functions = {**_BUILT_IN, **(functions or {})}
        parser = _Parser(text)
        self._body = parser.block(())
        self.fields = frozenset(parser.fields)
        """The first names of all fields of the data that are used outside `range` and `with`, and inside."""

    def render(self, data: Any) -> str:
        """The text for data. Raises TemplateError."""
        out: list[str] = []
        self._write(self._body, _Scope(data, {"$": data}), out)
        return "".join(out)

    def _write(self, body: "Sequence[_Part]", scope: "_Scope", out: list[str]) -> None:
        for part in body:
            if isinstance(part, str):
                out.append(part)
            elif isinstance(part, _Output):
                value = self._value(part.pipeline, scope)
                if not part.pipeline.variables:
                    out.append(printed(value))
            else:
                self._write_block(part, scope, out)

    def _write_block(self, block: "_Block", scope: "_Scope", out: list[str]) -> None:
        inner = _Scope(scope.dot, dict(scope.variables))
        value = self._value(block.pipeline, inner)
        if block.kind == "range":
            items = list(_items(value))
            for key, item in items:
                turn = _Scope(item, dict(inner.variables))
                names = block.pipeline.variables
                turn.variables.update(zip(names, (key, item) if len(names) == 2 else (item,), strict=False))
                self._write(block.body, turn, out)
            if not items:
                self._write(block.otherwise, inner, out)
        elif is_true(value):
            if block.kind == "with":
                inner.dot = value
            self._write(block.body, inner, out)
        else:
            self._write(block.otherwise, inner, out)

    def _value(self, pipeline: "_Pipeline", scope: "_Scope") -> Any:
        value: Any = None
        for number, command in enumerate(pipeline.commands):
            value = self._command(command, scope, () if number == 0 else (value,))
        if pipeline.variables and not pipeline.is_range:
            scope.variables[pipeline.variables[0]] = value
        return value

    def _command(self, command: "Sequence[_Operand]", scope: "_Scope", piped: tuple[Any, ...]) -> Any:
        first, *rest = command
        if first.kind != "name":
            if rest or piped:
                raise TemplateError(f"can't give argument to non-function {first.text}")
            return self._operand(first, scope)
        function = self._functions.get(first.text)
        if function is None:
            raise TemplateError(f'function "{first.text}" not defined')
        arguments = [*(self._operand(one, scope) for one in rest), *piped]
        try:
            return function(*arguments)
        except (TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise TemplateError(f"error calling {first.text}: {error}") from None

    def _operand(self, operand: "_Operand", scope: "_Scope") -> Any:
        if operand.pipeline is not None:
            return self._value(operand.pipeline, scope)
        if operand.kind == "field":
            return _field(scope.dot, operand.text[1:])
        if operand.kind == "variable":
            name, _, path = operand.text.partition(".")
            if name not in scope.variables:
                raise TemplateError(f'undefined variable "{name}"')
            return _field(scope.variables[name], path)
        if operand.kind == "name":
            return self._command([operand], scope, ())
        return operand.value


def printed(value: Any) -> str:
    """A value as Go prints it."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return str(value)


def is_true(value: Any) -> bool:
    """Truth of a value in `if`: anything that is not empty or zero."""
    return bool(value)


@dataclass(slots=True)
class _Scope:
    dot: Any
    variables: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Operand:
    kind: str
    text: str
    value: Any = None
    pipeline: "_Pipeline | None" = None


@dataclass(frozen=True, slots=True)
class _Pipeline:
    commands: tuple[tuple[_Operand, ...], ...]
    variables: tuple[str, ...] = ()
    is_range: bool = False


@dataclass(frozen=True, slots=True)
class _Output:
    pipeline: _Pipeline


@dataclass(frozen=True, slots=True)
class _Block:
    kind: str
    pipeline: _Pipeline
    body: "list[_Part]"
    otherwise: "list[_Part]" = field(default_factory=list)


_Part = str | _Output | _Block


class _Parser:
    """Texts and actions in turn, nested by `end`."""

    def __init__(self, text: str) -> None:
        self._pieces = list(_pieces(text))
        self._next = 0
        self.ended_by = ""
        self.fields: set[str] = set()

    def block(self, ends: tuple[str, ...]) -> list[_Part]:
        """Everything up to an action that begins with one of these words."""
        parts: list[_Part] = []
        while self._next < len(self._pieces):
            is_action, text = self._pieces[self._next]
            self._next += 1
            if not is_action:
                parts.append(text)
                continue
            word, _, rest = text.partition(" ")
            if word in ends:
                self.ended_by = text
                return parts
            if word in ("define", "template", "block", "end", "else"):
                raise TemplateError(f"unexpected {{{{{word}}}}}")
            parts.append(self._nested(word, rest) if word in _BLOCKS else _Output(self._pipeline(text)))
        if ends:
            raise TemplateError("unexpected EOF")
        return parts

    def _nested(self, kind: str, rest: str) -> _Block:
        pipeline = self._pipeline(rest, is_range=kind == "range")
        body = self.block(("end", "else"))
        otherwise: list[_Part] = []
        if self.ended_by.startswith("else"):
            word, _, condition = self.ended_by.removeprefix("else").strip().partition(" ")
            otherwise = [self._nested(word, condition)] if word else self.block(("end",))
        return _Block(kind, pipeline, body, otherwise)

    def _pipeline(self, text: str, *, is_range: bool = False) -> _Pipeline:
        tokens = _Tokens(text)
        variables = tokens.assigned()
        pipeline = self._commands(tokens, variables, is_range=is_range)
        if tokens.current:
            raise TemplateError(f"unexpected {tokens.current[1]!r} in {{{{{text}}}}}")
        return pipeline

    def _commands(
        self, tokens: "_Tokens", variables: tuple[str, ...] = (), *, is_range: bool = False
    ) -> _Pipeline:
        commands: list[tuple[_Operand, ...]] = []
        while True:
            operands: list[_Operand] = []
            while tokens.current and tokens.current[1] not in ("|", ")"):
                operands.append(self._operand(tokens))
            if not operands:
                raise TemplateError(f"missing value in {{{{{tokens.text}}}}}")
            commands.append(tuple(operands))
            if not tokens.accept("|"):
                return _Pipeline(tuple(commands), variables, is_range)

    def _operand(self, tokens: "_Tokens") -> _Operand:
        if tokens.accept("("):
            pipeline = self._commands(tokens)
            if not tokens.accept(")"):
                raise TemplateError(f"unclosed left paren in {{{{{tokens.text}}}}}")
            return _Operand("pipeline", "(...)", pipeline=pipeline)
        kind, text = tokens.take()
        if kind == "field" and len(text) > 1:
            self.fields.add(text[1:].partition(".")[0])
        if kind == "string":
            return _Operand(kind, text, _string(text))
        if kind == "number":
            return _Operand(kind, text, float(text) if "." in text else int(text))
        if text in _CONSTANTS:
            return _Operand("constant", text, _CONSTANTS[text])
        if kind == "sign":
            raise TemplateError(f"unexpected {text!r} in {{{{{tokens.text}}}}}")
        return _Operand(kind, text)


class _Tokens:
    """The words of one action."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words: list[tuple[str, str]] = []
        place = 0
        while text[place:].strip():
            found = _TOKEN.match(text, place)
            if found is None or found.lastgroup is None:
                raise TemplateError(f"unexpected {text[place:].strip()[:1]!r} in {{{{{text}}}}}")
            self._words.append((found.lastgroup, found.group(found.lastgroup)))
            place = found.end()
        self._place = 0

    @property
    def current(self) -> tuple[str, str] | None:
        return self._words[self._place] if self._place < len(self._words) else None

    def take(self) -> tuple[str, str]:
        word = self._words[self._place]
        self._place += 1
        return word

    def accept(self, sign: str) -> bool:
        """Go past a sign, if it comes next."""
        if self.current != ("sign", sign):
            return False
        self._place += 1
        return True

    def assigned(self) -> tuple[str, ...]:
        """The variables that the value is given to, `$x := ` or `$i, $x := `."""
        for number, word in enumerate(self._words):
            if word[1] in (":=", "=") and word[0] == "sign":
                self._place = number + 1
                return tuple(text for kind, text in self._words[:number] if kind == "variable")
        return ()


def _pieces(text: str) -> Iterator[tuple[bool, str]]:
    """Texts and actions: comments left out, white space cut where the action says so."""
    place, cut = 0, False
    for found in _ACTION.finditer(text):
        before = text[place : found.start()]
        before = before.lstrip() if cut else before
        yield False, before.rstrip() if found.group(1) else before
        place, cut = found.end(), bool(found.group(3))
        action = found.group(2).strip()
        if not action.startswith("/*"):
            yield True, " ".join(action.split(None, 1)) if action else ""
    rest = text[place:]
    yield False, rest.lstrip() if cut else rest


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | list | tuple | Mapping | None):
        raise TemplateError(f"range can't iterate over {printed(value)}")
    if isinstance(value, int):
        yield from ((number, number) for number in range(value))
    elif isinstance(value, Mapping):
        yield from sorted(value.items())
    elif value is not None:
        yield from enumerate(value)


def _field(value: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise TemplateError(f"can't evaluate field {name}")
        value = value.get(name)
    return value


def _string(text: str) -> str:
    if text.startswith("`"):
        return text[1:-1]
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), found.group(0)), text[1:-1])


def _or(*values: Any) -> Any:
    return next((value for value in values if is_true(value)), values[-1])


def _and(*values: Any) -> Any:
    return next((value for value in values if not is_true(value)), values[-1])


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        value = value[key]
    return value


_CONSTANTS: Final = {"nil": None, "true": True, "false": False}
_BUILT_IN: Final[Mapping[str, Function]] = {
    "or": _or,
    "and": _and,
    "not": lambda value: not is_true(value),
    "eq": lambda value, *others: any(value == other for other in others),
    "ne": lambda value, other: value != other,
    "lt": lambda value, other: value < other,
    "le": lambda value, other: value <= other,
    "gt": lambda value, other: value > other,
    "ge": lambda value, other: value >= other,
    "len": len,
    "index": _index,
    "print": lambda *values: "".join(map(printed, values)),
}
