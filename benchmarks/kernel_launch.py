"""What launching a kernel on the CPU costs: a 1,024-element add, arrays in place.

python -m benchmarks.kernel_launch
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

import numpy as np

from benchmarks.harness import conditions, parser
from poot.api import library
from poot.api.devices import device

PER_SAMPLE, SAMPLES, LIMIT_US = 200, 301, 10.0


def main(arguments: Sequence[str] | None = None) -> None:
    parser("kernel_launch", __doc__, written=False).parse_args(arguments)
    a, b, c = (np.ones(1024, np.float32) for _ in range(3))
    times: list[float] = []
    with device("cpu"):
        library.add(a, b, c, threads=1024)
        for _ in range(SAMPLES):
            start = time.perf_counter()
            for _ in range(PER_SAMPLE):
                library.add(a, b, c, threads=1024)
            times.append((time.perf_counter() - start) / PER_SAMPLE * 1e6)
    print(conditions(1, ("numpy", "llvmlite")))
    print(f"add of 1,024: median {statistics.median(times):.1f} us, least {min(times):.1f} us; limit {LIMIT_US:.0f} us")


if __name__ == "__main__":
    main()
