"""What every test shares: devices, example counts, golden files, and the rule that skips are declared."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import hypothesis
import numpy as np
import pytest

from tests.plugin_skips import DeclaredSkips

DEVICES: Final = ("interpret", "cpu", "opencl", "wgpu")
"""The devices that conformance tests run on. One that is absent fails them; it does not skip."""

SLOW_DEVICES: Final = frozenset({"interpret"})
"""Devices that check more than they compute: tests that run whole models take `fast_device`, which leaves them out."""

ABSENT: Final = "{error}\n\nTests run on {name} and never skip it: `bash tools/test.sh` installs the drivers they need."

GOLDEN: Final = Path(__file__).parent / "golden" / "data"

hypothesis.settings.register_profile(
    "ci",
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "full",
    max_examples=int(os.environ.get("POOT_FUZZ_EXAMPLES", "2000")),
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("ci")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell: tests of Ctrl-C need it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("poot")
    group.addoption("--full", action="store_true", help="run fuzzers and sweeps at their stated counts, freshly seeded")
    group.addoption("--device", action="append", metavar="NAME", help="run device tests on NAME alone (repeatable)")
    group.addoption("--update-golden", action="store_true", help="rewrite golden files with what the code gives now")


def pytest_configure(config: pytest.Config) -> None:
    from poot.kernel import pipeline

    pipeline.checking = True
    if config.getoption("--full"):
        hypothesis.settings.load_profile("full")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(DeclaredSkips(), "declared-skips")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names = metafunc.config.getoption("--device") or DEVICES
    if "device_name" in metafunc.fixturenames:
        metafunc.parametrize("device_name", _marked(metafunc, names), indirect=True, scope="session")
    if "fast_device" in metafunc.fixturenames:
        fast = _marked(metafunc, [name for name in names if name not in SLOW_DEVICES])
        metafunc.parametrize("fast_device", fast, indirect=True, scope="session")


def _marked(metafunc: pytest.Metafunc, names: Sequence[str]) -> list[Any]:
    """The devices, those that the test's `slow_on` names under the marker `slow`."""
    slow = {name for mark in metafunc.definition.iter_markers("slow_on") for name in mark.args}
    return [pytest.param(name, marks=pytest.mark.slow) if name in slow else name for name in names]


def _present(name: str) -> str:
    """The name of a device that is there; fails the test where it is not."""
    import poot
    from poot.errors import DeviceUnavailableError

    absent = None
    try:
        poot.device(name)
    except DeviceUnavailableError as error:
        absent = ABSENT.format(error=error, name=name)
    if absent is not None:
        pytest.fail(absent, pytrace=False)
    return name


@pytest.fixture(autouse=True)
def _left_as_found() -> Iterator[None]:
    """A test leaves the process as it was, since others run there after it, and which ones is up to the scheduler."""
    from poot.api.traced import _WATCH

    before = _process()
    yield
    assert _process() == before
    _WATCH._sites.clear()  # how often a line has traced is counted for each test


def _process() -> dict[str, object]:
    """What belongs to the whole process, and a test may change."""
    settings = {name: value for name, value in os.environ.items() if name.startswith("POOT_")}
    hooks = sys.gettrace(), sys.getprofile(), signal.getsignal(signal.SIGINT)
    return {"settings": settings, "folder": os.getcwd(), "hooks": hooks, "NumPy's errors": np.geterr()}


@pytest.fixture(scope="session")
def device_name(request: pytest.FixtureRequest) -> str:
    """The name of each device in turn, as `poot.device` takes it."""
    return _present(request.param)


@pytest.fixture(scope="session")
def fast_device(request: pytest.FixtureRequest) -> str:
    """The name of each device in turn that is quick enough for whole models."""
    return _present(request.param)


@pytest.fixture(scope="session")
def device(device_name: str) -> Any:
    """Each device in turn, opened."""
    import poot

    return poot.device(device_name)


@pytest.fixture(scope="session")
def cases(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """`cases(ci, full)` is how many cases a fuzzer or sweep runs: `full` under --full, else `ci`."""
    full = bool(request.config.getoption("--full"))
    return lambda ci, stated: stated if full else ci


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden(name, text)` asserts that the file tests/golden/data/name holds text; --update-golden writes it."""
    update = bool(request.config.getoption("--update-golden"))

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no golden file {name}: write it with --update-golden, and read it before committing"
        assert text == path.read_text(encoding="utf-8"), f"{name} differs: review, then --update-golden"

    return check
