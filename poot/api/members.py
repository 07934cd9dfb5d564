"""What code may reach from an object: its named attributes, the methods of its classes, and what wrappers wrap.

All classes of the method resolution order count, since `super()` reaches those that are overridden.  Special methods
run without being named: which of them may is decided by `special_names` from what the reachable code does.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from poot.api.codes import imported, reads_of
from poot.api.libraries import is_bound, is_library, is_library_module, is_library_type, is_poot
from poot.probe import attributes

Member = tuple[str, object]

#: Under which names classes of libraries keep what their methods work on.
_HELD: dict[type, tuple[str, ...]] = {
    functools.partial: ("func", "args", "keywords"),
    functools.partialmethod: ("func", "args", "keywords"),
    functools.singledispatchmethod: ("dispatcher", "func"),
    functools.cached_property: ("func",),
    collections.UserDict: ("data",),
    collections.UserList: ("data",),
    collections.UserString: ("data",),
    collections.ChainMap: ("maps",),
    collections.defaultdict: ("default_factory",),
    np.vectorize: ("pyfunc",),
    property: ("fget", "fset"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    types.MethodType: ("__func__", "__self__"),
}
PLAIN = (bool, int, str, bytes, type(None), complex, range, type(Ellipsis), enum.Enum, np.dtype)
#: Types of constants that are a part of a key by themselves.
EXACT: Final = frozenset({bool, int, str, bytes, type(None), range, type(Ellipsis)})
CONTAINERS: tuple[type[Any], ...] = (list, tuple, deque, set, frozenset)
_WRAPPED = ("__wrapped__", "registry")
_ORDER = frozenset({"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__"})
_SHOW = frozenset({"__repr__", "__str__", "__format__"})
_MADE = frozenset({"__init__", "__new__", "__post_init__"})
#: Copying, pickling and the ends of objects and classes; `explain` lists them where they ran.
_ASIDE = frozenset(
    {
        *("__copy__", "__deepcopy__", "__del__", "__dir__", "__getnewargs__", "__getnewargs_ex__", "__getstate__"),
        *("__init_subclass__", "__reduce__", "__reduce_ex__", "__replace__", "__set_name__", "__setstate__"),
        *("__sizeof__", "__annotate__"),
    }
)
#: Those that a class can gain while code that runs on it stays as it is.
ALWAYS = frozenset({"__call__", "__bool__", "__len__", "__getattr__", "__getattribute__"})


class _Unbound:
    """The value of a closure cell that has none yet."""


UNBOUND = _Unbound()


def special_names(kind: type, uses: frozenset[str] | set[str]) -> Iterator[str]:
    """The special methods of a user's class that code with these uses (those of `Reads`) may run without naming them.

    The comparisons that a dataclass generates read every field, so they count only where two objects are compared.
    """
    space = vars(kind)
    for name, item in space.items():
        if not (name.startswith("__") and name.endswith("__")) or name in _ASIDE or not _runs(item):
            continue
        if name in _ORDER:
            generated = "__dataclass_fields__" in space and _file(item) == "<string>"
            wanted = ("compare objects" if generated else "compare") in uses
        elif name in _SHOW:
            wanted = "show" in uses
        else:
            wanted = name not in _MADE or "make" in uses
        if wanted:
            yield name


def _runs(item: object) -> bool:
    """Whether an attribute of a class is code of a user's: a function, a wrapper of one, or an object with methods."""
    kind = type(item)
    return kind is types.FunctionType or issubclass(kind, _HOLDERS) or not is_library_type(kind)


#: The class of what `functools.lru_cache` makes.
CACHED = type(functools.lru_cache(lambda: None))
_HOLDERS = (*_HELD, CACHED)


def _file(item: object) -> str:
    return item.__code__.co_filename if isinstance(item, types.FunctionType) else ""


def free_values(function: types.FunctionType) -> list[Member]:
    """Closure cells, defaults, globals and imports of a function, by the names under which its code reads them."""
    found: list[Member] = []
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        found.append((name, content(cell)))
    defaults = function.__defaults__
    if defaults:
        defaulted = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        found += [(f"default of {name}", value) for name, value in zip(defaulted, defaults, strict=True)]
    if function.__kwdefaults__:
        found += [(f"default of {name}", value) for name, value in function.__kwdefaults__.items()]
    space, reads = function.__globals__, reads_of(code)
    found += [(name, space[name]) for name in reads.globals if name in space]
    if reads.imports:
        found += [
            (f"import {name}", module)
            for name, module in imported(reads, space)
            if not (issubclass(type(module), types.ModuleType) and is_library_module(cast("types.ModuleType", module)))
        ]
    return found


def content(cell: types.CellType) -> object:
    """What a closure cell holds; UNBOUND where it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


def function_members(function: types.FunctionType, names: frozenset[str] | set[str]) -> list[Member]:
    """What a function reads, and those of its own attributes that code names; of a library's, what it wraps."""
    own = function.__dict__
    wrapped = [(name, own[name]) for name in _WRAPPED if name in own] if own else []
    if is_library(function):
        if is_poot(function.__module__) and not wrapped:
            return []
        cells = zip(function.__code__.co_freevars, map(content, function.__closure__ or ()), strict=True)
        return [*wrapped, *((name, item) for name, item in cells if _is_users_function(item))]
    named = [(name, own[name]) for name in sorted(names & own.keys()) if name not in _WRAPPED] if own else []
    return [*free_values(function), *wrapped, *named]


def _is_users_function(item: object) -> bool:
    return isinstance(item, types.FunctionType) and not is_library(item)


@dataclass(frozen=True, slots=True)
class Layout:
    """What is known of an object by its class.

    `library`: whose class it is; `bare`: a user's class on no built-in one; `slots`: names of slots, and the place of
    their class in the resolution order; `held`: the names under which a library's class that it is derived from keeps
    what its methods work on.
    """

    library: bool
    bare: bool
    slots: tuple[tuple[str, int], ...]
    held: tuple[str, ...]


#: By the id of a class, which is referred to weakly.
_layouts: dict[int, tuple[weakref.ref[type], Layout]] = {}


def layout(kind: type) -> Layout:
    """The layout of the objects of a class."""
    known = _layouts.get(id(kind))
    if known is not None and known[0]() is kind:
        return known[1]
    number = id(kind)
    made = _layout(kind)
    _layouts[number] = weakref.ref(kind, lambda _: _layouts.pop(number, None)), made
    return made


def _layout(kind: type) -> Layout:
    library = is_library_type(kind)
    bare = not library and all(base is object or not is_library_type(base) for base in kind.__mro__)
    slots = tuple(
        (name, place)
        for place, base in enumerate(kind.__mro__)
        if not is_library_type(base)
        for name, slot in vars(base).items()
        if type(slot) is types.MemberDescriptorType
    )
    return Layout(library, bare, slots, tuple(name for base in kind.__mro__ for name in _HELD.get(base, ())))


def members(value: object, names: frozenset[str] | set[str]) -> list[Member]:
    """The parts of an object, other than the items of a container, that code with these `names` may read.

    The class of an object is one of them, if it is a user's, under the name "__class__".
    """
    kind = type(value)
    if kind is types.FunctionType:
        return function_members(cast("types.FunctionType", value), names)
    if kind in (types.BuiltinFunctionType, types.MethodWrapperType):
        owner: object = cast("Any", value).__self__
        return [] if owner is None or issubclass(type(owner), (types.ModuleType, type)) else [("__self__", owner)]
    if issubclass(kind, types.ModuleType):
        return _module_members(cast("types.ModuleType", value), names)
    known = layout(kind)
    found: list[Member] = [] if known.library else [("__class__", kind)]
    if issubclass(kind, type):
        return found + _class_members(cast("type", value), names)
    for name in known.held:
        _add(found, name, functools.partial(object.__getattribute__, value, name))
    for name, place in known.slots:
        if name in names:
            slot: Any = vars(kind.__mro__[place])[name]
            _add(found, name, functools.partial(slot.__get__, value, kind))
    space = attributes(value)
    if known.library and is_bound(value):
        found += [("__func__", space["__poot_function__"]), ("__self__", space["_owner"])]
    elif space:
        found += [(name, item) for name, item in space.items() if name in names or name in _WRAPPED]
    return found


def _add(found: list[Member], name: str, read: Callable[[], object]) -> None:
    """Add an attribute, read past any `__getattr__`, where it is there."""
    with contextlib.suppress(AttributeError):
        found.append((name, read()))


def _module_members(module: types.ModuleType, names: frozenset[str] | set[str]) -> list[Member]:
    if is_library_module(module):
        return []
    space = module.__dict__
    return [(name, space[name]) for name in sorted(names & space.keys())]


def _class_members(kind: type, names: Iterable[str]) -> list[Member]:
    """The named attributes of all classes in the method resolution order, those that are overridden too."""
    found: list[Member] = []
    seen: set[str] = set()
    for base in kind.__mro__:
        if is_library_type(base):
            continue
        space = vars(base)
        for name in sorted(space.keys() & names):
            if type(space[name]) is not types.MemberDescriptorType:
                found.append((name if name not in seen else f"{name} of {base.__name__}", space[name]))
        seen.update(space)
    return found


def items_of(value: object, kind: Any) -> Iterable[object]:
    """The items of a container, as its built-in class holds them."""
    base: Any = next(base for base in CONTAINERS if issubclass(kind, base))
    return base.__iter__(value)


def pairs_of(value: Any, kind: Any) -> Iterable[tuple[object, object]]:
    """The keys and values of a mapping, as its built-in class holds them."""
    if issubclass(kind, types.MappingProxyType):
        return list(value.items())
    base: Any = OrderedDict if issubclass(kind, OrderedDict) else dict
    return base.items(value)
