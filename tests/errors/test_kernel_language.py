"""Exact messages of what a kernel's body cannot have, and the test that every node class of Python's `ast` is covered.

The messages stand in tests/golden/data/errors/kernel_language.txt; `--update-golden` writes them anew, to be read.
"""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Callable, Iterator

import pytest

from poot.errors import KernelError, PootError
from poot.kernel.parse.syntax import ACCEPTED, REFUSED
from tests.errors.kernel_source import build, launch, message

#: Bodies that are no part of the language, refused when the function is decorated.
SYNTAX = [
    "async def f(): pass",
    "async def f():\n    await x\n    async for j in x: pass\n    async with x: pass",
    "def f(): pass",
    "f = lambda v: v",
    "class C: pass",
    "del i",
    "yield x[i]",
    "yield from x",
    "with x: pass",
    "match i:\n    case 0: pass",
    "match x:\n    case None | [_, *_] | {1: _} | f32(): pass\n    case _ as j: pass",
    'raise ValueError("no")',
    "try:\n    pass\nexcept ValueError:\n    pass",
    "try:\n    pass\nexcept* ValueError:\n    pass",
    "import math",
    "from math import exp",
    "global v",
    "if (j := i) > 0: pass",
    "v = {1: 2}",
    "v = {1, 2}",
    "v = [1, 2]",
    "v = [j for j in range(3)]",
    "v = {j for j in range(3)}",
    "v = {j: j for j in range(3)}",
    "v = math.fsum(j for j in range(3))",
    'v = f"{i}"',
    "v = min(*x)",
    "y[i] = x[0:2]",
    "y[i] = x @ x",
    "y[i, ...] = 1",
    "y[i] = " + "-" * 101 + "x[i]",
    "i @= 2",
    "for j in range(3): pass\nelse: pass",
    "while i < 0: pass\nelse: pass",
    "for j, k in range(3): pass",
    "x: f32",
    "y[i]: f32 = 1",
    "v = min(**x)",
    "v = 1j",
    'v = b"a"',
    "v = ...",
    "y.shape = 3",
    "x[i]",
    "i == 3",
    "first, *rest = x.shape",
]

#: An object whose own methods raise.
RAISES = """\
class V:
    def __getattr__(self, name): raise RuntimeError("no attribute")
    def __eq__(self, other): raise RuntimeError("not to be compared")
    def __hash__(self): raise RuntimeError("no key")
v = V()"""

#: Bodies that are refused when dtypes are known, with what stands before the kernel.
MEANING: list[tuple[str, str]] = [
    ("y[i] = x[i] * n[i]", ""),
    ("y[i] = x[i] * f64(2)", ""),
    ("y[i] = f16(1) * bf16(1)", "from poot.dtypes import bf16"),
    ("y[i] = n[i] / 2", ""),
    ("y[i] = n[i] / n[i]", ""),
    ("y[i] = 1 / 2", ""),
    ("y[i] = n[i] * 0.5", ""),
    ("y[i] = n[i]", ""),
    ("y[i] = f32(n[i] ** 2.0)", ""),
    ("y[i] = x[0] * 10**400", ""),
    ("y[i] = ((10**400) ** 4096) % 7", ""),
    ("y[i] = x[10**400]", ""),
    ("for j in range(3.0): pass", ""),
    ("for j in unroll(range(65)):\n    for k in unroll(range(64)):\n        y[i] = j", ""),
    ("y[i] = v", "v = np.longdouble(1)"),
    ("y[i] = v.x", RAISES),
    ("y[i] = v", RAISES),
    ("y[i] = v(i)", RAISES),
    ("y[i] = 1 if v == 3 else 2", RAISES),
    ("y[i] = u8(3) + 256", ""),
    ("y[i] = f16(1) + 1e6", ""),
    ("v = n[i] + True", ""),
    ("v = (x[i] > 0) + 1", ""),
    ("v = (x[i] > 0) + (x[i] > 1)", ""),
    ("y[i] = x[i] & 1", ""),
    ("y[i] = ~x[i]", ""),
    ("y[i] = -(x[i] > 0)", ""),
    ("y[i] = x[i, 0]", ""),
    ("y[i] = x[x[i]]", ""),
    ("y[i] = x[i > 0]", ""),
    ("y[i] = x[-1]", ""),
    ("y[i] = x[i][0]", ""),
    ("y[i] = x + 1", ""),
    ("y[i] = z", ""),
    ("y[i] = thread_idx()", ""),
    ("y[i] = math.exq(x[i])", ""),
    ("y[i] = x.shap[0]", ""),
    ("y[i] = x.T", ""),
    ("y[i] = i.real", ""),
    ("y[i] = np.exp(x[i])", ""),
    ("y[i] = math.gamma(x[i])", ""),
    ("y[i] = math.exp(i)", ""),
    ("y[i] = abs(x[i] > 0)", ""),
    ("y[i] = math.exp()", ""),
    ("y[i] = poot.ops.exp(x[i])", ""),
    ("print(i)", ""),
    ("y[i] = round(x[i])", ""),
    ("y[i] = sum(x)", ""),
    ("y[i] = f(x[i])", "f = lambda v: v"),
    ("y[i] = f(x[i])", "def f(v):\n    return f(v)"),
    ("y[i] = f(x[i])", "def f(v):\n    for j in range(3):\n        return v"),
    ("y[i] = f(x[i])", "def f(v):\n    if v > 0:\n        if v > 1:\n            return v\n    return 0.0"),
    ("y[i] = f(x[i])", "def f(v):\n    if v > 0:\n        return v"),
    ("y[i] = f(x[i])", "def f(v, w):\n    return v"),
    ("y[i] = f(x[i])", "def f(v):\n    return v + q"),
    ("y[i] = f(x[i])", "def f(*v):\n    return v"),
    ("y[i] = f(x[i])", "def f(v: i32):\n    return v"),
    ("y[i] = f(x[i])", "def f(v):\n    pass"),
    ("y[i] = f(x[i])", "def f(v):\n    with v: pass"),
    ("y[i] = C(x[i])", "class C: pass"),
    ("y[i] = L[0]", "L = [1, 2]"),
    ("y[i] = A[0]", "A = np.zeros(3)"),
    ('y[i] = D["a"]', "D = dict(a=1)"),
    ("y[i] = (1, 2)[i]", ""),
    ("y[i] = (1, 2)[2]", ""),
    ('y[i] = "a"', ""),
    ("y[i] = None", ""),
    ("y[i] = T(1)", ""),
    ("v = x\nv = y", ""),
    ("v = x[i]\nv = n[i]", ""),
    ("v = 1\nv = x[i]", ""),
    ("v = 1\nv = 0.5", ""),
    ("v = x[i]\nv = 1e300", ""),
    ("if i > 3:\n    v = 1.0\ny[i] = v", ""),
    ("y[i] = v\nv = 1.0", ""),
    ("for j in range(3):\n    v = j\ny[i] = f32(v)", ""),
    ("for j in range(3): pass\ny[i] = f32(j)", ""),
    ("while i < 3:\n    v = 1.0\n    break\ny[i] = v", ""),
    ("for j in x: pass", ""),
    ("for j in 3: pass", ""),
    ("for j in range(x[i]): pass", ""),
    ("for j in range(3.0): pass", ""),
    ("for j in range(0, 3, x[i]): pass", ""),
    ("for j in range(0, 3, u8(i)): pass\nfor j in range(i, 3, u8(i)): pass", ""),
    ("for j in unroll(range(0, 3, i)): pass", ""),
    ("for j in range(0, 3, 0): pass", ""),
    ("for j in range(i, u8(3)): pass", ""),
    ("for j in unroll(range(i)): pass", ""),
    ("for j in unroll(x): pass", ""),
    ("for j in unroll(range(9999)): pass", ""),
    ("for j in unroll(range(3)):\n    break", ""),
    ("for j in unroll(range(3)):\n    continue", ""),
    ("for j in enumerate(x): pass", ""),
    ("v = range(3)", ""),
    ("v = unroll(range(3))", ""),
    ("return x[i]", ""),
    ("x[i] = 1", ""),
    ("x = 1", ""),
    ("n = 3", ""),
    ("a, b = 1, 2, 3", ""),
    ("a, b = i", ""),
    ("i[0] = 1", ""),
    ("assert i > 0, i", ""),
    ("assert False", ""),
    ('assert 1 > 2, "never"', ""),
    ("assert x", ""),
    ("if x: pass", ""),
    ("if x[i] is y[i]: pass", ""),
    ("if x[i] in y: pass", ""),
    ("v = x[i] and n[i]", ""),
    ('v = thread_index("w")', ""),
    ("v = thread_index(3)", ""),
    ('v = thread_index("x", "y")', ""),
    ("v = local_index()", ""),
    ("v = group_size()", ""),
    ("barrier()", ""),
    ("v = shared(f32, 3)", ""),
    ("v = group_sum(x[i])", ""),
    ("v = private(f32, i)", ""),
    ("v = private(f32, 0)", ""),
    ("v = private(3, 3)", ""),
    ("v = private(f32)", ""),
    ("atomic_add(x[i], 0, 1)", ""),
    ("atomic_add(y, 0, n[i])", ""),
    ("atomic_add(y, x[i], 1)", ""),
    ("atomic_max(y, i, 1.0)", ""),
    ("atomic_add(y, 0)", ""),
    ("v = bitcast(x[i], u8)", ""),
    ("v = bitcast(x[i], 3)", ""),
    ('v = f32("a")', ""),
    ("v = f32(x)", ""),
    ("v = f32(x[i], 1)", ""),
    ("v = i32(1 << 70)", ""),
    ('v = int("3")', ""),
    ("v = 1 // 0", ""),
    ("v = 1 << 9999", ""),
    ("v = -1 << -1", ""),
    ("v = ~1.5", ""),
    ("v = min(x)", ""),
    ("v = min(x[i], n[i])", ""),
    ("v = len(i)", ""),
    ("v = x(i)", ""),
    ("v = i(3)", ""),
    ("v = x.shape[i]", ""),
    ("v = x.shape[1]", ""),
    ("v = max(1)", ""),
    ("v: x = 1", ""),
    ("v: f32 = n[i]", ""),
    ("v = pow(x[i], n[i])", ""),
    ("v = x[i] ** n[i]", ""),
    ("y[i] = len", ""),
    ("y[i] = f32", ""),
    ("v = True + x[i]", ""),
    ("y[i] = x[9999999999]", ""),
    ("v = f()", "def f():\n    return"),
    ("v = local_index(axis='y')", ""),
    ("y[i] = CONFIG.tile", "CONFIG = SimpleNamespace(file=3)"),
    ("y[i] = CONFIG.tile.width", "CONFIG = SimpleNamespace(tile=[3])"),
    ("y[i] = helper.f(x[i])", "class helper:\n    @staticmethod\n    def f(v): return w"),
    ("y[i] = k2(x[i])", "@kernel\ndef k2(a: In[f32]): pass"),
    ("v = math.sqrt(-1)", ""),
    ("y[i] = -x", ""),
    ("v = x[i] if i else y", ""),
    ("v = (1, 2) if i > 3 else (1, 2, 3)", ""),
    ("v = 1 if i > 3 else x[i] > 0", ""),
    ("s = 0\nfor k in range(4):\n    s += x[k]", ""),
    ("s = 0\nfor k in range(4):\n    s = s + x[k]", ""),
    ("s = 0\nfor k in range(4):\n    s = max(s, x[k])", ""),
    ("s = 0\nfor k in range(4):\n    s = s * 2.5", ""),
    ("found = False\nif x[i] > 3:\n    found = 1", ""),
    ("found = False\nif x[i] > 3:\n    found = 7", ""),
    ("y[i] = f() + 1.0", "def f(): pass"),
    ("v = 3 < i < x[i]", ""),
    ("i += 0.5", ""),
    ("y[i] += n[i]", ""),
    ("y[i, i] += 1", ""),
    ("v = not x", ""),
    ("f32(x[i])(3)", ""),
    ("y[i] = s\ns = 1.0", "s = 2.0"),
    ("if i > 2:\n    s = x\ny[i] = s[i]", ""),
    ("v = x.dtype + 1", ""),
    ("for j in range(1, 2, 3, 4): pass", ""),
    ("for j in range(): pass", ""),
    ("for i in range(3):\n    i += 0.5", ""),
]


def told(body: str, before: str = "") -> str:
    """What a user sees."""
    with pytest.raises(PootError) as caught:
        launch(build(body, before))
    assert isinstance(caught.value, KernelError)
    notes = [message(note) for note in getattr(caught.value, "__notes__", ())]
    return "\n".join([type(caught.value).__name__, message(str(caught.value)), *notes])


def test_syntax_that_the_language_does_not_have(golden: Callable[[str, str], None]) -> None:
    golden("errors/kernel_syntax.txt", "\n\n".join(told(body) for body in SYNTAX) + "\n")


def test_meanings_that_do_not_fit(golden: Callable[[str, str], None]) -> None:
    golden("errors/kernel_language.txt", "\n\n".join(told(body, before) for body, before in MEANING) + "\n")


@pytest.mark.parametrize("body", SYNTAX)
def test_syntax_is_refused_by_the_decorator(body: str) -> None:
    with pytest.raises(KernelError):
        build(body)


# --- every node class -----------------------------------------------------------------------------------------------

#: Node classes that never stand in a body by themselves: what they are part of is refused as a whole.
PARTS = {
    *("Del", "comprehension", "ExceptHandler", "arguments", "arg", "alias", "withitem", "FormattedValue", "match_case"),
    *("MatchValue", "MatchSingleton", "MatchSequence", "MatchMapping", "MatchClass", "MatchStar", "MatchAs", "MatchOr"),
    *("AsyncFor", "AsyncWith", "Await"),
}
#: Node classes that stand in no body: whole texts, comments, and spellings of Pythons past.
ELSEWHERE = {
    *("Module", "Interactive", "Expression", "FunctionType", "Suite", "TypeIgnore", "AugLoad", "AugStore", "Param"),
    *("Num", "Str", "Bytes", "NameConstant", "Ellipsis", "Index", "ExtSlice"),
}
#: Node classes of Pythons from 3.12 and 3.14 on, with the parts of them.
LATER = {"TypeAlias", "TypeVar", "ParamSpec", "TypeVarTuple", "TemplateStr", "Interpolation"}


ABSTRACT = {"AST", "slice"} | {kind.__name__ for kind in ast.AST.__subclasses__() if kind.__subclasses__()}


def node_classes() -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for name in dir(ast):
            found = getattr(ast, name)
            public = not name.startswith("_")
            if public and isinstance(found, type) and issubclass(found, ast.AST) and name not in ABSTRACT:
                yield name


@pytest.mark.parametrize("name", sorted(node_classes()))
def test_every_node_class_is_accepted_or_refused(name: str) -> None:
    assert sum(name in group for group in (ACCEPTED, REFUSED, PARTS, ELSEWHERE, LATER - {*REFUSED})) == 1


def test_every_refused_class_has_a_body_above() -> None:
    trees = [ast.parse(f"def f():\n    def g():\n        pass\n{_indented(body)}") for body in SYNTAX]
    met = {type(node).__name__ for tree in trees for node in ast.walk(tree)}
    assert (set(REFUSED) | PARTS) - met - LATER == {"Nonlocal"}


def test_type_alias() -> None:
    """Python's own refusal, where it does not have them yet."""
    has = sys.version_info >= (3, 12)
    with pytest.raises(KernelError if has else SyntaxError) as caught:
        build("type V = f32")
    if has:
        assert message(str(caught.value)).endswith(
            "    type V = f32\n    ^^^^^^^^^^^^\n  Remedy: write it outside the kernel."
        )


def _indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.split("\n"))


def test_nonlocal() -> None:
    before = "def around():\n    v = 0\n    @kernel\n    def k(y: Out[f32]):\n        nonlocal v\naround()"
    with pytest.raises(KernelError, match="`nonlocal` is not part of the kernel language"):
        build("pass", before)
