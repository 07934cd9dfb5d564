"""Every exception that poot raises: one message template each, a remedy, and the user's line with a caret.

An error is made from named fields, `raise ShapeError(what="w", expected=…, actual=…, where=location)`, so that messages
stay uniform and tests can compare fields as well as text.  Each class also derives from the built-in exception that a
Python programmer would catch (`ValueError`, `TypeError`, `IndexError` …).
"""
# size: every exception stands in this one table.

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in the user's program: file, 1-based line, 0-based column range (-1: unknown), enclosing function."""

    file: str
    line: int
    column: int = -1
    end_column: int = -1
    function: str = ""

    @property
    def text(self) -> str:
        """The source line without its line end, or "" where Python has no source."""
        return linecache.getline(self.file, self.line).rstrip("\n")

    @override
    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column + 1}" if self.column >= 0 else "")

    def render(self) -> str:
        """The location, the source line, and a caret below the column range where one is known."""
        head = f"  at {self}" + (f" in {self.function}" if self.function else "")
        text = self.text
        if not text.strip():
            return head
        indent = len(text) - len(text.lstrip())
        lines = [head, "    " + text.strip()]
        if self.column >= indent:
            width = max(1, min(self.end_column, len(text)) - self.column) if self.end_column > self.column else 1
            lines.append("    " + " " * (self.column - indent) + "^" * width)
        return "\n".join(lines)


def an(kind: str) -> str:
    """The name of a kind with its article."""
    return f"an {kind}" if kind[:1] in "AEIOUaeiou" else f"a {kind}"


_finders: list[Callable[[], SourceLocation | None]] = []


def locate_with(find: Callable[[], SourceLocation | None]) -> None:
    """Say how the user's line is found, which a layer above knows."""
    _finders[:] = [find]


def caller() -> SourceLocation | None:
    """The user's line that called poot, where a layer above knows how it is found."""
    return _finders[0]() if _finders else None


def printable(text: str) -> str:
    """A text that can be written as UTF-8: halves of UTF-16 pairs, which Python's names may have, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


class PootError(Exception):
    """Base of every poot error: `fields` fill `template`; `where` is the user's line; `remedy` says what to do.

    Errors that are `about_a_call` name the line of the call where they are made without one.
    """

    template: ClassVar[str] = "{message}"
    default_remedy: ClassVar[str] = ""
    about_a_call: ClassVar[bool] = False

    def __init__(self, *, where: SourceLocation | None = None, remedy: str | None = None, **fields: Any) -> None:
        self.fields: dict[str, Any] = fields
        self._guessed = where is None and self.about_a_call and bool(_finders)
        self.where: SourceLocation | None = _finders[0]() if self._guessed else where
        self.remedy: str = self.default_remedy if remedy is None else remedy
        super().__init__(self._render())

    @property
    def summary(self) -> str:
        """What went wrong, without the line and the remedy: for messages that tell of another error."""
        return self.template.format_map(self.fields)

    def _render(self) -> str:
        parts = [self.summary]
        if self.where is not None:
            parts.append(self.where.render())
        if self.remedy:
            parts.append("  Remedy: " + self._filled_remedy())
        return printable("\n".join(parts))

    def _filled_remedy(self) -> str:
        try:
            return self.remedy.format_map(self.fields)
        except (LookupError, ValueError, AttributeError):  # the braces are those of a name of the user's
            return self.remedy

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.where, self.remedy, self.fields)

    def at(self, where: SourceLocation | None) -> PootError:
        """The same error with a location filled in, where it has none yet."""
        if (self.where is None or self._guessed) and where is not None:
            self.where, self._guessed = where, False
            self.args = (self._render(),)
        return self


def retyped(error: PootError, typed: type[PootError], fields: dict[str, Any] | None = None) -> PootError:
    """The same error as one of another type, or with other fields."""
    made = typed(where=error.where, remedy=error.remedy, **(error.fields if fields is None else fields))
    made._guessed = error._guessed  # pyright: ignore[reportPrivateUsage]
    return made


def _rebuild(cls: type[PootError], where: SourceLocation | None, remedy: str, fields: dict[str, Any]) -> PootError:
    error = cls(where=where, remedy=remedy, **fields)
    error.where = where  # not the line that asks for the copy
    error.args = (error._render(),)  # pyright: ignore[reportPrivateUsage]
    return error


# --- values ---------------------------------------------------------------------------------------------------------


class DTypeError(PootError, TypeError):
    """A dtype that does not fit: {what} has {actual}, {expected} was needed."""

    about_a_call = True
    template = "{what}: dtype {actual}, expected {expected}"


class UnsupportedDTypeError(PootError, TypeError):
    """An array of objects, strings, dates or another dtype that poot has no type for."""

    about_a_call = True
    template = "{what}: dtype {actual} is not supported"
    default_remedy = "convert it first; poot takes bool, i8 to u64, f16, bf16, f32 and f64."


class ShapeError(PootError, ValueError):
    """Shapes or ranks that do not fit together."""

    about_a_call = True
    template = "{what}: shape {actual}, expected {expected}"


class ArgumentError(PootError, ValueError):
    """A wrong value of an argument that is no array: an axis, a mode, a size."""

    about_a_call = True
    template = "{what}: {actual!r} is not valid, expected {expected}"


class ArgumentTypeError(PootError, TypeError):
    """An argument of a wrong Python type."""

    about_a_call = True
    template = "{what}: {actual} given, expected {expected}"


class OverflowArgumentError(PootError, OverflowError):
    """A Python number that the dtype it meets cannot hold."""

    about_a_call = True
    template = "{value} does not fit {dtype}"
    default_remedy = "use a value between {low} and {high}, or cast the array to a wider dtype."


class ExchangeError(PootError, BufferError):
    """An array that one library does not give, or another does not take, as the protocols between them say."""

    about_a_call = True
    template = "{what}: {message}"


# --- graphs and traces ----------------------------------------------------------------------------------------------


class BuilderError(PootError, ValueError):
    """A call on a Builder, or an operation on its handles, that cannot succeed."""

    about_a_call = True


class ForeignHandleError(BuilderError):
    """A handle that belongs to another builder or trace."""

    template = "{what} belongs to another builder or trace"
    default_remedy = "make every operand with the builder that will finish the graph."


class FinishedBuilderError(BuilderError):
    """A builder used after `finish`."""

    template = "this builder has already finished its graph"
    default_remedy = "make a new Builder for a new graph."


class DuplicateNameError(BuilderError):
    """Two constants, inputs or states of one name."""

    template = "the name {name!r} is already used by {kind} of this graph"
    default_remedy = "choose another name."


class BuilderDTypeError(BuilderError, DTypeError):
    """A DTypeError of a call on a Builder."""

    template = DTypeError.template


class BuilderShapeError(BuilderError, ShapeError):
    """A ShapeError of a call on a Builder."""

    template = ShapeError.template


class BuilderArgumentError(BuilderError, ArgumentError):
    """An ArgumentError of a call on a Builder."""

    template = ArgumentError.template


class BuilderTypeError(BuilderError, ArgumentTypeError):
    """An ArgumentTypeError of a call on a Builder."""

    template = ArgumentTypeError.template


class BuilderOverflowError(BuilderError, OverflowArgumentError):
    """An OverflowArgumentError of a call on a Builder."""

    template = OverflowArgumentError.template


class BuilderUnsupportedDTypeError(BuilderError, UnsupportedDTypeError):
    """An UnsupportedDTypeError of a call on a Builder."""

    template = UnsupportedDTypeError.template


class LimitError(BuilderError):
    """A request past a limit of TraceLimits or CompileLimits; nothing was allocated.

    `by` says what would have passed it, where that is more than the line of the call: a pass, an equation, a kernel.
    """

    about_a_call = True
    template = "{resource}: {attempted} is past the limit of {limit}"
    default_remedy = "raise {resource} in the limits, or make the program smaller."

    @property
    @override
    def summary(self) -> str:
        text = super().summary
        return f"{text}, {self.fields['by']}" if self.fields.get("by") else text


class GraphError(PootError, ValueError):
    """A graph that does not type-check; names the equation."""

    about_a_call = True
    template = "{equation}: {message}"
    default_remedy = "make graphs with poot.trace(f).graph(…) or a Builder, which check each equation as it is made."


class GraphSyntaxError(PootError, ValueError):
    """Graph text that does not parse."""

    about_a_call = True
    template = "line {line}: {message}: {text!r}"
    default_remedy = "write it as `print(graph)` does."


class TraceError(PootError, TypeError):
    """Something a traced function cannot do."""


class ConcretizationError(TraceError):
    """A tracer used as a bool, int, float, index or NumPy array."""

    template = "{what} has no value while {function} is being traced, so it cannot be used as {use}"


class TracerMutationError(TraceError):
    """`x[i] = v` on a tracer."""

    template = "{what} cannot be changed in place while {function} is being traced"
    default_remedy = "write `x = x.at[i].set(v)`."


class ArrayMutationError(PootError, TypeError):
    """`x[i] = v` on a concrete array."""

    template = "{what} cannot be changed in place"
    default_remedy = "write `x = x.at[i].set(v)`, or let a kernel write to it."


class EscapedTracerError(TraceError):
    """A tracer used after its trace has ended."""

    template = "{what} was made while {function} was traced and is used after that trace ended"
    default_remedy = "return it from the traced function instead of keeping it in a global, attribute or closure."


class CaptureError(TraceError):
    """An argument or captured object that cannot be part of a trace."""

    template = "{what}: {message}"


class FeatureError(PootError, AttributeError):
    """A feature of other libraries that poot does not have; the message names it."""

    about_a_call = True
    template = "poot has no {feature} yet"
    default_remedy = "compute it with what there is: `dir(poot.ops)` lists the operations."


#: Transformations of functions that there are not, of `poot` and of traced functions.
TRANSFORMATIONS = frozenset(
    {"grad", "value_and_grad", "vmap", "pmap", "vjp", "jvp", "jacfwd", "jacrev", "hessian", "lower"}
)


class EvaluateError(PootError, ValueError):
    """Bindings of an evaluation or step that do not fit its graph."""

    about_a_call = True
    template = "{what}: {message}"


class IndexFault(PootError, IndexError):
    """An index out of range in gather, scatter or an indexing expression."""

    template = "{what}: index {index} is out of range for axis {axis} of extent {extent}"
    default_remedy = (
        'if out-of-range indices are meant, pass mode="clip", "wrap" or "fill" to ops.take, ops.take_along_axis or '
        "x.at[index].get()."
    )


class ScatterFault(IndexFault):
    """An index out of range in scatter."""

    default_remedy = (
        'if out-of-range indices are meant, pass mode="clip", "wrap" or "drop" to the method of x.at[index].'
    )


# --- kernels --------------------------------------------------------------------------------------------------------


class KernelError(PootError, TypeError):
    """A kernel that is not valid: syntax, types, flow; with the user's line."""


class KernelSourceError(KernelError):
    """A function whose source Python does not have."""


class KernelSyntaxError(KernelError):
    """Python that the kernel language does not have."""

    template = "kernel {kernel}: {message}"


class KernelNameError(KernelError, NameError):
    """A name or attribute that a kernel uses and that is not there."""

    template = "kernel {kernel}: {message}"


class KernelTypeError(KernelError):
    """Values in a kernel whose dtypes or ranks do not fit together."""

    template = "kernel {kernel}: {message}"


class KernelCheckError(KernelError):
    """Kernel IR that does not check."""

    template = "kernel {kernel}: {message}"


class KernelFault(PootError, IndexError):
    """The first failed bounds check or assertion of a launch, found when a result is read."""

    template = "kernel {kernel}: {message}"


class LaunchError(PootError, ValueError):
    """Arguments, grid or work-group of a launch that do not fit the kernel; nothing has run."""

    about_a_call = True
    template = "kernel {kernel}: {message}"


# --- compiling ------------------------------------------------------------------------------------------------------


class CompileError(PootError, RuntimeError):
    """A program or kernel that did not compile; carries the compiler's own message."""

    about_a_call = True
    template = "{what} did not compile for {target}: {message}"
    default_remedy = (
        "its compiler refused the text, which `.source(…)` of the kernel or program shows; another device or language "
        "may take it. Report it to whoever wrote the language."
    )

    #: The error of a pass that makes a graph grow out of proportion.
    Expansion: ClassVar[type[ExpansionError]]


class ExpansionError(CompileError):
    """A pass that would leave many times the equations that it was given."""

    template = (
        "{what} did not compile for {target}: pass {name} makes {attempted} equations of {given}, its budget is {limit}"
    )
    default_remedy = "make the primitive that expands so far smaller, or write it as a loop."


CompileError.Expansion = ExpansionError


class Unsupported(CompileError):
    """Something that the target cannot do: a dtype, feature or size."""

    template = "{what} is not supported by {target}: {message}"
    default_remedy = ""


class PlacementError(PootError, ValueError):
    """A placement of a graph over devices that cannot be compiled."""

    about_a_call = True
    default_remedy = "place everything on one device: DevicePlacement.single(DeviceId(0)), TargetSet.single(…)."


class TargetError(PootError, ValueError):
    """A target name that does not parse."""

    about_a_call = True
    template = "unknown target {name!r}: {message}"
    default_remedy = 'write "cpu", "cuda:sm_90" and the like, or pass the target of a device: poot.device(…).target.'


# --- devices and engines --------------------------------------------------------------------------------------------


class DeviceError(PootError, RuntimeError):
    """A device that failed or cannot be used."""

    about_a_call = True
    template = "device {device}: {message}"
    default_remedy = "run `poot doctor`, which says what works here, or use another device."


class DeviceUnavailableError(DeviceError):
    """A device that is not present on this machine."""

    about_a_call = True
    template = "device {device} is not available: {message}"
    default_remedy = "run `poot.devices()` to see what is here and why."


class DeviceLostError(DeviceError):
    """A device that stopped working, with all that it held."""

    template = "device {device} was lost, and with it the contents of its arrays: {message}"
    default_remedy = (
        'make the arrays anew: poot.device("{device}") and calls open the device again; a new Engine loads the weights.'
    )


class DeviceMismatchError(DeviceError):
    """Arguments that live on different devices."""

    template = "arguments live on different devices: {devices}"
    default_remedy = "move them to one device first, such as with x.to_device(…)."


class AllocationError(PootError, MemoryError):
    """Device or host memory that could not be had."""

    about_a_call = True
    template = "could not allocate {nbytes} bytes on {device}: {message}"
    default_remedy = (
        "use smaller arrays or a dtype of fewer bytes, let go of arrays that are not needed any more, or pass another "
        "device."
    )


class EngineError(PootError, RuntimeError):
    """An engine, exe or entry used wrongly: after unload, twice, from another engine."""

    about_a_call = True


class StateLost(EngineError):
    """State that a failed step, or a failed assignment, left undefined."""

    template = "state {name!r} is undefined: {what} failed while it was written"
    default_remedy = "set it with exe.state[{name!r}] = value, or exe.state.reset()."


class WeightError(PootError, ValueError):
    """Weights that are missing, unknown, or of the wrong shape or dtype."""

    about_a_call = True
    template = "weight {name!r}: {message}"


class WeightsError(WeightError):
    """All weights that are missing, unknown, or of the wrong shape or dtype, one or many, listed by what is wrong."""

    template = "{weights} not fit:{listing}"


class WeightFileError(PootError, ValueError):
    """A weight file that is missing, truncated or damaged."""

    about_a_call = True
    template = "{path}: {message}"
    default_remedy = "the file is damaged, or no safetensors file: fetch it again, or save the weights anew."


class SerialisationError(PootError, ValueError):
    """A saved graph, program or target that this version does not know, or that is damaged."""

    about_a_call = True
    template = "{what}: {message}"
    default_remedy = "save it again from what it was made of; a file that was copied may be cut short."
