"""Launches on another device than that of their arrays, as `device=` may ask for.

What a traced function does with its arguments: they are copied to where it runs.  A kernel's outputs are copied back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from poot.api.array import DeviceArray
from poot.api.constants import note_write
from poot.api.kernel_arguments import HostArray
from poot.api.kernel_run import refuse_read_only, writeable
from poot.backends.device import BufferView, DeviceBackend
from poot.backends.sharing import same_memory
from poot.errors import KernelFault
from poot.kernel.parse.annotations import BufferParameter, Parameters

#: One array of several names, as overlapping arguments are found out by it: its memory and place there.
_Place = tuple[int, int, object]


def launch_there(
    kernel: str,
    parameters: Parameters,
    args: Sequence[Any],
    backend: DeviceBackend,
    launch: Callable[[Sequence[Any]], None],
) -> None:
    """Launch on copies of the arrays that live elsewhere, and write the outputs among them back; a fault is raised."""
    hosts: dict[_Place, HostArray] = {}
    outputs: list[tuple[DeviceArray, BufferView, HostArray]] = []
    moved: list[Any] = []
    for item, value in zip(parameters.items, args, strict=True):
        away = isinstance(value, DeviceArray) and not same_memory(value.backend, backend)
        if not isinstance(item, BufferParameter) or not away:
            moved.append(value)
            continue
        view = value.buffer_view()
        place = id(value.memory), view.offset, value.spec
        if place not in hosts:
            hosts[place] = np.array(value.numpy())
        moved.append(hosts[place])
        if item.access != "read":
            if not writeable(value):
                refuse_read_only(kernel, item.name)
            outputs.append((value, view, hosts[place]))
    try:
        launch(moved)
    except KernelFault:
        _write_back(outputs)
        raise
    _write_back(outputs)


def _write_back(outputs: Sequence[tuple[DeviceArray, BufferView, HostArray]]) -> None:
    for array, view, host in outputs:
        try:
            array.backend.write(view, host)
        finally:
            note_write(array)
