"""Where a traced call runs: on the device of the arrays among its arguments, and of those captured ones that it reads.

Which captured arrays are read only a trace can tell.  It is asked where that makes a difference, and what it found is
kept by everything that the trace depends on, but the device.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from poot.api.arguments import Arguments
from poot.api.array import DeviceArray
from poot.api.captures import Captures
from poot.api.devices import Device, apart, choose, default
from poot.api.precision import Precision
from poot.api.recording import Recorded
from poot.backends.device import DeviceBackend
from poot.backends.names import BUILTIN
from poot.backends.sharing import same_memory
from poot.errors import DeviceMismatchError, DeviceUnavailableError
from poot.target import Target


@dataclass(frozen=True, slots=True)
class Site:
    """Where a call runs, its key and the parts of that, and what was recorded to find out."""

    device: DeviceBackend
    precision: Precision
    parts: Mapping[str, Hashable]
    key: Hashable
    recorded: Recorded | None


def homes_of(arguments: Arguments) -> list[DeviceBackend]:
    """The devices of the arguments' arrays."""
    return _homes([leaf.value for leaf in arguments.leaves if leaf.kind == "array"])


def homes_captured(captures: Captures, recorded: Recorded | None = None) -> list[DeviceBackend]:
    """The devices of the captured arrays; with a recording, of those that it reads."""
    if recorded is None:
        return _homes(captures.arrays)
    return _homes([captures.arrays[index] for index in _captures_read(recorded)])


_REMEDY = "move them to one device first, such as with x.to_device(…), or pass device= to poot.trace."


def device_of(
    requested: str | Device | None, arguments: Arguments, captures: Captures, recorded: Recorded | None = None
) -> DeviceBackend:
    """The device of a call, as `choose` has it; a DeviceMismatchError names the arguments and the captured arrays."""
    try:
        return choose(requested, [*homes_of(arguments), *homes_captured(captures, recorded)])
    except DeviceMismatchError:
        read = range(len(captures.arrays)) if recorded is None else _captures_read(recorded)
        named = [(f"argument {leaf.path!r}", leaf.value) for leaf in arguments.leaves if leaf.kind == "array"]
        named += [(f"captured {captures.labels[index]}", captures.arrays[index]) for index in read]
        raise apart(
            [(name, array.backend) for name, array in named if isinstance(array, DeviceArray)], _REMEDY
        ) from None


def device_to_plan_for(
    requested: str | Device | None, arguments: Arguments, captures: Captures, recorded: Recorded
) -> DeviceBackend:
    """`device_of`; where a device is not here, the error says how its programs are made without it."""
    try:
        return device_of(requested, arguments, captures, recorded)
    except DeviceUnavailableError as error:
        backend = str(error.fields["device"]).partition(":")[0]
        if backend not in BUILTIN:
            raise
        target = f'poot.Target.parse("{Target.parse(backend)}")'
        remedy = f"{error.remedy} No device is needed for poot.compile(f.graph(…), {target})."
        raise DeviceUnavailableError(**error.fields, remedy=remedy) from error.__cause__


def _captures_read(recorded: Recorded) -> list[int]:
    return sorted(source.index for source in recorded.sources.values() if source.kind == "capture")


def _homes(arrays: Sequence[object]) -> list[DeviceBackend]:
    return [array.backend for array in arrays if isinstance(array, DeviceArray)]


def captures_decide(own: Sequence[DeviceBackend], captured: Sequence[DeviceBackend]) -> bool:
    """Whether it makes a difference which captured arrays are read, for arguments that live on `own`."""
    if not captured:
        return False
    try:
        usual = own[0] if own else default()
    except DeviceUnavailableError:
        return True
    return not all(same_memory(home, usual) for home in captured)


def key_parts(arguments: Arguments, captures: Captures) -> dict[str, Hashable]:
    """The key of a call, but for where it runs, by the names that a reader of a message knows."""
    parts: dict[str, Hashable] = {leaf.path: leaf.key for leaf in arguments.leaves}
    parts["structure of the arguments"] = arguments.spec
    if arguments.order:
        parts["order of the keys"] = arguments.order
    parts["passed arguments"] = arguments.names
    parts.update(captures.parts)
    return parts
