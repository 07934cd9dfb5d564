"""Uniformity: locals under varying conditions, loops left one by one, returns, affine strides."""

from poot.dtypes import f32, i32
from poot.kernel.build import KernelBuilder
from poot.kernel.ir import Assign, Barrier, Kernel, walk
from poot.kernel.uniform import UNIFORM, Affine, Uniformity


def builder() -> KernelBuilder:
    k = KernelBuilder("k", workgroup=(32, 1, 1))
    k.buffer("x", f32, "read", (1024,))
    k.buffer("n", i32, "read", (1024,))
    return k


def test_indices_are_affine_and_loads_follow_their_address() -> None:
    k = builder()
    x = k.index("thread", 0)
    u = Uniformity(k.finish())
    assert u.form(x) == Affine(1, 1)
    assert u.form(k.op("mul", k.op("add", x, k.i(3)), k.i(2))) == Affine(2, 2)
    assert u.form(k.op("sub", x, k.index("local", 0))) == Affine(0, 1)
    assert u.is_uniform(k.index("group", 0))
    assert u.is_uniform(k.index("thread", 1))
    assert u.is_uniform(k.load("x", (k.i(0),)))
    assert not u.is_uniform(k.load("x", (x,)))
    assert u.form(k.cast(x, f32)) is None


def test_division_of_an_aligned_index_keeps_rows_uniform() -> None:
    k = builder()
    x = k.index("thread", 0)
    u = Uniformity(k.finish(), (0,), lanes=32, aligned=True)
    assert u.form(k.op("floor_div", x, k.i(96))) == Affine(0, 1)
    assert u.form(k.op("rem", x, k.i(96))) == Affine(1, 32)
    assert u.form(k.op("rem", x, k.i(100))) is None
    assert u.form(k.op("shift_right", x, k.i(6))) == Affine(0, 1)
    assert u.form(k.op("and", x, k.i(63))) == Affine(1, 32)
    loose = Uniformity(k.finish(), (0,), lanes=32)
    assert loose.form(k.op("floor_div", x, k.i(96))) is None


def test_assignments_below_varying_conditions_vary() -> None:
    k = builder()
    a = k.let(k.i(0), "a")
    b = k.let(k.i(0), "b")
    with k.if_(k.op("lt", k.index("thread", 0), k.i(5))):
        k.assign(a, k.i(1))
        c = k.let(k.i(7), "c")
        k.assign(c, k.i(8))
    with k.if_(k.op("lt", k.index("group", 0), k.i(5))):
        k.assign(b, k.i(1))
    u = Uniformity(k.finish())
    assert not u.is_uniform(a)
    assert u.is_uniform(b)
    assert u.is_uniform(c)


def test_a_loop_that_threads_leave_one_by_one() -> None:
    k = builder()
    count = k.let(k.i(0), "count")
    limit = k.let(k.load("n", (k.index("thread", 0),)), "limit")
    with k.while_(k.op("lt", count, limit)):
        inner = k.let(k.i(3), "inner")
        k.assign(count, k.op("add", count, k.i(1)))
    total = k.let(k.i(0), "total")
    with k.for_(k.i(0), k.i(10)) as i:
        with k.if_(k.op("eq", i, limit)):
            k.break_()
        k.assign(total, k.op("add", total, k.i(1)))
    u = Uniformity(k.finish())
    assert u.is_uniform(inner)
    assert u.is_uniform(i)
    assert not u.is_uniform(count)
    assert not u.is_uniform(total)


def test_a_continue_ends_with_its_turn() -> None:
    k = builder()
    before = k.let(k.i(0), "before")
    after = k.let(k.i(0), "after")
    with k.for_(k.i(0), k.i(10)) as i:
        k.assign(before, k.op("add", before, k.i(1)))
        with k.if_(k.op("eq", i, k.index("thread", 0))):
            k.continue_()
        k.assign(after, k.op("add", after, k.i(1)))
    u = Uniformity(k.finish())
    assert u.is_uniform(before)
    assert not u.is_uniform(after)


def test_group_strided_loop() -> None:
    k = builder()
    with k.for_(k.index("local", 0), k.index("extent", 0, "x"), 32) as i:
        k.let(k.load("x", (i,)))
    kernel = k.finish()
    u = Uniformity(kernel, (0,), lanes=32, aligned=True)
    (loop,) = kernel.body
    assert u.form(i) == Affine(1, 32)
    assert u.divergent_loop(loop)  # type: ignore[arg-type]


def flows(kernel: Kernel) -> list[bool]:
    u = Uniformity(kernel)
    return [u.uniform_flow(node) for node in walk(kernel.body) if isinstance(node, Barrier)]


def test_flow() -> None:
    k = builder()
    varying = k.op("lt", k.index("thread", 0), k.i(5))
    k.barrier()
    with k.if_(k.op("lt", k.index("group", 0), k.i(5))):
        k.barrier()
    with k.if_(varying):
        k.barrier()
    with k.for_(k.i(0), k.i(4)):
        k.barrier()
    with k.if_(varying):
        k.return_()
    k.barrier()
    assert flows(k.finish()) == [True, True, False, True, False]


def test_a_return_in_a_loop_reaches_its_start() -> None:
    k = builder()
    total = k.let(k.i(0), "total")
    with k.for_(k.i(0), k.i(4)):
        k.barrier()
        with k.if_(k.op("lt", k.index("thread", 0), k.i(5))):
            k.return_()
        k.assign(total, k.op("add", total, k.i(1)))
    kernel = k.finish()
    assert flows(kernel) == [False]
    assert Uniformity(kernel).is_uniform(total)


def test_a_value_read_after_the_loop_that_made_it() -> None:
    k = builder()
    limit = k.load("n", (k.index("thread", 0),))
    with k.for_(k.i(0), limit) as i:
        last = k.let(k.op("mul", i, k.i(2)), "last")
    k.let(last, "use")
    u = Uniformity(k.finish())
    assert not u.is_uniform(last)
    assert u.form(k.i(4)) == Affine(0, 4)
    assert u.local_form("unknown") == UNIFORM


def test_private_arrays() -> None:
    k = builder()
    same = k.alloc("same", i32, (4,), "private")
    own = k.alloc("own", i32, (4,), "private")
    k.store(same, (k.i(0),), k.i(4))
    k.store(own, (k.i(0),), k.index("thread", 0))
    u = Uniformity(k.finish())
    assert u.is_uniform(k.load(same, (k.i(0),)))
    assert not u.is_uniform(k.load(own, (k.i(0),)))
    assert u.array_is_uniform(same)
    assert not u.array_is_uniform(own)


def test_atomic_results_and_scans_vary() -> None:
    k = builder()
    old = k.atomic("add", "n", (k.i(0),), k.i(1))
    scanned = k.collective("scan", k.i(1))
    summed = k.collective("sum", k.index("thread", 0))
    kernel = k.finish()
    u = Uniformity(kernel)
    assert [u.is_uniform(v) for v in (old, scanned, summed)] == [False, False, True]
    assert not any(isinstance(s, Assign) for s in kernel.body)
