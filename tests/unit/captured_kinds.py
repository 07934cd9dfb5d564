"""Kinds of captured state, each a small program: `f` reads it, and `change` changes it."""
# size: every kind stands in this one table.

from __future__ import annotations

#: What is seen to change.
FOLLOWED: dict[str, str] = {
    "super": """
class Base:
    def forward(self, x): return x * self.k
class Derived(Base):
    def forward(self, x): return super().forward(x) + 1
d = Derived(); d.k = 2.0
def f(x): return d.forward(x)
def change(): d.k = 5.0
""",
    "a class variable of a base": """
class Base:
    k = 2.0
    def forward(self, x): return x * self.k
class Derived(Base): pass
d = Derived()
def f(x): return d.forward(x)
def change(): Base.k = 5.0
""",
    "a replaced method of a base": """
class Base:
    def forward(self, x): return x * 2
class Derived(Base):
    def forward(self, x): return super().forward(x) + 1
d = Derived()
def f(x): return d.forward(x)
def change(): Base.forward = lambda self, x: x * 5
""",
    "the class of an object": """
class One:
    def g(self, x): return x * 2
class Two:
    def g(self, x): return x * 5
first, second = One(), One()
def f(x): return first.g(x) + second.g(x)
def change(): second.__class__ = Two
""",
    "iteration": """
class Layer:
    def __init__(self, k): self.k = k
    def __call__(self, x): return x * self.k
class Sequence:
    def __init__(self, *layers): self.layers = layers
    def __iter__(self): return iter(self.layers)
layers = Sequence(Layer(2.0), Layer(3.0))
def f(x):
    for layer in layers: x = layer(x)
    return x
def change(): layers.layers[0].k = 5.0
""",
    "items": """
class Table:
    v = 2.0
    def __getitem__(self, key): return self.v
t = Table()
def f(x): return x * t["k"]
def change(): t.v = 5.0
""",
    "length": """
class Sized:
    n = 2
    def __len__(self): return self.n
s = Sized()
def f(x): return x * len(s)
def change(): s.n = 5
""",
    "truth": """
class Flag:
    on = True
    def __bool__(self): return self.on
flag = Flag()
def f(x): return x if flag else -x
def change(): flag.on = False
""",
    "numbers": """
class Number:
    v = 2.0
    def __float__(self): return self.v
    def __index__(self): return int(self.v)
n = Number()
def f(x): return x * float(n) + range(10)[n]
def change(): n.v = 5.0
""",
    "operators": """
class Parameter:
    v = 2.0
    def __mul__(self, other): return self.v * other
    def __neg__(self): return -self.v
p = Parameter()
def f(x): return p * x - p.__neg__() + -p
def change(): p.v = 5.0
""",
    "equality": """
class Mode:
    name = "a"
    def __eq__(self, other): return self.name == other
    __hash__ = None
mode = Mode()
def f(x): return x if mode == "a" else -x
def change(): mode.name = "b"
""",
    "equality of dataclasses": """
import dataclasses
@dataclasses.dataclass
class Config:
    k: float = 1.0
config, default = Config(), Config()
def f(x): return x if config == default else -x
def change(): config.k = 5.0
""",
    "membership": """
class Names:
    names = ("a",)
    def __contains__(self, name): return name in self.names
n = Names()
def f(x): return x if "a" in n else -x
def change(): n.names = ()
""",
    "order": """
class Level:
    v = 1
    def __lt__(self, other): return self.v < other.v
a, b = Level(), Level()
b.v = 2
def f(x): return x * min(a, b).v
def change(): a.v = 5
""",
    "text": """
class Named:
    name = "a"
    def __str__(self): return self.name
n, table = Named(), {"a": 2.0, "b": 5.0}
def f(x): return x * table[f"{n}"]
def change(): n.name = "b"
""",
    "contexts": """
class Scaled:
    k = 2.0
    def __enter__(self): return self.k
    def __exit__(self, *_): return None
s = Scaled()
def f(x):
    with s as k: return x * k
def change(): s.k = 5.0
""",
    "absent attributes": """
class Lazy:
    def __init__(self): self._data = {"k": 2.0}
    def __getattr__(self, name): return self._data[name]
lazy = Lazy()
def f(x): return x * lazy.k
def change(): lazy._data["k"] = 5.0
""",
    "objects made while tracing": """
scale = 2.0
class Config:
    def __init__(self): self.k = scale
def f(x): return x * Config().k
def change():
    global scale
    scale = 5.0
""",
    "an import": """
def f(x):
    import captured_module
    return x * captured_module.k
def change(): captured_module.k = 5.0
""",
    "an import of a name": """
def f(x):
    from captured_module import k
    return x * k
def change(): captured_module.k = 5.0
""",
    "an import of a name in a helper": """
def helper():
    from captured_module.inner import k as other
    return other
def f(x): return x * helper()
def change(): captured_module.inner.k = 5.0
""",
    "names that a module computes": """
table = {"lazy": 2.0}
captured_module.__getattr__ = lambda name: table[name]
def f(x): return x * captured_module.lazy
def change(): table["lazy"] = 5.0
""",
    "an attribute of a function": """
def helper(x): return x * helper.k
helper.k = 2.0
def f(x): return helper(x)
def change(): helper.k = 5.0
""",
    "an attribute that a function gains": """
def helper(x): return x * getattr(helper, "k", 2.0)
def f(x): return helper(x)
def change(): helper.k = 5.0
""",
    "a context manager": """
import contextlib
scale = 2.0
@contextlib.contextmanager
def scaled(): yield scale
def f(x):
    with scaled() as k: return x * k
def change():
    global scale
    scale = 5.0
""",
    "a cached function": """
import functools
scale = 2.0
@functools.lru_cache
def helper(): return scale
def f(x): return x * helper()
def change():
    global scale
    scale = 5.0
    helper.cache_clear()
""",
    "a partial method": """
import functools
class Model:
    def scaled(self, x, k): return x * k * self.k
    twice = functools.partialmethod(scaled, k=2.0)
m = Model(); m.k = 1.0
def f(x): return m.twice(x)
def change(): m.k = 5.0
""",
    "single dispatch": """
import functools
scale = 2.0
@functools.singledispatch
def helper(kind): return 1.0
@helper.register
def _(kind: str): return scale
def f(x): return x * helper("a")
def change():
    global scale
    scale = 5.0
""",
    "a descriptor": """
scale = 2.0
class Scaled:
    def __get__(self, instance, owner): return scale
class Model:
    k = Scaled()
m = Model()
def f(x): return x * m.k
def change():
    global scale
    scale = 5.0
""",
    "a setter": """
scale = 2.0
class Model:
    @property
    def k(self): return self._k
    @k.setter
    def k(self, value): self._k = value * scale
m = Model(); m.k = 1.0
def f(x):
    m.k = 1.0
    return x * m.k
def change():
    global scale
    scale = 5.0
""",
    "a metaclass": """
class Meta(type):
    v = 2.0
    @property
    def k(cls): return cls.v
class Config(metaclass=Meta): pass
def f(x): return x * Config.k
def change(): Meta.v = 5.0
""",
    "a static and a class method": """
class Config:
    v = 2.0
    @staticmethod
    def one(): return scale
    @classmethod
    def two(cls): return cls.v
scale = 2.0
def f(x): return x * Config.one() * Config.two()
def change(): Config.v = 5.0
""",
    "a number with attributes": """
class Number(float): pass
n = Number(2.0); n.extra = 2.0
def f(x): return x * n * n.extra
def change(): n.extra = 5.0
""",
    "a text with attributes": """
class Name(str): pass
n = Name("a"); n.extra = 2.0
def f(x): return x * n.extra
def change(): n.extra = 5.0
""",
    "a list with attributes": """
class Layers(list): pass
l = Layers([2.0]); l.extra = 2.0
def f(x): return x * l[0] * l.extra
def change(): l.extra = 5.0
""",
    "a list with methods": """
class Layers(list):
    def total(self): return sum(self) * scale
l, scale = Layers([2.0]), 2.0
def f(x): return x * l.total()
def change():
    global scale
    scale = 5.0
""",
    "a NumPy array with attributes": """
class Weight(np.ndarray): pass
w = np.ones(3, np.float32).view(Weight); w.extra = 2.0
def f(x): return x * w.extra
def change(): w.extra = 5.0
""",
    "an array of objects": """
class Layer: k = 2.0
layers = np.array([Layer(), Layer()], object)
def f(x): return x * layers[0].k
def change(): layers[0].k = 5.0
""",
    "an enum with attributes": """
import enum
class Mode(enum.Enum):
    UP = 1
Mode.UP.k = 2.0
mode = Mode.UP
def f(x): return x * mode.k
def change(): Mode.UP.k = 5.0
""",
    "a bytearray": """
b = bytearray(b"\\2\\3")
def f(x): return x * b[0]
def change(): b[0] = 5
""",
    "an array of the standard library": """
import array
a = array.array("d", [2.0])
def f(x): return x * a[0]
def change(): a[0] = 5.0
""",
    "a memoryview": """
b = bytearray(1000); v = memoryview(b)
def f(x): return x * v[999]
def change(): b[999] = 5
""",
    "memory of C": """
import ctypes
a = (ctypes.c_float * 2)(2.0, 3.0)
def f(x): return x * a[0]
def change(): a[0] = 5.0
""",
    "a bound method of a dict": """
table = {"k": 2.0}
get = table.get
def f(x): return x * get("k")
def change(): table["k"] = 5.0
""",
    "a view of a dict": """
import types
table = {"k": 2.0}
view = types.MappingProxyType(table)
def f(x): return x * view["k"]
def change(): table["k"] = 5.0
""",
    "wrappers of containers": """
import collections
first, second = {"k": 2.0}, collections.UserDict(j=2.0)
chain = collections.ChainMap({}, first)
def f(x): return x * chain["k"] * second["j"]
def change(): first["k"], second["j"] = 5.0, 5.0
""",
    "a namespace": """
import types
n = types.SimpleNamespace(k=2.0)
def f(x): return x * n.k
def change(): n.k = 5.0
""",
    "a default factory": """
import collections
scale = 2.0
table = collections.defaultdict(lambda: scale)
def f(x): return x * table["k"]
def change():
    global scale
    scale = 5.0
    table.clear()
""",
    "a private slot": """
class Config:
    __slots__ = ("__k",)
    def __init__(self): self.__k = 2.0
    def get(self): return self.__k
    def set(self, k): self.__k = k
c = Config()
def f(x): return x * c.get()
def change(): c.set(5.0)
""",
    "a keyword's default, in place": """
def helper(x, *, k=2.0): return x * k
def f(x): return helper(x)
def change(): helper.__kwdefaults__["k"] = 5.0
""",
    "the order of a dict": """
d = {"a": 2.0, "b": 5.0}
def f(x): return x * next(iter(d.values()))
def change(): d["a"] = d.pop("a")
""",
    "the order of an ordered dict": """
import collections
d = collections.OrderedDict(a=2.0, b=5.0)
def f(x): return x * next(iter(d.values()))
def change(): d.move_to_end("a")
""",
    "a pattern": """
class Point:
    __match_args__ = ("a", "b")
    def __init__(self, a, b): self.a, self.b = a, b
p = Point(2.0, 3.0)
def f(x):
    match p:
        case Point(a, b=b): return x * a + b
def change(): p.a, p.b = 5.0, 6.0
""",
    "names of attributes as text": """
import operator
class Config: inner = None
c = Config(); c.inner = Config(); c.inner.k = 2.0
def f(x): return x * operator.attrgetter("inner.k")(c)
def change(): c.inner.k = 5.0
""",
    "a traced method of an object": """
import poot
class Model:
    k = 2.0
    @poot.trace
    def forward(self, x): return x * self.k
m = Model()
forward = m.forward
def f(x): return forward(x)
def change(): m.k = 5.0
""",
    "a method of an object": """
class Model:
    k = 2.0
    def forward(self, x): return x * self.k
m = Model()
forward = m.forward
def f(x): return forward(x)
def change(): m.k = 5.0
""",
    "a partial of a helper": """
import functools
scale, table = 2.0, [2.0]
part = functools.partial(lambda x, t: x * scale * t[0], t=table)
def f(x): return part(x)
def change(): table[0] = 5.0
""",
    "an attribute that is deleted": """
class Config: k = 2.0
c = Config(); c.k = 5.0
def f(x): return x * c.k
def change(): del c.k
""",
}

#: What is not looked at again, and how `explain` names it.
FROZEN: dict[str, tuple[str, str]] = {
    "an attribute getter": (
        """
import operator
get = operator.attrgetter("k")
class Config: k = 2.0
c = Config()
def f(x): return x * get(c)
def change(): c.k = 5.0
""",
        "get: what an attrgetter holds or gives",
    ),
    "a weak reference": (
        """
import weakref
class Config: k = 2.0
c = Config(); ref = weakref.ref(c)
def f(x): return x * ref().k
def change(): c.k = 5.0
""",
        "ref: what a ReferenceType holds or gives",
    ),
    "a context variable": (
        """
import contextvars
v = contextvars.ContextVar("v", default=2.0)
def f(x): return x * v.get()
def change(): v.set(5.0)
""",
        "v: what a ContextVar holds or gives",
    ),
    "what a cached function remembers": (
        """
import functools
scale = 8.0
@functools.lru_cache
def helper(): return scale
scale = 2.0; helper(); scale = 8.0
def f(x): return x * helper()
def change(): helper.cache_clear()
""",
        "helper: what a functools.lru_cache holds or gives",
    ),
    "code that no name leads to": (
        """
import operator
scale = 2.0
class Config:
    def k(self): return scale
call, c = operator.methodcaller("k"), Config()
def f(x): return x * call(c)
def change():
    global scale
    scale = 5.0
""",
        "what Config.k (<string>:5) reads: no name leads to it",
    ),
    "a copy": (
        """
import copy
scale = 2.0
class Config:
    def __copy__(self):
        made = Config()
        made.k = scale
        return made
c = Config()
def f(x): return x * copy.copy(c).k
def change():
    global scale
    scale = 5.0
""",
        "what Config.__copy__ (<string>:5) reads: no name leads to it",
    ),
}
