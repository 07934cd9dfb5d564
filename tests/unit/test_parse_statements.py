"""What functions become: locals where they are used, conditions that guard, evaluation in Python's order."""

from __future__ import annotations

from typing import Any, TypeVar

from poot.dtypes import DType, f32, i32, i64
from poot.kernel.language import (
    Const,
    In,
    In2,
    InOut,
    Out,
    atomic_add,
    barrier,
    group_size,
    group_sum,
    local_index,
    private,
    shared,
    thread_index,
    unroll,
)
from poot.kernel.parse import Definition, Layout, Request, define, specialise
from poot.kernel.parse.annotations import BufferParameter
from poot.kernel.text import dump

T = TypeVar("T")


def text(made: Definition, workgroup: int | None = None, index: DType = i32, **consts: Any) -> list[str]:
    """The body's lines."""
    dtypes = dict.fromkeys(made.parameters.variables, f32)
    buffers = [item for item in made.parameters.items if isinstance(item, BufferParameter)]
    request = Request(
        dtypes, consts, [Layout()] * len(buffers), (workgroup or 64, 1, 1), workgroup is not None, index_dtype=index
    )
    return [line[4:] for line in dump(specialise(made, request).kernel).split("\n")[2:-1]]


def test_a_local_is_declared_where_it_is_first_assigned() -> None:
    @define
    def k(x: In[f32], y: Out[f32]):
        i = thread_index()
        v = x[i] * 2
        y[i] = v + v

    assert text(k) == [
        'i: i32 = thread_index("x")',
        "v: f32 = checked(x)[i] * f32(2.0)",
        "checked(y)[i] = v + v",
    ]


def test_a_local_of_two_branches_is_declared_before_them() -> None:
    @define
    def k(x: In[f32], y: Out[f32]):
        i = thread_index()
        if i > 0:
            if i > 5:
                v = x[i]
            else:
                v = 2.0
            y[i] = v
        else:
            w = 1
            w += i
            y[i] = f32(w)

    assert text(k) == [
        'i: i32 = thread_index("x")',
        "if i > 0:",
        "    v: f32 = f32(0.0)",
        "    if i > 5:",
        "        v = checked(x)[i]",
        "    else:",
        "        v = f32(2.0)",
        "    checked(y)[i] = v",
        "else:",
        "    w: i32 = 1",
        "    w = w + i",
        "    checked(y)[i] = cast(w, f32)",
    ]


def test_the_right_side_of_and_is_evaluated_behind_its_left() -> None:
    @define
    def k(x: In[f32], y: Out[f32]):
        i = thread_index()
        if i < len(x) and x[i] > 0 and i < 3:
            y[i] = 1
        ok = i < len(x) and x[i] > 0
        if ok or i < 2:
            y[i] = 2

    assert text(k) == [
        'i: i32 = thread_index("x")',
        "if i < x.shape[0]:",
        "    if checked(x)[i] > f32(0.0):",
        "        if i < 3:",
        "            checked(y)[i] = f32(1.0)",
        "holds: bool = i < x.shape[0]",
        "if holds:",
        "    holds = checked(x)[i] > f32(0.0)",
        "ok: bool = holds",
        "if ok | (i < 2):",
        "    checked(y)[i] = f32(2.0)",
    ]


def test_the_condition_of_a_loop_is_evaluated_anew() -> None:
    @define
    def k(x: In[f32], y: Out[f32]):
        i = thread_index()
        while i < len(x) and x[i] > 0:
            i += 1
        y[0] = f32(i)

    assert text(k) == [
        'i: i32 = thread_index("x")',
        "while True:",
        "    holds: bool = i < x.shape[0]",
        "    if holds:",
        "        holds = checked(x)[i] > f32(0.0)",
        "    if ~holds:",
        "        break",
        "    i = i + 1",
        "checked(y)[0] = cast(i, f32)",
    ]


def test_operands_are_evaluated_from_left_to_right() -> None:
    @define
    def k(x: InOut[i32], y: Out[i32]):
        i = thread_index()
        y[i] = x[i] + atomic_add(x, 0, 1) * 2
        atomic_add(x, 0, i)

    assert text(k) == [
        'i: i32 = thread_index("x")',
        "t: i32 = checked(x)[i]",
        "old: i32 = atomic_add(checked(x)[0], 1)",
        "checked(y)[i] = t + (old * 2)",
        "atomic_add(checked(x)[0], i)",
    ]


def test_values_are_taken_before_names_change() -> None:
    @define
    def k(y: Out[i32]):
        a, b = thread_index(), 1
        a, b = b, a + 1
        a += b
        y[0] = a
        b += 1

    assert text(k) == [
        'a: i32 = thread_index("x")',
        "b: i32 = 1",
        "t: i32 = b",
        "t_1: i32 = a + 1",
        "a = t",
        "b = t_1",
        "a = a + b",
        "checked(y)[0] = a",
        "b = b + 1",
    ]


def test_a_chosen_value_runs_one_side_alone() -> None:
    @define
    def k(x: In[f32], y: Out[f32]):
        i = thread_index()
        y[i] = x[i] if i < len(x) else 0.5
        y[i] = 1.0 if i < 3 else 2.0

    assert text(k) == [
        'i: i32 = thread_index("x")',
        "holds: bool = i < x.shape[0]",
        "chosen: f32 = f32(0.5)",
        "if holds:",
        "    chosen = checked(x)[i]",
        "checked(y)[i] = chosen",
        "checked(y)[i] = select(i < 3, f32(1.0), f32(2.0))",
    ]


def test_constants_choose_branches_and_shapes() -> None:
    @define
    def k(y: Out[f32], n: Const[int], deep: Const[bool]):
        size = n * 2 if deep else n
        own = private(f32, (size, 2))
        if deep and n > 1:
            own[0, 0] = 1
        elif n == 1:
            own[0, 1] = 2
        else:
            own[size - 1, 1] = 3
        for j in unroll(range(n)):
            own[j, 0] = j

    assert text(k, n=2, deep=True) == [
        "own = private(f32, (4, 2))",
        "checked(own)[0, 0] = f32(1.0)",
        "checked(own)[0, 0] = f32(0.0)",
        "checked(own)[1, 0] = f32(1.0)",
    ]
    assert text(k, n=1, deep=False)[:2] == ["own = private(f32, (1, 2))", "checked(own)[0, 1] = f32(2.0)"]


def _norm(a, row, width):
    own = shared(f32, 4)
    total = 0.0
    for k in range(local_index(), width, group_size()):
        total += a[row, k] * a[row, k]
    own[0] = group_sum(total)
    barrier()
    return own[0]


def test_helpers_with_statements_are_written_out() -> None:
    @define
    def k(x: In2[f32], y: Out[f32]):
        y[0] = _norm(x, 1, x.shape[1])

    assert text(k, workgroup=32) == [
        "own = shared(f32, (4))",
        "total: f32 = f32(0.0)",
        'for k in range(local_index("x"), x.shape[1], 32):',
        "    total = total + (checked(x)[1, k] * checked(x)[1, k])",
        "group_sum: f32 = group_sum(total)",
        "checked(own)[0] = group_sum",
        "barrier()",
        "checked(y)[0] = checked(own)[0]",
    ]


def test_memory_of_a_branch_is_allocated_at_the_top() -> None:
    @define
    def k(y: Out[f32]):
        if thread_index() > 2:
            own = private(f32, 2)
            own[0] = 1
            y[0] = own[0]

    assert text(k)[0] == "own = private(f32, (2))"


def test_wide_kernels_count_in_64_bits() -> None:
    @define
    def k(x: In[i32], y: Out[i32], n: int):
        i = thread_index()
        j = 0
        while j < n and i + j < len(x):
            y[i] = x[i + j] + j
            j += 1
        y[n] = int(2.5)

    lines = text(k, index=i64)
    assert "j: i64 = 0" in [line.replace("i64(0)", "0") for line in lines]
    assert any("cast(n, i64)" in line for line in lines)
    assert any(line.strip().startswith("checked(y)[i] = cast(") for line in lines)


def test_names_that_are_not_ascii() -> None:
    @define
    def k(α: In[f32], y: Out[f32]):
        β = α[0]
        y[0] = β + β

    assert text(k) == ["u3b2: f32 = checked(u3b1)[0]", "checked(y)[0] = u3b2 + u3b2"]


def test_parameters_can_be_given_new_values() -> None:
    @define
    def k(y: Out[f32], n: int, a: float):
        n += 1
        while n > 0:
            n -= 1
            a *= 2
        y[0] = a

    assert text(k)[:4] == ["n_1: i32 = n", "a_1: f32 = a", "n_1 = n_1 + 1", "while n_1 > 0:"]


def test_a_loop_name_may_be_used_before_and_after() -> None:
    @define
    def k(y: Out[i32]):
        i = 5
        for i in range(3):
            i += 1
            for i in range(2):  # noqa: B007
                pass
        y[0] = i

    assert text(k) == [
        "i: i32 = 5",
        "for i_1 in range(0, 3, 1):",
        "    i = i_1",
        "    i = i + 1",
        "    for i_2 in range(0, 2, 1):",
        "        i = i_2",
        "checked(y)[0] = i",
    ]


def test_unchecked() -> None:
    @define(unchecked=True)
    def k(x: In[f32], y: Out[f32]):
        y[0] = x[0]

    assert text(k) == ["y[0] = x[0]"]


def test_statements_after_a_return_are_left_out() -> None:
    @define
    def k(y: Out[f32]):
        if thread_index() > 0:
            return
            y[0] = 1
        while True:
            break
        y[0] = 2
        return
        y[0] = 3

    assert text(k) == [
        'if thread_index("x") > 0:',
        "    return",
        "while True:",
        "    break",
        "checked(y)[0] = f32(2.0)",
        "return",
    ]
