"""`expand_kernel`: what it rewrites, what it leaves, and that its results are valid and self-contained."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poot.dtypes import ALL, DType, bf16, bool_, f16, f32, f64, i32, i64, u64
from poot.errors import ArgumentError, SourceLocation
from poot.kernel import ops
from poot.kernel.build import KernelBuilder
from poot.kernel.check import check
from poot.kernel.expand import expand_kernel
from poot.kernel.ir import Break, Cast, Collective, Const, Expr, If, Kernel, Let, Load, Op, Store, While, walk


def builder() -> tuple[KernelBuilder, str, str]:
    k = KernelBuilder("scale", workgroup=(64, 1, 1), threads=(100, 1, 1))
    return k, k.buffer("x", f32, "read", (100,)), k.buffer("y", f32, "write", (100,))


def operations(kernel: Kernel) -> set[str]:
    return {node.name for node in walk(kernel.body) if isinstance(node, Op)}


def is_native(kernel: Kernel) -> bool:
    nodes = [node for node in walk(kernel.body) if isinstance(node, Op) and node.name not in ("select", "bitcast")]
    return all(
        not ops.lookup(node.name).expands(node.args[-1].dtype) and node.args[-1].dtype not in (f16, bf16)
        for node in nodes
    )


def cells() -> list[tuple[str, DType]]:
    return [(row.name, dtype) for row in ops.table() for dtype in row.dtypes if row.name != "bitcast"]


def kernel_of(name: str, dtype: DType) -> Kernel:
    """A kernel that applies one row to loaded values."""
    k = KernelBuilder("one", workgroup=(64, 1, 1), threads=(100, 1, 1))
    row = ops.lookup(name)
    dtypes = [bool_, dtype, dtype] if name == "select" else [dtype] * row.arity
    buffers = [k.buffer(f"x{number}", d, "read", (100,)) for number, d in enumerate(dtypes)]
    out = k.buffer("out", bool_ if row.result == "bool" else dtype, "write", (100,))
    index = k.let(k.index("thread", 0), "i")
    k.store(out, (index,), k.op(name, *(k.load(buffer, (index,)) for buffer in buffers)))
    return k.finish()


@pytest.mark.parametrize(("name", "dtype"), cells(), ids=str)
def test_every_row_becomes_native_and_checks(name: str, dtype: DType) -> None:
    kernel = kernel_of(name, dtype)
    check(kernel)
    expanded = expand_kernel(kernel)
    check(expanded)
    assert is_native(expanded)
    assert expand_kernel(expanded) == expanded


@pytest.mark.parametrize("name", [row.name for row in ops.table() if row.expand is not None and f32 in row.dtypes])
def test_f32_expansions_need_no_64_bit_types(name: str) -> None:
    nodes = walk(expand_kernel(kernel_of(name, f32)).body)
    assert {dtype for node in nodes if (dtype := getattr(node, "dtype", None))}.isdisjoint({f64, i64, u64})


@pytest.mark.parametrize("name", [row.name for row in ops.table() if row.expand is not None and f32 in row.dtypes])
def test_constants_of_f32_expansions_are_f32_values(name: str) -> None:
    for node in walk(expand_kernel(kernel_of(name, f32)).body):
        if isinstance(node, Const) and node.dtype is f32 and node.value == node.value:
            assert float(f32.dtype.type(node.value)) == node.value


def test_native_kernels_stay_as_they_are() -> None:
    k, x, y = builder()
    i = k.let(k.index("thread", 0), "i")
    with k.for_(k.i(0), k.i(4)) as j, k.if_(k.op("lt", j, i)):
        k.store(y, (i,), k.op("mul", k.load(x, (j,)), k.const(2.0, f32)))
    kernel = k.finish()
    assert expand_kernel(kernel) == kernel


def test_statements_come_before_the_one_that_needs_them() -> None:
    k, x, y = builder()
    i = k.let(k.index("thread", 0), "i")
    k.store(y, (i,), k.op("add", k.op("exp", k.load(x, (i,))), k.op("exp", k.load(x, (k.i(0),)))))
    body = expand_kernel(k.finish()).body
    assert isinstance(body[-1], Store)
    assert all(isinstance(stmt, Let) for stmt in body[:-1])
    names = [stmt.name for stmt in body[:-1] if isinstance(stmt, Let)]
    assert len(set(names)) == len(names)
    assert all(name.startswith("exp_") for name in names[1:])
    loads = [node for node in walk(body) if isinstance(node, Load)]
    assert len(loads) == 2


def test_fresh_names_avoid_those_of_the_kernel() -> None:
    k, x, y = builder()
    i = k.let(k.index("thread", 0), "exp_n")
    shadow = k.let(k.load(x, (i,)), "exp_r")
    with k.for_(k.i(0), k.i(2), hint="exp_p") as j:
        k.store(y, (j,), k.op("exp", shadow))
    expanded = expand_kernel(k.finish())
    check(expanded)
    names = [node.name for node in walk(expanded.body) if isinstance(node, Let)]
    assert names.count("exp_n") == names.count("exp_r") == 1
    assert "exp_p" not in names


def test_a_while_whose_condition_expands_tests_inside() -> None:
    k, x, y = builder()
    i = k.let(k.index("thread", 0), "i")
    value = k.let(k.load(x, (i,)), "value")
    with k.while_(k.op("lt", k.op("tanh", value), k.const(0.5, f32))):
        k.assign(value, k.op("add", value, k.const(1.0, f32)))
    k.store(y, (i,), value)
    expanded = expand_kernel(k.finish())
    check(expanded)
    (loop,) = (stmt for stmt in expanded.body if isinstance(stmt, While))
    assert loop.condition == Const(True, bool_)
    leave = next(stmt for stmt in loop.body if isinstance(stmt, If))
    assert leave.then == (Break(),)
    assert isinstance(leave.condition, Op)
    assert leave.condition.name == "not"
    assert all(isinstance(stmt, Let) for stmt in loop.body[: loop.body.index(leave)])


def test_branches_expand_where_they_are_taken() -> None:
    k, x, y = builder()
    i = k.let(k.index("thread", 0), "i")
    with k.if_(k.op("lt", i, k.i(5))):
        k.store(y, (i,), k.op("log", k.load(x, (i,))))
    body = expand_kernel(k.finish()).body
    assert len(body) == 2
    assert isinstance(body[1], If)
    assert len(body[1].then) > 1


def test_locations_are_kept() -> None:
    k, x, y = builder()
    k.where = SourceLocation("model.py", 3)
    i = k.let(k.index("thread", 0), "i")
    argument = k.load(x, (i,))
    k.where = SourceLocation("model.py", 4)
    k.store(y, (i,), k.op("sin", argument))
    body = expand_kernel(k.finish()).body
    assert {node.where for node in walk(body[1:])} == {SourceLocation("model.py", 3), SourceLocation("model.py", 4)}
    assert body[-1].where == SourceLocation("model.py", 4)


@pytest.mark.parametrize("dtype", [f16, bf16], ids=str)
def test_narrow_floats_round_after_every_operation(dtype: DType) -> None:
    k = KernelBuilder("narrow", workgroup=(64, 1, 1), threads=(100, 1, 1))
    x = k.buffer("x", dtype, "readwrite", (100,))
    i = k.let(k.index("thread", 0), "i")
    value = k.load(x, (i,))
    chosen = k.op("select", k.op("lt", value, k.const(1.0, dtype)), value, k.const(2.0, dtype))
    k.store(x, (i,), k.op("add", k.op("mul", chosen, chosen), value))
    (_, store) = expand_kernel(k.finish()).body
    assert isinstance(store, Store)
    rounded = store.value
    assert isinstance(rounded, Cast) and rounded.dtype is dtype
    total = rounded.arg
    assert isinstance(total, Op) and total.name == "add" and total.dtype is f32
    product = total.args[0]
    assert isinstance(product, Cast) and product.dtype is f32
    assert isinstance(product.arg, Cast) and product.arg.dtype is dtype
    assert {node.dtype for node in walk((store,)) if isinstance(node, Op) and node.name == "select"} == {dtype}


def test_narrow_collectives_run_in_f32() -> None:
    k = KernelBuilder("total", workgroup=(64, 1, 1), threads=None)
    x = k.buffer("x", f16, "readwrite", (64,))
    i = k.let(k.index("local", 0), "i")
    total = k.collective("sum", k.load(x, (i,)), "total")
    k.store(x, (i,), total)
    expanded = expand_kernel(k.finish())
    check(expanded)
    assert [node.dtype for node in walk(expanded.body) if isinstance(node, Collective)] == [f32]


def test_integer_division_stays_native_and_float_division_expands() -> None:
    assert operations(expand_kernel(kernel_of("rem", i32))) == {"rem"}
    assert "rem" not in operations(expand_kernel(kernel_of("rem", f32)))


def test_a_new_row_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "_TABLE", {row.name: row for row in ops.table()})

    def expand(k: KernelBuilder, x: Expr) -> Expr:
        one = k.const(1.0, x.dtype)
        return k.op("div", one, k.op("add", one, k.op("exp", k.op("neg", x))))

    row = ops.register(ops.ScalarOp("logistic", 1, (f16, f32), "1 / (1 + e^-a)", expand=expand))
    for dtype in row.dtypes:
        expanded = expand_kernel(kernel_of(row.name, dtype))
        check(expanded)
        assert is_native(expanded)
        assert operations(expanded).isdisjoint({row.name, "exp"})
    with pytest.raises(ArgumentError, match="a new name"):
        ops.register(row)


def test_rows_cannot_be_extended_twice() -> None:
    row = ops.lookup("floor_div")
    assert row.expand is not None
    with pytest.raises(ArgumentError, match="dtypes added to floor_div"):
        ops.extend("floor_div", (f32,), row.expand, "again")
    assert replace(row) == ops.lookup("floor_div")


def test_tables_name_every_dtype_once() -> None:
    for row in ops.table():
        assert len(set(row.dtypes)) == len(row.dtypes)
        assert set(row.dtypes) <= set(ALL)
        assert set(row.expand_dtypes) <= set(row.dtypes)
