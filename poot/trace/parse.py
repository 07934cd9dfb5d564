"""The parser of graph text; `text` has the grammar."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from poot.dtypes import BY_NAME, ArraySpec, DType
from poot.errors import ArgumentTypeError, GraphSyntaxError, PootError
from poot.trace.check import check_graph
from poot.trace.graph import Atom, Equation, Graph, Literal, Params, ParamValue, Tree, Value, Variable

T = TypeVar("T")

_TOKEN = re.compile(
    r"""
      (?P<string> "(?:[^"\\]|\\.)*" )
    | (?P<id>     %[0-9]+ )
    | (?P<number> nan\(0x[0-9a-f]{16}\) | -?(?:inf|nan)(?![\w.]) | -?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)? )
    | (?P<name>   [A-Za-z_][A-Za-z0-9_.]* )
    | (?P<mark>   [][(){}=,:!] )
    """,
    re.VERBOSE,
)
_SPACE = re.compile(r"\s*")


def is_plain_name(name: str) -> bool:
    """Whether a name stands in text as it is, without quotes."""
    match = _TOKEN.match(name)
    return match is not None and match.lastgroup == "name" and match.end() == len(name)


def parse_graph(text: str) -> Graph:
    """The graph that `format_graph` wrote; GraphSyntaxError names the line, GraphError what does not check."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(what="parse_graph: text", actual=type(text).__name__, expected="a str")
    parser = _Parser(text)
    try:
        graph = parser.graph()
    except PootError:
        raise
    except RecursionError:
        parser.fail("nested too deeply")
    except (ValueError, OverflowError, struct.error):
        parser.fail("a number that is too long")
    if parser.token.kind != "end":
        parser.fail("expected the end of the text")
    check_graph(graph)
    return graph


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


class _Parser:
    __slots__ = ("specs", "text", "token")

    def __init__(self, text: str) -> None:
        self.text = text
        self.specs: dict[int, ArraySpec] = {}
        self.token = _Token("start", "", 0)
        self.token = self.scan(0)

    # --- tokens ---

    def scan(self, position: int) -> _Token:
        space = _SPACE.match(self.text, position)
        start = position if space is None else space.end()
        if start == len(self.text):
            return _Token("end", "", start)
        match = _TOKEN.match(self.text, start)
        if match is None:
            self.fail("unexpected character", start)
        return _Token(str(match.lastgroup), match.group(), start)

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        position = self.token.start if position is None else position
        line = self.text.count("\n", 0, position)
        raise GraphSyntaxError(line=line + 1, message=message, text=self.text.split("\n")[line].strip())

    def take(self) -> _Token:
        token = self.token
        self.token = self.scan(token.start + len(token.text))
        return token

    def at(self, text: str) -> bool:
        return self.token.text == text and self.token.kind in ("name", "mark")

    def accept(self, text: str) -> bool:
        found = self.at(text)
        if found:
            self.take()
        return found

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}")

    def of(self, kind: str, what: str) -> str:
        if self.token.kind != kind:
            self.fail(f"expected {what}")
        return self.take().text

    def name(self) -> str:
        if self.token.kind == "string":
            return self.string()
        return self.of("name", "a name")

    def string(self) -> str:
        token = self.token
        try:
            found: object = json.loads(self.of("string", "a string"))
        except json.JSONDecodeError:
            self.fail("a string that is not JSON", token.start)
        return str(found)

    def items(self, item: Callable[[], T], close: str) -> tuple[T, ...]:
        """Items set apart by commas, with one allowed after the last, up to a closing mark."""
        found: list[T] = []
        while not self.accept(close):
            found.append(item())
            if not self.at(close):
                self.expect(",")
        return tuple(found)

    # --- graphs ---

    def graph(self) -> Graph:
        outer, self.specs = self.specs, {}
        self.expect("graph")
        name = self.name()
        self.expect("{")
        variables = {kind: tuple(self.variables(kind)) for kind in ("constant", "input", "state")}
        equations: list[Equation] = []
        while self.token.kind == "id" or self.at("("):
            equations.append(self.equation())
        updates: list[tuple[str, Atom]] = []
        while self.accept("update"):
            state = self.name()
            self.expect("=")
            updates.append((state, self.atom()))
        self.expect("return")
        outputs: list[Atom] = []
        tree = self.tree(outputs)
        self.expect("}")
        self.specs = outer
        return Graph(
            variables["constant"],
            variables["input"],
            variables["state"],
            tuple(equations),
            tuple(outputs),
            tree,
            tuple(updates),
            name,
        )

    def variables(self, kind: str) -> list[Variable]:
        found: list[Variable] = []
        while self.accept(kind):
            number = self.id()
            name = self.name()
            self.expect(":")
            found.append(Variable(name, self.define(number, self.spec())))
        return found

    def equation(self) -> Equation:
        outputs: list[Value] = []
        if self.accept("("):
            self.expect(")")
        else:
            outputs.append(self.result())
            while self.accept(","):
                outputs.append(self.result())
        self.expect("=")
        primitive = self.name()
        inputs: list[Atom] = []
        while self.at_operand():
            inputs.append(self.atom())
        params = dict(self.items(self.parameter, "]")) if self.accept("[") else {}
        effects: set[str] = set()
        while self.accept("!"):
            effects.add(self.name())
        regions: list[Graph] = []
        while self.at("graph"):
            regions.append(self.graph())
        for value in outputs:
            self.define(value.id, value.spec)
        return Equation(primitive, tuple(inputs), Params(params), tuple(outputs), tuple(regions), frozenset(effects))

    def at_operand(self) -> bool:
        """Whether an atom follows that is not the first result of the next equation, `%3: …`."""
        token = self.token
        if token.kind == "id":
            return self.scan(token.start + len(token.text)).text != ":"
        return token.kind == "number" or self.at("true") or self.at("false")

    def result(self) -> Value:
        number = self.id()
        self.expect(":")
        return Value(number, self.spec())

    def parameter(self) -> tuple[str, ParamValue]:
        name = self.name()
        self.expect("=")
        return name, self.value()

    # --- atoms, trees, values ---

    def id(self) -> int:
        return int(self.of("id", "a value such as %0")[1:])

    def define(self, number: int, spec: ArraySpec) -> Value:
        self.specs[number] = spec
        return Value(number, spec)

    def atom(self) -> Atom:
        if self.token.kind == "id":
            token = self.token
            number = self.id()
            if number not in self.specs:
                self.fail(f"%{number} is used before it is defined", token.start)
            return Value(number, self.specs[number])
        value = self.number() if self.token.kind == "number" else self.boolean()
        self.expect(":")
        return Literal(value, self.dtype())

    def boolean(self) -> bool:
        if not (self.at("true") or self.at("false")):
            self.fail("expected a value or a literal")
        return self.take().text == "true"

    def number(self) -> int | float:
        text = self.of("number", "a number")
        if text.startswith("nan("):
            (found,) = struct.unpack("<d", struct.pack("<Q", int(text[4:-1], 16)))
            return float(found)
        if text in ("nan", "-nan"):
            return math.nan
        return float(text) if re.search(r"[.einf]", text) else int(text)

    def dtype(self) -> DType:
        token = self.token
        name = self.of("name", "a dtype")
        if name not in BY_NAME:
            self.fail(f"unknown dtype {name!r}", token.start)
        return BY_NAME[name]

    def spec(self) -> ArraySpec:
        dtype = self.dtype()
        self.expect("[")
        return self.shaped(dtype)

    def shaped(self, dtype: DType) -> ArraySpec:
        start = self.token.start
        extents = self.items(self.number, "]")
        try:
            return ArraySpec(dtype, tuple(extent if isinstance(extent, int) else -1 for extent in extents))
        except PootError as error:
            self.fail(error.summary, start)

    def value(self) -> ParamValue:
        if self.token.kind == "string":
            return self.string()
        if self.token.kind == "number":
            return self.number()
        if self.accept("("):
            return self.items(self.value, ")")
        if self.accept("none"):
            return None
        if self.at("true") or self.at("false"):
            return self.boolean()
        dtype = self.dtype()
        return self.shaped(dtype) if self.accept("[") else dtype

    def tree(self, outputs: list[Atom]) -> Tree:
        def child() -> Tree:
            return self.tree(outputs)

        def pair() -> tuple[str | int, Tree]:
            key = self.key()
            self.expect(":")
            return key, child()

        def field() -> tuple[str | int, Tree]:
            key = self.name()
            self.expect("=")
            return key, child()

        if self.accept("("):
            return Tree("tuple", self.items(child, ")"))
        if self.accept("["):
            return Tree("list", self.items(child, "]"))
        if self.accept("{"):
            pairs = self.items(pair, "}")
            return Tree("dict", tuple(value for _, value in pairs), tuple(key for key, _ in pairs))
        if self.token.kind in ("name", "string"):
            token = self.token
            name = self.name()
            if self.accept("("):
                pairs = self.items(field, ")")
                return Tree("namedtuple", tuple(value for _, value in pairs), tuple(key for key, _ in pairs), name)
            if token.text == "none":
                return Tree("none")
            self.token = token
        outputs.append(self.atom())
        return Tree()

    def key(self) -> str | int:
        token = self.token
        if token.kind == "string":
            return self.string()
        found = self.number()
        if isinstance(found, float):
            self.fail("expected a string or an int", token.start)
        return found
