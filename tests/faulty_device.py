"""A device that fails where it is told to, and that counts what it has been given and has given back."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

from poot.api.devices import Device
from poot.errors import DeviceError

CALLS = ("allocate", "write", "read", "copy", "host_view", "import_host", "load", "record", "replay")
"""The calls that can fail.  `free` gives memory back whatever else goes wrong."""


class InjectedError(DeviceError):
    """The failure of a device that tests make."""


@dataclass(frozen=True)
class Failure:
    """The call to fail: its name, its number among those of that name, and where it fails.

    "before" and "after" its work; for `record` and `replay` also after a number of the launches and copies.  With
    `interrupt` it is a Ctrl-C that comes there; `then` fails next, counted from there.
    """

    call: str
    number: int
    when: Literal["before", "after"] | int = "before"
    interrupt: bool = False
    then: Failure | None = None


class FaultyDevice:
    """Passes every call on to a device; fails at the one that `failing` names."""

    def __init__(self, device: Device) -> None:
        self._inner: Any = device.backend
        self.name = self._inner.name
        self.target = self._inner.target
        self.space = getattr(self._inner, "space", self._inner)
        self.submits_whole = getattr(self._inner, "submits_whole", False)
        self.launches_whole = getattr(self._inner, "launches_whole", False)
        self.calls: Counter[str] = Counter()
        self.live: dict[int, Any] = {}
        self.imported: dict[int, Any] = {}
        self.recorded: dict[int, tuple[Any, Any]] = {}
        self.failure: Failure | None = None
        self.fired = False
        self.failed = 0
        self._lock = threading.RLock()

    def arm(self, failure: Failure | None) -> None:
        """Let one call fail, counted from here on."""
        self.calls.clear()
        self.failure, self.fired, self.failed = failure, False, 0

    def take_fired(self) -> bool:
        """Whether the call has failed since this was asked last."""
        fired, self.fired = self.fired, False
        return fired

    def _call(self, name: str, *args: Any) -> Any:
        with self._lock:
            number = self.calls[name]
            self.calls[name] += 1
            failure = self.failure
            if failure is None or (failure.call, failure.number) != (name, number):
                return getattr(self._inner, name)(*args)
            self.failure, self.fired, self.failed = failure.then, True, 1
            if failure.then is not None:
                self.calls.clear()
        match failure.when:
            case "before":
                pass
            case "after":
                getattr(self._inner, name)(*args)
            case int(count):
                recording, bindings = args if name == "replay" else (None, args[3])
                steps, views, rebindable, _, fault = args if recording is None else self.recorded[id(recording)][1]
                self._inner.record(steps[:count], views, rebindable, bindings, fault)
        if failure.interrupt:
            raise KeyboardInterrupt
        raise InjectedError(device=self.name, message=f"injected: {name} {number}, {failure.when}")

    def allocate(self, nbytes: int) -> Any:
        buffer = self._call("allocate", nbytes)
        with self._lock:
            self.live[id(buffer)] = buffer
        return buffer

    def free(self, buffer: Any) -> None:
        with self._lock:
            found = self.live.pop(id(buffer), None) or self.imported.pop(id(buffer), None)
        assert found is buffer, "memory is given back that is not there, or no longer"
        self._inner.free(buffer)

    def write(self, view: Any, array: Any) -> None:
        self._call("write", view, array)

    def read(self, view: Any, out: Any) -> None:
        self._call("read", view, out)

    def copy(self, source: Any, target: Any, nbytes: int) -> None:
        self._call("copy", source, target, nbytes)

    def host_view(self, view: Any, nbytes: int) -> Any:
        return self._call("host_view", view, nbytes)

    def import_host(self, array: Any) -> Any:
        buffer = self._call("import_host", array)
        if buffer is not None:
            self.imported[id(buffer)] = buffer
        return buffer

    def synchronize(self) -> None:
        self._inner.synchronize()

    def load(self, compiled: Any) -> Any:
        return self._call("load", compiled)

    def record(self, steps: Any, views: Any, rebindable: Any, bindings: Any, fault: int = -1) -> Any:
        arguments = steps, views, rebindable, bindings, fault
        recording = self._call("record", *arguments)
        self.recorded[id(recording)] = recording, arguments
        return recording

    def replay(self, recording: Any, bindings: Any) -> None:
        self._call("replay", recording, bindings)

    def elapsed(self, recording: Any, bindings: Any, repeats: int) -> float:
        return self._inner.elapsed(recording, bindings, repeats)
