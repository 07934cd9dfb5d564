"""The kernels that ship pass the interpreter's checks: no race, no missing barrier, no uninitialised read."""

from __future__ import annotations

import numpy as np

from poot.api import library


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_kernels_with_shared_memory() -> None:
    library.transpose.interpret(ones(40, 33), ones(33, 40), groups=(2, 2))
    library.matmul.interpret(ones(20, 18), ones(18, 30), c := np.zeros((20, 30), np.float32), groups=(1, 1))
    assert (c == 18).all()
    library.accelerations.interpret(ones(5, 3), ones(5), ones(5, 3), 0.5, groups=1)
    library.histogram.interpret(np.arange(100, dtype=np.uint8), np.zeros(256, np.int32), groups=2)


def test_kernels_with_collectives() -> None:
    library.softmax.interpret(ones(2, 300), ones(2, 300), groups=2)
    library.scan.interpret(ones(300), y := ones(300), groups=1)
    assert y[-1] == 300
    library.argmax.interpret(ones(2, 300), np.zeros(2, np.int32), groups=2)
    library.reduce.interpret(ones(1000), total := ones(1), "max", groups=1)
    assert total[0] == 1


def test_kernels_of_single_threads() -> None:
    library.game_of_life.interpret(cells := np.ones((4, 4), np.uint8), np.zeros_like(cells), threads=(4, 4))
    library.bitonic_step.interpret(np.array([3, 1, 2], np.float32), 1, threads=3)
