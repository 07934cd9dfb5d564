"""What saved graphs, programs, kernels and targets have in common: JSON read strictly, and dataclasses as plain data.

    codec = Codec((Slot, Storage))
    codec.decode(read_json(text), "storage")

A reader refuses what it does not know: a key that is unknown, missing or there twice, a version that is no known
integer, a class that is none of the codec's, a field of another type, anything nested beyond `DEPTH`.  The error names
the path of what is wrong: `steps[2].groups`.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields
from typing import Any, cast, get_args, get_origin, get_type_hints

from poot.dtypes import BY_NAME, DType
from poot.errors import PootError, SerialisationError
from poot.typed import checker, field_checks

#: How deep lists and objects may be nested: several times what programs need, and little enough to be walked anywhere.
DEPTH = 200


class Damage(ValueError):
    """What is wrong with saved data, and where: `path` leads to it from the top."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{path.removeprefix('.')}: {message}" if path else message)
        self.message = message
        self.path = path

    def below(self, key: str) -> Damage:
        """The same damage, seen from one level further up."""
        return Damage(self.message, key + self.path)


# --- JSON -------------------------------------------------------------------------------------------------------------


def read_json(text: str | bytes) -> Any:
    """What a text holds; ValueError where it is no JSON, has a key twice, NaN or Infinity, or is nested too deeply."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise Damage("it is nested too deeply") from None
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEPTH:
            raise Damage("it is nested too deeply")
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += cast("dict[str, Any]", item).values()
            elif isinstance(item, list):
                inner += cast("list[Any]", item)
        level = inner
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Damage(f"the key {shown(twice)} stands there twice")
    return found


def _no_constant(name: str) -> Any:
    raise Damage(f"{name} is no JSON")


def shown(value: object) -> str:
    """A value for a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 100 else text[:100] + "…"


def container(text: str | bytes, kind: str, version: int, names: Collection[str], what: str) -> dict[str, Any]:
    """The fields of a saved object whose `format` is a kind, of the one version that is known; SerialisationError else.

    `names` are its other keys, all of which it has, and no others.
    """
    try:
        found: Any = read_json(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or cast("dict[str, Any]", found).get("format") != kind:
        raise SerialisationError(what=what, message=f"it is not a saved {kind.removeprefix('poot ')}")
    plain = cast("dict[str, Any]", found)
    require_version(plain.get("version"), version, what)
    return require_keys(plain, ("format", "version", *names), what)


def require_version(found: object, known: int, what: str) -> None:
    """SerialisationError unless a version is exactly the known integer."""
    if type(found) is not int or found != known:
        raise SerialisationError(
            what=what,
            message=f"it has version {shown(found)}, and this poot reads version {known}",
            remedy="load it with the version of poot that saved it, or save it again with this one.",
        )


def require_keys(plain: dict[str, Any], names: Collection[str], what: str) -> dict[str, Any]:
    """The same object; SerialisationError unless it has exactly these keys."""
    for name in plain:
        if name not in names:
            raise SerialisationError(what=what, message=f"it has the key {shown(name)}, which this poot does not know")
    for name in names:
        if name not in plain:
            raise SerialisationError(what=what, message=f"it has no {name}")
    return plain


# --- dataclasses ------------------------------------------------------------------------------------------------------


class Codec:
    """Dataclasses as plain data and back: each as its name and fields, floats by their bits, tuples as lists.

    Source locations, which are called `where`, are left out.
    """

    def __init__(self, classes: Sequence[Any]) -> None:
        self._classes: dict[str, Any] = {each.__name__: each for each in classes}
        self._fields: dict[str, tuple[str, ...]] = {
            name: tuple(item.name for item in fields(each) if item.name != "where")
            for name, each in self._classes.items()
        }

    def encode(self, value: object) -> Any:
        """A value of scalars, dtypes, tuples and the codec's classes as what JSON can hold."""
        if isinstance(value, float):
            return {"float": struct.pack("<d", value).hex()}
        if isinstance(value, DType):
            return {"dtype": value.name}
        if isinstance(value, tuple):
            return [self.encode(item) for item in cast("tuple[object, ...]", value)]
        name = type(value).__name__
        if name in self._fields:
            return {name: [self.encode(getattr(value, field)) for field in self._fields[name]]}
        return value

    def decode(self, value: Any) -> Any:
        """What `encode` was given; Damage where a part of it is unknown or has another type than its field."""
        if isinstance(value, list):
            return self._items(cast("list[Any]", value), "[{}]".format)
        if not isinstance(value, dict):
            if isinstance(value, float):
                raise Damage("a float in decimal digits, expected its bits")
            return value
        plain = cast("dict[str, Any]", value)
        if len(plain) != 1:
            raise Damage(f"it has the keys {shown(list(plain))}, expected one")
        ((name, inner),) = plain.items()
        if name == "float":
            return _float(inner)
        if name == "dtype":
            if not isinstance(inner, str) or inner not in BY_NAME:
                raise Damage(f"{shown(inner)} is no dtype that this poot knows")
            return BY_NAME[inner]
        if name not in self._classes:
            raise Damage(f"it has the key {shown(name)}, which this poot does not know")
        return self._made(name, inner)

    def _items(self, values: Sequence[Any], key: Callable[[int], str]) -> tuple[Any, ...]:
        found: list[Any] = []
        try:
            for item in values:
                found.append(self.decode(item))
        except Damage as damage:
            raise damage.below(key(len(found))) from None
        return tuple(found)

    def _made(self, name: str, inner: object) -> Any:
        names, kind = self._fields[name], self._classes[name]
        items = cast("list[Any]", inner) if isinstance(inner, list) else None
        if items is None or len(items) != len(names):
            raise Damage(f"{shown(cast('object', inner))} are no fields of {name}, which has {len(names)}")
        values = dict(zip(names, self._items(items, lambda place: f".{names[place]}"), strict=True))
        require_fields(kind, values)
        try:
            return kind(**values)
        except (PootError, ValueError, TypeError, OverflowError) as error:
            raise Damage(str(error).partition("\n")[0]) from error


def require_fields(kind: type, values: dict[str, Any]) -> None:
    """Damage unless each value has the type of the field of its name."""
    checks = field_checks(kind)
    for name, value in values.items():
        if not checks[name](value):
            raise _misfit(value, get_type_hints(kind)[name]).below(f".{name}")


def _misfit(value: object, hint: Any) -> Damage:
    """The damage of a value that has not the type of an annotation: that of the first item to blame, where one is."""
    arguments = get_args(hint)
    if get_origin(hint) is tuple and type(value) is tuple:
        items = cast("tuple[object, ...]", value)
        expected = (arguments[0],) * len(items) if arguments[1:] == (Ellipsis,) else arguments
        for place, (item, each) in enumerate(zip(items, expected, strict=False)):
            if not checker(each)(item):
                return _misfit(item, each).below(f"[{place}]")
    text = str(hint) if arguments else getattr(hint, "__name__", str(hint))
    return Damage(f"it is {shown(cast('object', value))}, expected " + re.sub(r"\w+\.(?=\w)", "", text))


def _float(inner: object) -> float:
    try:
        if isinstance(inner, str) and len(inner) == 16:
            return struct.unpack("<d", bytes.fromhex(inner))[0]
    except ValueError:
        pass
    raise Damage(f"{shown(inner)} are no 8 bytes of a float")
