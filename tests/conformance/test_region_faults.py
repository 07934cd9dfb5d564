"""Faults in branches and in the bodies of loops: the error is that of the oracle, which names the line in there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import poot
from poot import ops
from poot.errors import IndexFault, KernelFault

#: Many small functions share the line that calls them.
pytestmark = pytest.mark.filterwarnings("ignore::poot.api.cache.RetraceWarning")

Leaf: TypeAlias = Callable[[Any, Any], Any]
Form: TypeAlias = Callable[[Leaf, Any, Any], Any]

EXTENT = 8
X = np.arange(float(EXTENT), dtype=np.float32)


# --- what faults: from [EXTENT] numbers and a 0-d index, such numbers -----------------------------------------------


@poot.kernel
def pick(x: poot.In[poot.f32], i: poot.In[poot.i32], o: poot.Out[poot.f32]) -> None:
    t = poot.thread_index()
    if t < len(o):
        o[t] = x[i[0]]  # a kernel's line


@poot.kernel
def guarded(x: poot.In[poot.f32], i: poot.In[poot.i32], o: poot.Out[poot.f32]) -> None:
    t = poot.thread_index()
    assert i[0] < len(x), "there is no such place"  # a kernel's line
    if t < len(o):
        o[t] = x[t]


def called(kernel: Any) -> Leaf:
    return lambda x, i: kernel(x, ops.reshape(ops.astype(i, poot.i32), (1,)), poot.f32[EXTENT], threads=EXTENT)


LEAVES: Mapping[str, Leaf] = {
    "index": lambda x, i: ops.sqrt(x) + x[i],
    "take": lambda x, i: x * ops.take(ops.sort(x), ops.reshape(i, (1,))),
    "take_along_axis": lambda x, i: ops.take_along_axis(x, ops.broadcast_to(i, (3,)), axis=0)[:1] + x,
    "set": lambda x, i: x.at[i].set(1.0),
    "add": lambda x, i: ops.exp(x).at[ops.stack([i, i])].add(1.0),
    "kernel": called(pick),
    "assertion": called(guarded),
}


# --- where: each runs a leaf in a region, `i` as the last of its indices --------------------------------------------


def in_a_branch(leaf: Leaf, x: Any, i: Any) -> Any:
    return ops.cond(i > 0, lambda: leaf(x, i), lambda: x)


def in_the_other_branch(leaf: Leaf, x: Any, i: Any) -> Any:
    return ops.cond(i < 0, lambda y: y, lambda y: leaf(y + 1.0, i), x)


def in_a_scan(leaf: Leaf, x: Any, i: Any) -> Any:
    return ops.scan(lambda c, k: (leaf(c, k) * 0.5, c[0]), x, ops.stack([i * 0, i, i + 1]))[0]


def in_a_scan_of_rows(leaf: Leaf, x: Any, i: Any) -> Any:
    rows = ops.stack([x, x + 1.0])
    return ops.scan(lambda c, r: (c + 1, leaf(r, i)), 0, rows, reverse=True)[1][1]


def in_a_loop(leaf: Leaf, x: Any, i: Any) -> Any:
    return ops.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, leaf(c[1], i * c[0])), (0, x))[1]


def in_a_condition(leaf: Leaf, x: Any, i: Any) -> Any:
    return ops.while_loop(
        lambda c: ops.all(leaf(c[1], i * c[0]) != -1.5) & (c[0] < 3), lambda c: (c[0] + 1, c[1]), (0, x)
    )[1]


FORMS: Mapping[str, Form] = {
    form.__name__: form
    for form in (in_a_branch, in_the_other_branch, in_a_scan, in_a_scan_of_rows, in_a_loop, in_a_condition)
}


def nested(leaf: Leaf, forms: list[Form]) -> Leaf:
    for form in forms:
        leaf = functools.partial(form, leaf)
    return leaf


def fault(run: Callable[[], Any]) -> str:
    with pytest.raises((IndexFault, KernelFault)) as caught:
        run()
    assert caught.value.where is not None and caught.value.where.file == __file__
    return str(caught.value)


def check(leaf: Leaf, index: np.ndarray, device: str) -> str:
    function = poot.trace(device=device)(leaf)
    expected = fault(lambda: function.evaluate(X, index))
    assert fault(lambda: np.asarray(function(X, index))) == expected
    return expected


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LEAVES)
def test_a_region(name: str, form: str, device_name: str) -> None:
    message = check(nested(LEAVES[name], [FORMS[form]]), np.asarray(100, np.int32), device_name)
    assert f'    "{name}": ' in message or "# a kernel's line" in message


@pytest.mark.parametrize("seed", range(7))
def test_regions_in_regions(seed: int, device_name: str) -> None:
    rng = np.random.default_rng(seed)
    forms = [list(FORMS.values())[place] for place in rng.integers(0, len(FORMS), rng.integers(2, 4))]
    names = sorted(LEAVES)
    check(nested(LEAVES[names[seed % len(names)]], forms), np.asarray(100, np.int32), device_name)


@pytest.mark.parametrize(
    ("dtype", "index"), [(np.int64, 2**40), (np.uint32, 2**32 - 1), (np.uint64, 2**64 - 2), (np.int8, 99)]
)
def test_indices_of_every_width(dtype: Any, index: int, device_name: str) -> None:
    for name in ("index", "set"):
        assert f"index {index} is" in check(nested(LEAVES[name], [in_a_branch]), np.asarray(index, dtype), device_name)


@pytest.mark.parametrize("name", ["index", "set", "kernel"])
def test_a_saved_program(name: str, device_name: str, tmp_path: Path) -> None:
    leaf = nested(LEAVES[name], [in_a_loop, in_a_scan])
    function = poot.trace(device=device_name)(leaf)
    index = np.asarray(100, np.int32)
    expected = fault(lambda: function.evaluate(X, index)).partition("\n")[0]
    function.program(poot.f32[EXTENT], poot.i32[()], device=device_name).save(tmp_path / "nested.poot")
    engine = poot.Engine(poot.device(device_name))
    exe = engine.load_weights(poot.WeightStore.from_arrays({}))
    entry = engine.add_entry(exe, poot.load_program(tmp_path / "nested.poot"))
    with pytest.raises((IndexFault, KernelFault)) as caught:
        engine.step(exe, entry, poot.StepInputs().push("x", X).push("i", index))
    assert str(caught.value).partition("\n")[0] == expected
    assert caught.value.where is None or caught.value.where.file != __file__ or name == "kernel"
