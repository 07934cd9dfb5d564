"""Making a device: whatever a broken installation raises is one error, which says what is wrong and what mends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from poot.backends.packages import ailments
from poot.errors import DeviceUnavailableError, PootError
from poot.target import Target

T = TypeVar("T")

_DEVICE = "let the factory return the device: register(name, lambda ordinal: MyDevice(ordinal))."
_TARGET = "state it: dataclasses.replace(poot.Target.parse(…), backend=…) has all of another one's."


def opened(backend: str, name: str, make: Callable[[], T]) -> T:
    """What `make` gives; a DeviceUnavailableError for all that it raises but other errors of poot's.

    And for what is no device: it has no target, or one that does not say what planning asks of every target.
    """
    try:
        made = make()
        target = getattr(made, "target", None)
        if not isinstance(target, Target):
            message = f"{type(made).__name__} given by its factory, which has no target"
            raise DeviceUnavailableError(device=name, message=message, remedy=_DEVICE)
        if target.unstated:
            message = f"its target does not state {', '.join(target.unstated)}"
            raise DeviceUnavailableError(device=name, message=message, remedy=_TARGET)
        return made
    except DeviceUnavailableError as error:
        # Made anew: one that comes from the import of a module names that line, not the one that asks for the device.
        raise _explained(backend, str(error.fields["device"]), str(error.fields["message"]), error.remedy) from (
            error.__cause__
        )
    except PootError:
        raise
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        raise _explained(backend, name, message, DeviceUnavailableError.default_remedy) from error


def _explained(backend: str, name: str, message: str, remedy: str) -> DeviceUnavailableError:
    """The error with what is wrong with the packages of a backend, and with the commands that mend those."""
    remarks, commands = ailments(backend)
    if commands and remedy == DeviceUnavailableError.default_remedy:
        remedy = ""
    parts = [*(f"run `{command}`" for command in commands), *filter(None, [remedy.rstrip(".")])]
    return DeviceUnavailableError(
        device=name, message="; ".join([message, *remarks]), remedy="; ".join(parts) + "." * bool(parts)
    )
