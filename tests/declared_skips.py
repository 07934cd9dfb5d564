"""Every reason for which a test may be skipped or expected to fail.

A test that skips or xfails gives one of these reasons, word for word (``pytest.skip(declared_skips.NO_COMPILER)``);
any other reason fails the run. The run's summary counts each. Add a reason as a constant here, with the remedy or the
rule behind it, and list it in ``SKIPS`` or ``XFAILS``.
"""

from __future__ import annotations

from typing import Final

NO_CUDA_TORCH: Final = "torch with CUDA is not installed here: pip install torch"
NO_CUDA_JAX: Final = "JAX with CUDA is not installed here: pip install 'jax[cuda13]'"
ONE_GPU: Final = "this machine has one GPU, and the test needs two"
SLOW_DEVICE: Final = "got empty parameter set for (fast_device)"  # pytest's words: `--device` names slow ones only

SKIPS: Final[frozenset[str]] = frozenset({NO_CUDA_TORCH, NO_CUDA_JAX, ONE_GPU, SLOW_DEVICE})
"""Reasons to skip: what the machine lacks, or what a device does not have by its own specification."""

XFAILS: Final[frozenset[str]] = frozenset()
"""Reasons to expect a failure: a known defect of a dependency, with its version."""
