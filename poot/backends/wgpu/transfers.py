"""Bytes to and from a device; reads wait for it only while it is there.

wgpu polls a device on a thread of its own, which ends when the device is destroyed: what was waited for is then told by
nobody.  So whoever waits looks now and then whether that thread still works.  Nothing here polls instead: wgpu ends the
process where memory of a destroyed device is read after a poll, and where a device is destroyed during a submission.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from poot.backends.device import HostArray
from poot.backends.wgpu.adapter import wgpu

_LOOK = 0.05  # seconds
_STAGED_BYTES = 1 << 26
_USAGE = wgpu.BufferUsage.COPY_DST | wgpu.BufferUsage.MAP_READ


def guard(device: Any) -> None:
    """Make a device that has just been opened one for `submit` and `read_memory`.

    A device's thread is ended before the device is: here not while another makes a call that would not survive it.
    """
    poller = device._poller
    calls = poller.calls = threading.RLock()
    end = poller.stop

    def stop() -> None:
        end()
        with calls:
            pass

    poller.stop = stop


def submit(device: Any, queue: Any, *commands: Any) -> None:
    """Submit command buffers; RuntimeError where the device is being destroyed."""
    poller = _polling(device._poller)
    with poller.calls:
        _polling(poller)
        queue.submit(commands)


def read_memory(device: Any, queue: Any, memory: Any, low: int, nbytes: int) -> HostArray:
    """Bytes of a buffer from `low` on, both multiples of 4, once the work on it is done.

    RuntimeError where the device is destroyed meanwhile, by another thread.
    """
    staged = device.create_buffer(size=nbytes, usage=_USAGE)
    encoder = device.create_command_encoder()
    encoder.copy_buffer_to_buffer(memory, low, staged, 0, nbytes)
    submit(device, queue, encoder.finish())
    poller = _polling(device._poller)
    try:
        with poller.calls:
            _polling(poller)
            mapped = staged.map_async("READ_NOSYNC")  # it needs no submission of its own
        while not mapped._thread_event.wait(_LOOK):
            _polling(poller)
        mapped.sync_wait()
        with poller.calls:
            _polling(poller)
            found = np.frombuffer(staged.read_mapped(), np.uint8)
    except Exception:
        poller._token_ids.clear()  # else it may go round and round for what never comes
        raise
    staged.destroy()
    return found


def write_memory(device: Any, queue: Any, memory: Any, low: int, data: HostArray, staged: int) -> int:
    """Write bytes to a buffer from `low` on; returns how many are staged, as `staged` were before.

    wgpu keeps a copy of what is written until the next submission, and a device that has no memory for it is lost: so
    writes go in pieces, and are submitted as they come.
    """
    for start in range(0, data.nbytes, _STAGED_BYTES):
        piece = data[start : start + _STAGED_BYTES]
        queue.write_buffer(memory, low + start, piece)
        staged += piece.nbytes
        if staged >= _STAGED_BYTES:
            submit(device, queue)
            staged = 0
    return staged


def _polling(poller: Any) -> Any:
    """A device's thread; RuntimeError where it is about to end, or has ended."""
    if poller is None or poller._shutdown:
        raise RuntimeError("the device is lost: it was destroyed")
    return poller
