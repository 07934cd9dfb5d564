"""Nothing leaks: many distinct traces in one process, and what keys of the cache keep alive."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poot
from poot.backends.cpu.jit import compile_object, load_object

ROOT = Path(__file__).resolve().parents[2]

MANY = """
import gc, os, sys, warnings
import numpy as np, poot
from poot.api import cache, codes, eager, traced
from poot.trace import source
from poot.backends import toolchain

warnings.simplefilter("ignore")  # one line traces all of them, and is warned of once
first, last, scale = map(int, sys.argv[1:])
if scale > 1:  # the same growth with smaller caches, sooner
    traced._CACHE.limit, codes._KEPT, source._LIMIT = 512 // scale, codes._KEPT // scale, source._LIMIT // scale
    toolchain._KEPT //= scale

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

x = np.ones(4, np.float32)
for number in range(last):
    if number == first:
        before = resident()
    function = eval(f"lambda x: x * {number}.5 + x.sum()")
    assert float(poot.trace(function)(x)[0]) == number + 4.5
assert len(traced._CACHE) <= traced._CACHE.limit <= cache.LIMIT == 512
print(resident() - before)
"""


def growth(first: int, last: int, scale: int, cache: Path) -> int:
    """By how many bytes resident memory grows from the trace `first` to the trace `last` of a fresh process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POOT_CACHE_DIR": str(cache)}
    command = [sys.executable, "-c", MANY, str(first), str(last), str(scale)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_two_hundred_distinct_traces_leave_little_behind(tmp_path: Path) -> None:
    assert growth(60, 200, 16, tmp_path) < 4 << 20


@pytest.mark.slow
def test_the_last_4000_of_5000_distinct_traces_leave_little_behind(tmp_path: Path) -> None:
    assert growth(1000, 5000, 1, tmp_path) < 20_000_000


def test_compiling_and_loading_code_leaves_nothing_behind() -> None:
    text = "define void @f(ptr %a, i64 %b, i64 %c) {\n ret void\n}\n"

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def work(count: int) -> None:
        for _ in range(count):
            code = load_object(compile_object(text), ["f"])
            assert code.address("f")
            code.close()

    work(100)
    growths: list[int] = []
    for _ in range(4):  # what leaks grows each time; what is only kept for later, as by malloc, does not
        before = resident()
        work(300)
        growths.append(resident() - before)
    assert min(growths) < 4 << 20


def test_a_key_of_the_cache_keeps_no_model_alive() -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = np.ones(3, np.float32)

        @poot.trace
        def __call__(self, x: Any) -> Any:
            return x * self.weight

    def use(model: Model) -> tuple[weakref.ref[Any], weakref.ref[Any]]:
        closed = poot.trace(lambda x: model(x) + 1.0)
        assert np.array_equal(np.asarray(closed(model(model.weight))), [2, 2, 2])
        return weakref.ref(model), weakref.ref(model.weight)

    gone = use(Model())
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_an_object_with_the_identity_of_one_that_is_gone_is_another() -> None:
    from poot.api.captures import Same

    class Thing:
        pass

    thing = Thing()
    first = Same(thing)
    assert first == Same(thing)
    del thing
    gc.collect()
    later = Same(Thing())
    later._identity = first._identity  # pyright: ignore[reportPrivateUsage]
    assert first != later


def test_donated_memory_is_free_once_the_call_has_run() -> None:
    @poot.trace(donate="x")
    def f(x: Any) -> Any:
        return x + 1.0

    allocator = poot.device("cpu").backend.allocator  # type: ignore[attr-defined]
    x = poot.asarray(np.ones(1 << 16, np.float32), device="cpu")
    before = allocator.statistics().allocated_bytes
    y = f(x)
    assert allocator.statistics().allocated_bytes <= before + 64
    assert float(np.asarray(y)[0]) == 2.0
