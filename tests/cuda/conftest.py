"""The CUDA device in both of its languages; every test here needs an NVIDIA GPU.

With POOT_FAKE_CUDA=1 a CuPy of host memory takes its place, and launches run in the interpreter: kernels are compiled
as ever, and the tests' own code is tried out, with no GPU.
"""

from __future__ import annotations

from typing import Any

import pytest

import poot
from poot.backends.device import DeviceBackend
from poot.backends.settings import switch

LANGUAGES = ("triton", "ptx")


def _pretend() -> None:
    from tests.unit.fake_cupy import Fake, install

    def replace(owner: Any, name: str, value: Any) -> None:
        if isinstance(owner, dict):
            owner[name] = value
        else:
            setattr(owner, name, value)

    install(Fake(), replace)


if switch("POOT_FAKE_CUDA", False):
    _pretend()


@pytest.fixture(scope="session", params=LANGUAGES)
def cuda(request: pytest.FixtureRequest) -> DeviceBackend:
    """The first GPU, compiling through Triton, then to PTX."""
    return poot.device("cuda", language=request.param).backend


@pytest.fixture(scope="session")
def cuda_ptx() -> DeviceBackend:
    """The first GPU, compiling to PTX."""
    return poot.device("cuda", language="ptx").backend


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/cuda/" in item.path.as_posix():
            item.add_marker(pytest.mark.cuda)
