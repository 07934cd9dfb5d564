"""The caching allocator: alignment, reuse, bounds, errors, threads, forks, and views that outlive their block."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from poot.backends.cpu import allocator as module
from poot.backends.cpu.allocator import Allocator, Block, default_cache_bytes, size_class
from poot.errors import AllocationError, ArgumentError, DeviceError
from tests.messages import without_line

MIB = 1 << 20


@pytest.fixture
def allocator() -> Allocator:
    return Allocator(64 * MIB)


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1000, 4096, 100_000, MIB, 4 * MIB - 1, 4 * MIB, 5 * MIB + 7])
def test_blocks_are_aligned_and_writable(allocator: Allocator, nbytes: int) -> None:
    blocks = [allocator.allocate(nbytes) for _ in range(3)]
    for index, block in enumerate(blocks):
        assert block.alive and block.nbytes == nbytes
        assert block.address % 64 == 0
        assert block.address % (2 * MIB) == 0 or nbytes < 4 * MIB
        view = block.view(np.uint8, nbytes)
        view[...] = index
        assert view.ctypes.data == block.address or nbytes == 0
    for index, block in enumerate(blocks):
        assert np.all(block.view(np.uint8, nbytes) == index)


def test_size_classes_waste_little_and_are_few() -> None:
    random.seed(1)
    for _ in range(2000):
        nbytes = random.randrange(1 << random.randrange(1, 40))
        size = size_class(nbytes)
        assert size % 64 == 0 and size >= nbytes
        assert size <= max(64, nbytes + 64, nbytes * 9 / 8)
        assert size_class(size) == size
    assert len({size_class(nbytes) for nbytes in range(MIB, 2 * MIB, 64)}) == 9


def test_freed_memory_is_used_again(allocator: Allocator) -> None:
    block = allocator.allocate(100_000)
    address = block.address
    allocator.free(block)
    assert not block.alive
    smaller = allocator.allocate(99_000)
    assert smaller.address == address
    assert allocator.allocate(100_000).address != address
    counts = allocator.statistics()
    assert (counts.allocations, counts.reused) == (3, 1)


def test_statistics(allocator: Allocator) -> None:
    first, second = allocator.allocate(1000), allocator.allocate(3 * MIB)
    counts = allocator.statistics()
    assert (counts.blocks, counts.allocated_bytes, counts.cached_bytes) == (2, 1024 + 3 * MIB, 0)
    second.free()
    counts = allocator.statistics()
    assert (counts.blocks, counts.allocated_bytes, counts.cached_bytes) == (1, 1024, 3 * MIB)
    assert counts.peak_bytes == 1024 + 3 * MIB
    assert allocator.trim() == 3 * MIB
    first.free()
    counts = allocator.statistics()
    assert (counts.blocks, counts.allocated_bytes, counts.cached_bytes) == (0, 0, 1024)
    assert counts.peak_bytes == 1024 + 3 * MIB


def test_the_cache_is_bounded_and_drops_the_oldest() -> None:
    allocator = Allocator(1000 * 64)
    blocks = [allocator.allocate(100 * 64 + 1024 * (index % 3)) for index in range(30)]
    addresses = [block.address for block in blocks]
    for block in blocks:
        block.free()
        assert allocator.statistics().cached_bytes <= 1000 * 64
    kept = allocator.statistics().cached_bytes
    assert kept > 900 * 64 - 9000
    latest = allocator.allocate(blocks[29].nbytes)
    assert latest.address == addresses[29], "the one freed last comes first: it may still be in the CPU's caches"
    too_large = allocator.allocate(2000 * 64)
    too_large.free()
    assert allocator.statistics().cached_bytes == kept - size_class(latest.nbytes)


def test_a_cache_of_nothing() -> None:
    allocator = Allocator(0)
    allocator.allocate(1000).free()
    assert allocator.statistics().cached_bytes == 0


def test_a_block_that_is_forgotten_is_freed(allocator: Allocator) -> None:
    block = allocator.allocate(5000)
    address = block.address
    del block
    gc.collect()
    counts = allocator.statistics()
    assert (counts.blocks, counts.cached_bytes) == (0, size_class(5000))
    assert allocator.allocate(5000).address == address


def test_use_after_free(allocator: Allocator) -> None:
    block = allocator.allocate(10)
    block.free()
    assert not block.alive
    for use in (lambda: block.address, lambda: block.view(np.uint8, 1)):
        with pytest.raises(DeviceError) as caught:
            use()
        assert caught.value.summary == "device cpu: a block of 10 bytes is used after it was freed"
    for free in (block.free, lambda: allocator.free(block)):
        with pytest.raises(DeviceError) as caught:
            free()
        assert caught.value.summary == "device cpu: a block of 10 bytes was freed twice"
    assert allocator.statistics().blocks == 0


def test_a_block_of_another_allocator(allocator: Allocator) -> None:
    block = allocator.allocate(10)
    with pytest.raises(DeviceError) as caught:
        Allocator(0).free(block)
    assert caught.value.summary == "device cpu: a block of 10 bytes belongs to another allocator"
    assert block.alive


def test_views_share_the_memory(allocator: Allocator) -> None:
    block = allocator.allocate(96)
    whole = block.view(np.float32, (4, 6))
    whole[...] = np.arange(24).reshape(4, 6)
    assert block.view("f4", 24)[7] == 7
    assert block.view(np.int8, (0, 3)).shape == (0, 3)
    assert block.view(np.float64, ()).shape == ()
    assert block.view(ml_dtypes.bfloat16, [2, 24]).dtype == ml_dtypes.bfloat16
    part = block.view(np.float32, (6,), offset=48)
    assert np.array_equal(part, np.arange(12, 18))
    part[0] = -1
    assert whole[2, 0] == -1
    assert whole.flags.c_contiguous and whole.flags.writeable


@pytest.mark.parametrize(
    ("shape", "offset", "actual"), [(25, 0, "0 to 100"), (20, 20, "20 to 100"), (1, -4, "-4 to 0"), (-1, 8, "8 to 4")]
)
def test_views_that_do_not_fit(allocator: Allocator, shape: int, offset: int, actual: str) -> None:
    block = allocator.allocate(96)
    with pytest.raises(ArgumentError) as caught:
        block.view(np.float32, shape, offset)
    assert (
        without_line(caught.value) == f"view: 'bytes {actual}' is not valid, expected bytes within the 96 of the block"
    )


def test_a_view_keeps_its_memory_from_being_used_again(allocator: Allocator) -> None:
    block = allocator.allocate(4096)
    view = block.view(np.int64, 512)
    view[...] = 7
    rows = view.reshape(2, 256)[1:].T
    address = block.address
    block.free()
    del view
    counts = allocator.statistics()
    assert (counts.blocks, counts.allocated_bytes, counts.cached_bytes) == (1, 4096, 0)
    others = [allocator.allocate(4096) for _ in range(4)]
    for other in others:
        assert other.address != address
        other.view(np.int64, 512)[...] = -1
    assert np.all(rows == 7)
    memory = memoryview(rows.T)  # pyright: ignore[reportArgumentType]
    del rows
    assert allocator.statistics().cached_bytes == 0
    del memory
    assert allocator.statistics().cached_bytes == 4096
    assert allocator.allocate(4096).address == address


@pytest.mark.parametrize("nbytes", [64, 4096, 8 * MIB])
def test_memory_is_used_again_when_its_last_view_goes(allocator: Allocator, nbytes: int) -> None:
    """Whichever goes first, the block or its view: `np.asarray(f(x))` drops the block first."""
    addresses: set[int] = set()
    for _ in range(5):
        block = allocator.allocate(nbytes)
        view = block.view(np.uint8, nbytes)
        addresses.add(block.address)
        del block
        view[...] = 1
        del view
    assert len(addresses) == 1
    assert allocator.statistics().reused == 4


def test_a_failed_attempt_empties_the_cache_and_tries_again(
    allocator: Allocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in [allocator.allocate(MIB) for _ in range(3)]:
        block.free()
    asked: list[int] = []

    def fail_once(nbytes: int) -> None:
        asked.append(nbytes)
        if len(asked) == 1:
            raise MemoryError

    monkeypatch.setattr(module, "before_allocate", fail_once)
    assert allocator.statistics().cached_bytes == 3 * MIB
    block = allocator.allocate(500)
    assert block.alive
    assert asked == [500, 500]
    assert allocator.statistics().cached_bytes == 0


def test_a_failed_allocation(allocator: Allocator, monkeypatch: pytest.MonkeyPatch) -> None:
    held = allocator.allocate(1000)

    def fail(nbytes: int) -> None:
        raise MemoryError

    before = allocator.statistics()
    with monkeypatch.context() as patch:
        patch.setattr(module, "before_allocate", fail)
        with pytest.raises(AllocationError) as caught:
            allocator.allocate(12345)
    assert str(caught.value).startswith(
        "could not allocate 12345 bytes on cpu: out of memory with 1024 bytes in use\n  at "
    )
    assert "Remedy: use smaller arrays" in str(caught.value)
    assert allocator.statistics() == before
    assert allocator.allocate(12345).alive and held.alive


@pytest.mark.parametrize("nbytes", [(1 << 47) - 1, 1 << 47, (1 << 47) + 1, 1 << 62, 1 << 63, 1 << 200])
def test_sizes_that_no_machine_has(allocator: Allocator, nbytes: int) -> None:
    with pytest.raises(AllocationError, match=f"could not allocate {nbytes} bytes on cpu"):
        allocator.allocate(nbytes)
    assert allocator.statistics().allocated_bytes == 0


def test_a_negative_size(allocator: Allocator) -> None:
    with pytest.raises(ArgumentError, match="nbytes: -1 is not valid, expected 0 or more"):
        allocator.allocate(-1)


def test_threads_never_share_a_block(allocator: Allocator) -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        held: list[tuple[Block, int]] = []
        try:
            for turn in range(400):
                nbytes = chance.choice([8, 100, 1000, 5000])
                block = allocator.allocate(nbytes)
                mark = seed * 1000 + turn
                block.view(np.int64, nbytes // 8)[...] = mark
                held.append((block, mark))
                if len(held) > 5 or chance.random() < 0.5:
                    block, mark = held.pop(chance.randrange(len(held)))
                    assert np.all(block.view(np.int64, block.nbytes // 8) == mark)
                    if chance.random() < 0.7:
                        block.free()
                    del block
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    gc.collect()
    counts = allocator.statistics()
    assert (counts.blocks, counts.allocated_bytes) == (0, 0)
    assert counts.reused > 0
    assert allocator.trim() == counts.cached_bytes


def test_two_threads_that_free_one_block(allocator: Allocator) -> None:
    for _ in range(200):
        block = allocator.allocate(64)
        start = threading.Barrier(2)
        outcomes: list[str] = []

        def free(block: Block = block, start: threading.Barrier = start, outcomes: list[str] = outcomes) -> None:
            start.wait()
            try:
                block.free()
                outcomes.append("freed")
            except DeviceError:
                outcomes.append("refused")

        threads = [threading.Thread(target=free) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["freed", "refused"]
        assert allocator.statistics().blocks == 0


def test_blocks_collected_inside_the_allocator_do_not_block_it(allocator: Allocator) -> None:
    class Cycle:
        def __init__(self, block: Block) -> None:
            self.block, self.me = block, self

    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(300):
            Cycle(allocator.allocate(256))
            allocator.statistics()
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert allocator.statistics().blocks == 0


def in_child(work: Callable[[], None]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork in a threaded process, which is the point here
        child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_goes_on_with_its_own_copy(allocator: Allocator) -> None:
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            allocator.allocate(2000).free()

    block = allocator.allocate(800)
    block.view(np.int64, 100)[...] = 5

    def work() -> None:
        assert np.all(block.view(np.int64, 100) == 5)
        block.view(np.int64, 100)[...] = 6
        for _ in range(50):
            allocator.allocate(2000).free()
        block.free()

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        assert [in_child(work) for _ in range(8)] == [0] * 8
    finally:
        stop.set()
        thread.join()
    assert np.all(block.view(np.int64, 100) == 5)


def test_a_process_ends_quietly_with_blocks_alive() -> None:
    text = (
        "from poot.backends.cpu.allocator import Allocator\n"
        "allocator = Allocator()\n"
        "blocks = [allocator.allocate(1000) for _ in range(10)]\n"
        "class Cycle: pass\n"
        "cycle = Cycle(); cycle.me = cycle\n"
        "cycle.block = allocator.allocate(1000); cycle.view = blocks[0].view('u1', 9)\n"
        "import builtins; builtins.kept = allocator.allocate(77)\n"
    )
    result = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=600, check=False)
    assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


def test_how_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOT_CACHE_BYTES", "12345")
    assert default_cache_bytes() == Allocator().cache_bytes == 12345
    for text in ("-1", "2GB", "1e9"):
        monkeypatch.setenv("POOT_CACHE_BYTES", text)
        with pytest.raises(ArgumentError) as caught:
            Allocator()
        assert (
            without_line(caught.value)
            == f"POOT_CACHE_BYTES: {text!r} is not valid, expected a number of bytes, 0 or more\n"
            "  Remedy: set POOT_CACHE_BYTES to such a number, or unset it."
        )
    monkeypatch.delenv("POOT_CACHE_BYTES")
    assert 0 < default_cache_bytes() <= 2 << 30
