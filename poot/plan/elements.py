"""Elements of fused values: pull-style lowering rules composed by recursion over index forms.

`Elements.read(value, index)` gives the value's element at an index.  A value that the kernel does not compute itself
is a load from its buffer, which is flat and contiguous; every other one comes from its equation's rule, whose readers
lead back here.  Whatever is made is kept for the rest of its block, so that shared values are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from poot.dtypes import ArraySpec
from poot.kernel.ir import Access, Const, Expr, Var
from poot.plan.emitter import Emitter
from poot.plan.indexing import Affine, Indices, Quotient, expand, flatten
from poot.records import record
from poot.trace.graph import Atom, Equation, Literal, Value
from poot.trace.primitives import Elementwise, Pull, PullContext, Reader, Update, lookup


@dataclass(frozen=True, slots=True)
class Inside:
    """The equations that a kernel computes itself: by the id of each output, and by output ids which of them change
    locals, and which are products that stand directly below the sum that reads them.
    """

    producers: Mapping[int, Equation]
    imperative: frozenset[int] = frozenset()
    products: frozenset[int] = frozenset()


_ACCESS: dict[str, Access] = {"out": "write", "inout": "readwrite"}


class Elements:
    """Reads and stores elements in one kernel; `arguments` are the value ids of its buffers, in order."""

    def __init__(self, k: Emitter, inside: Inside) -> None:
        self.k = k
        self.inside = inside
        self.arguments: list[int] = []
        self.resident: dict[int, Expr] = {}
        self.cached: dict[int, Callable[[Indices], Expr]] = {}
        self._buffers: dict[tuple[int, str], str] = {}

    # --- buffers ---

    def buffer(self, value: Value, kind: str) -> str:
        """The flat buffer of a value ("in", "out" or "inout"), or one of its own shape ("at"), made at first use."""
        key = value.id, kind
        if key not in self._buffers:
            shape = value.shape if kind == "at" else (value.spec.size,)
            access = _ACCESS.get(kind, "read")
            name = self.k.buffer(f"{kind}{len(self.arguments)}", value.dtype, access, shape)
            self._buffers[key] = name
            self.arguments.append(value.id)
        return self._buffers[key]

    def temporary(self, number: int, spec: ArraySpec, access: Access) -> str:
        """The buffer of a temporary of the group, of its own shape."""
        self.arguments.append(-1 - number)
        return self.k.buffer(f"part{number}", spec.dtype, access, spec.shape)

    def load(self, value: Value, index: Indices) -> Expr:
        """One element of a value that has a buffer."""
        flat = flatten(index, value.shape)
        return self.k.variable(self.k.load(self.buffer(value, "in"), (self.k.expr(flat),)), "v")

    def store(self, value: Value, index: Indices, element: Expr) -> None:
        """Write one element of an output."""
        flat = flatten(index, value.shape)
        self.k.store(self.buffer(value, "out"), (self.k.expr(flat),), element)

    # --- elements ---

    def read(self, atom: Atom, index: Indices) -> Expr:
        """The element of a value or literal at an index."""
        if isinstance(atom, Literal):
            return self.k.const(atom.value, atom.dtype)
        if atom.id in self.resident:
            return self.resident[atom.id]
        index = tuple(map(expand, index)) if atom.shape else ()
        known = self.k.recall((atom.id, index))
        if known is not None:
            return known
        if not self.k.transparent and _varies(index):
            with self.k.forgetting():
                return self._make(atom, index)
        return self._make(atom, index)

    def _make(self, value: Value, index: Indices) -> Expr:
        if value.id in self.cached:
            return self._keep(value, index, self.cached[value.id](index))
        equation = self.inside.producers.get(value.id)
        if equation is None:
            return self._keep(value, index, self.load(value, index))
        rule = lookup(equation.primitive).lower
        if isinstance(rule, Elementwise):
            return self._chain(value, index)
        assert isinstance(rule, Pull), equation.primitive
        results = self.pull(equation, rule, index)
        for output, result in zip(equation.outputs, results, strict=True):
            self._keep(output, index, result)
        return results[equation.outputs.index(value)]

    def _keep(self, value: Value, index: Indices, result: Expr) -> Expr:
        return self.k.remember((value.id, index), result)

    def _map_rule(self, atom: Atom) -> Elementwise | None:
        """The rule of a value that the kernel computes element by element."""
        if isinstance(atom, Literal) or atom.id in self.resident or atom.id in self.cached:
            return None
        equation = self.inside.producers.get(atom.id)
        rule = None if equation is None else lookup(equation.primitive).lower
        return rule if isinstance(rule, Elementwise) else None

    def _chain(self, value: Value, index: Indices) -> Expr:
        """A MAP with the MAPs above it, without recursion: chains may be long."""
        stack = [value]
        while stack:
            current = stack[-1]
            at = index if current.shape else ()
            if self.k.recall((current.id, at)) is not None:
                stack.pop()
                continue
            equation = self.inside.producers[current.id]
            inputs = [each for atom in equation.inputs for each in self._below(atom)]
            above = [atom for atom in inputs if isinstance(atom, Value) and self._map_rule(atom) is not None]
            waiting = [atom for atom in above if self.k.recall((atom.id, index if atom.shape else ())) is None]
            if waiting:
                stack += reversed(waiting)
                continue
            stack.pop()
            self._keep(current, at, self._apply(equation, index))
        made = self.k.recall((value.id, index))
        assert made is not None
        return made

    def _below(self, atom: Atom) -> tuple[Atom, ...]:
        """What has to be there for an operand: its factors, where it is a product that gets no name."""
        if isinstance(atom, Value) and atom.id in self.inside.products and self._map_rule(atom) is not None:
            return self.inside.producers[atom.id].inputs
        return (atom,)

    def term(self, atom: Atom, index: Indices) -> Expr:
        """The element of an operand of a sum: a product that nothing else reads stays an expression."""
        factors = self._below(atom)
        if factors == (atom,):
            return self.read(atom, index)
        return self.k.op("mul", *(self.read(factor, index) for factor in factors))

    def _apply(self, equation: Equation, index: Indices) -> Expr:
        rule = lookup(equation.primitive).lower
        assert isinstance(rule, Elementwise)
        operands = tuple(self.term(atom, index) for atom in equation.inputs)
        before, self.k.transparent = self.k.transparent, equation.outputs[0].id not in self.inside.imperative
        result = rule.body(self.k, operands, equation.params, equation.outputs[0].dtype)
        self.k.transparent = before
        return result if isinstance(result, (Const, Var)) else self.k.variable(result, "v")

    def pull(self, equation: Equation, rule: Pull, index: Indices) -> tuple[Expr, ...]:
        """The elements of a Pull's outputs at an index."""
        k = self.k
        context = self._context(equation)
        arguments = tuple(map(k.local, index))
        before, k.transparent = k.transparent, equation.outputs[0].id not in self.inside.imperative
        results = rule.body(context, arguments)
        k.transparent = before
        return tuple(result if isinstance(result, (Const, Var)) else k.variable(result, "v") for result in results)

    def update(self, equation: Equation, update: Update, point: Indices) -> None:
        """Change the elements of a point of an update, in the buffer of its result."""
        k, (value,) = self.k, equation.outputs
        buffer = self.buffer(value, "inout")

        def place(indices: Sequence[Expr]) -> tuple[Expr]:
            return (k.expr(flatten(tuple(map(k.form, indices)), value.shape)),)

        def read(indices: Sequence[Expr]) -> Expr:
            return k.variable(k.load(buffer, place(indices)), "v")

        context = self._context(equation)
        context = replace(context, readers=(read, *context.readers[1:]))
        update.body(context, tuple(map(k.local, point)), lambda at, element: k.store(buffer, place(at), element))

    def _context(self, equation: Equation) -> PullContext:
        return PullContext(
            self.k,
            tuple(self._reader(atom) for atom in equation.inputs),
            tuple(self._checked(atom) for atom in equation.inputs),
            tuple(atom.spec for atom in equation.inputs),
            tuple(output.spec for output in equation.outputs),
            equation.params,
        )

    def _reader(self, atom: Atom) -> Reader:
        def read(indices: Sequence[Expr]) -> Expr:
            return self.read(atom, tuple(map(self.k.form, indices)))

        return read

    def _checked(self, atom: Atom) -> Reader:
        def read(indices: Sequence[Expr]) -> Expr:
            if isinstance(atom, Literal) or not atom.shape:
                return self.read(atom, ())
            return self.k.variable(self.k.load(self.buffer(atom, "at"), indices, checked=True), "v")

        return read


def _varies(index: Sequence[Affine]) -> bool:
    """Whether an index holds something other than loop axes: a local may change between two reads."""
    return any(axis.source is not None and not _of_loops(axis.source) for form in index for axis in form.axes)


def _of_loops(source: Expr | Quotient) -> bool:
    return isinstance(source, Quotient) and not _varies((source.of,))


# --- probing: what a rule reads, without emitting a kernel -----------------------------------------------------------


@record
class Read:
    """One read of an operand; `checked` ones may be at any index."""

    operand: int
    index: Indices
    checked: bool


@record
class Probe:
    """What a Pull's body does at an index.

    `view`: the result is one operand element, at an affine index.  `constant`: nothing is read.  `imperative`: locals
    change, so that index expressions are not what they were declared as.
    """

    reads: tuple[Read, ...]
    view: bool
    constant: bool
    imperative: bool


def probe(k: Emitter, equation: Equation, rule: Pull, index: Indices) -> Probe:
    """Run the body of a rule on a builder whose statements are thrown away."""
    reads: list[Read] = []
    placeholders: list[Expr] = []

    def reader(operand: int, spec: ArraySpec, checked: bool) -> Reader:
        def read(indices: Sequence[Expr]) -> Expr:
            reads.append(Read(operand, tuple(map(k.form, indices)) if spec.shape else (), checked))
            placeholders.append(Var(k.fresh("read"), spec.dtype))
            return placeholders[-1]

        return read

    specs = tuple(atom.spec for atom in equation.inputs)
    context = PullContext(
        k,
        tuple(reader(number, spec, False) for number, spec in enumerate(specs)),
        tuple(reader(number, spec, True) for number, spec in enumerate(specs)),
        specs,
        tuple(output.spec for output in equation.outputs),
        equation.params,
    )
    k.assigned = False
    results = rule.body(context, tuple(map(k.local, index)))
    view = len(results) == 1 and len(reads) == 1 and results[0] is placeholders[0] and not reads[0].checked
    view = view and not _varies(reads[0].index)
    return Probe(tuple(reads), view, not reads, k.assigned)


def alias_of(equation: Equation, found: Probe, index: Indices) -> int:
    """The operand whose elements lie where those of the result do, or -1."""
    if not found.view:
        return -1
    (read,) = found.reads
    operand, (output,) = equation.inputs[read.operand], equation.outputs
    same = operand.spec.size == output.spec.size
    return read.operand if same and flatten(read.index, operand.shape) == flatten(index, output.shape) else -1
