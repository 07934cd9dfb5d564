"""CONTROL primitives: conditions and loops over regions, which are closed graphs.

cond(flag, *operands; regions=(when_false, when_true))
    runs one region on the operands; both have equal inputs and equal results.
while_loop(*condition_consts, *body_consts, *carry; condition_consts=n, body_consts=m, regions=(condition, body))
    while condition(*condition_consts, *carry) is true, carry = body(*body_consts, *carry); gives the last carry.
scan(*consts, *carry, *xs; consts=n, carry=m, length=k, reverse=False, regions=(body,))
    for each of k steps, carry, y = body(*consts, *carry, *x) with x the elements of xs along axis 0; gives the
    last carry, then each y of every step stacked along axis 0.  In reverse it goes from the last to the first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poot.dtypes import ArraySpec, bool_
from poot.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError
from poot.trace.graph import Graph, Params
from poot.trace.primitives import rules
from poot.trace.primitives.base import HostControl, OracleCall, Primitive, register

Array = np.ndarray[Any, Any]
Specs = tuple[ArraySpec, ...]


def _outputs(region: Graph) -> Specs:
    return tuple(atom.spec for atom in region.outputs)


def _regions(name: str, regions: tuple[Graph, ...], count: int) -> None:
    if len(regions) != count:
        raise ArgumentError(what=f"{name}: number of regions", actual=len(regions), expected=str(count))


def _matching(what: str, actual: Specs, expected: Specs) -> None:
    """ShapeError or DTypeError unless two lists of specs are equal."""
    if len(actual) != len(expected):
        raise ArgumentError(what=f"{what}: number of values", actual=len(actual), expected=str(len(expected)))
    for number, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        if mine.dtype is not theirs.dtype:
            raise DTypeError(what=f"{what}: value {number}", actual=mine.dtype, expected=theirs.dtype)
        if mine.shape != theirs.shape:
            raise ShapeError(what=f"{what}: value {number}", actual=mine.shape, expected=theirs.shape)


def _takes(name: str, region: Graph, operands: Specs) -> None:
    _matching(f"{name}: inputs of {region.name}", tuple(variable.spec for variable in region.inputs), operands)


def _flag(what: str, specs: Specs) -> None:
    _matching(what, specs, (ArraySpec(bool_, ()),))


def _counts(name: str, params: Params, *keys: str) -> tuple[int, ...]:
    found = tuple(rules.integer(name, params, key) for key in keys)
    if any(count < 0 for count in found):
        raise ArgumentError(what=f"{name}: {', '.join(keys)}", actual=found, expected="ints of at least 0")
    return found


# --- cond -----------------------------------------------------------------------------------------------------------


def _cond_type(specs: Specs, params: Params, regions: tuple[Graph, ...]) -> Specs:
    rules.parameters("cond", params)
    _regions("cond", regions, 2)
    _flag("cond: operand 1", specs[:1])
    for region in regions:
        _takes("cond", region, specs[1:])
    when_false, when_true = regions
    _matching(f"cond: results of {when_true.name}", _outputs(when_true), _outputs(when_false))
    return _outputs(when_false)


def _cond(call: OracleCall, flag: Array, *operands: Array) -> tuple[Array, ...]:
    return call.run(call.regions[int(flag)], operands)


register(
    Primitive(
        "cond",
        "control",
        "the results of the second region where a bool is true, else of the first, both on the other operands",
        _cond_type,
        _cond,
        HostControl("cond"),
        stored=True,
    )
)


# --- while_loop -----------------------------------------------------------------------------------------------------


def _while_type(specs: Specs, params: Params, regions: tuple[Graph, ...]) -> Specs:
    name = "while_loop"
    rules.parameters(name, params, "condition_consts", "body_consts")
    _regions(name, regions, 2)
    first, second = _counts(name, params, "condition_consts", "body_consts")
    condition, body = regions
    carry = specs[first + second :]
    if len(specs) < first + second:
        raise ArgumentError(
            what=f"{name}: number of operands", actual=len(specs), expected=f"at least {first + second}"
        )
    _takes(name, condition, specs[:first] + carry)
    _flag(f"{name}: result of {condition.name}", _outputs(condition))
    _takes(name, body, specs[first : first + second] + carry)
    _matching(f"{name}: results of {body.name}", _outputs(body), carry)
    return carry


def _while(call: OracleCall, *operands: Array) -> tuple[Array, ...]:
    first, second = _counts("while_loop", call.params, "condition_consts", "body_consts")
    condition, body = call.regions
    consts, carry = operands[first : first + second], operands[first + second :]
    while call.run(condition, (*operands[:first], *carry))[0]:
        carry = call.run(body, (*consts, *carry))
    return carry


register(
    Primitive(
        "while_loop",
        "control",
        "the carried values after running the second region on them while the first gives true",
        _while_type,
        _while,
        HostControl("while"),
        stored=True,
    )
)


# --- scan -----------------------------------------------------------------------------------------------------------


def _scan_type(specs: Specs, params: Params, regions: tuple[Graph, ...]) -> Specs:
    name = "scan"
    rules.parameters(name, params, "consts", "carry", "length", "reverse")
    _regions(name, regions, 1)
    consts, count, length = _counts(name, params, "consts", "carry", "length")
    if type(params["reverse"]) is not bool:
        raise ArgumentTypeError(what=f"{name}: reverse", actual=repr(params["reverse"]), expected="a bool")
    if len(specs) < consts + count:
        raise ArgumentError(
            what=f"{name}: number of operands", actual=len(specs), expected=f"at least {consts + count}"
        )
    (body,) = regions
    carry, xs = specs[consts : consts + count], specs[consts + count :]
    for number, spec in enumerate(xs, consts + count + 1):
        if spec.shape[:1] != (length,):
            raise ShapeError(what=f"{name}: operand {number}", actual=spec.shape, expected=f"extent {length} first")
    slices = tuple(ArraySpec(spec.dtype, spec.shape[1:]) for spec in xs)
    _takes(name, body, specs[: consts + count] + slices)
    results = _outputs(body)
    _matching(f"{name}: results of {body.name}", results[:count], carry)
    return carry + tuple(ArraySpec(spec.dtype, (length, *spec.shape)) for spec in results[count:])


def _scan(call: OracleCall, *operands: Array) -> tuple[Array, ...]:
    consts, count, length = _counts("scan", call.params, "consts", "carry", "length")
    (body,) = call.regions
    fixed, carry, xs = operands[:consts], operands[consts : consts + count], operands[consts + count :]
    ys = tuple(np.empty(spec.shape, spec.dtype.dtype) for spec in call.outputs[count:])
    steps = range(length)
    for step in reversed(steps) if call.params["reverse"] else steps:
        results = call.run(body, (*fixed, *carry, *(x[step] for x in xs)))
        carry = results[:count]
        for stacked, y in zip(ys, results[count:], strict=True):
            stacked[step] = y
    return (*carry, *ys)


register(
    Primitive(
        "scan",
        "control",
        "the carried values after running the region once a step on slices of the scanned operands, and its other "
        "results stacked",
        _scan_type,
        _scan,
        HostControl("scan"),
        stored=True,
    )
)
