"""Devices whose packages are broken, of another version, or a mere folder, and names that no device has."""

from __future__ import annotations

import dataclasses
import sys
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import poot
from poot import Array, ops
from poot.api import devices as api_devices
from poot.backends import device as backend_devices
from poot.backends import packages
from poot.cli.doctor import examine
from poot.errors import ArgumentError, DeviceUnavailableError, PootError

MODULES = {"opencl": "pyopencl", "wgpu": "wgpu", "cuda": "cupy"}


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No device is open, no module of the optional backends is imported, and no cache is there to be measured."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(backend_devices, "_devices", {})
    monkeypatch.setattr(api_devices, "_usual", None)
    monkeypatch.setattr(api_devices, "_fallen_back", False)
    monkeypatch.delenv("POOT_DEVICE", raising=False)
    for name in list(sys.modules):
        if name.startswith(("poot.backends.opencl", "poot.backends.wgpu")):
            monkeypatch.delitem(sys.modules, name)
    return monkeypatch


def versions(fresh: pytest.MonkeyPatch, **known: str | None) -> None:
    """What is installed, beside what is; None for what is not."""
    original = metadata.version

    def version(name: str) -> str:
        found = known.get(name.replace("-", "_"), "") if name.replace("-", "_") in known else original(name)
        if found is None:
            raise metadata.PackageNotFoundError(name)
        return found

    fresh.setattr(metadata, "version", version)


def a_folder(name: str) -> ModuleType:
    """What Python imports where there is a folder of that name and no package."""
    made = ModuleType(name)
    made.__path__ = [f"/elsewhere/{name}"]
    made.__file__ = None
    return made


def refused(use: Callable[[], object]) -> DeviceUnavailableError:
    with pytest.raises(DeviceUnavailableError) as caught:
        use()
    where = caught.value.where
    assert where is not None and where.file == __file__, "the line that asks for the device"
    return caught.value


def added(x: Array) -> Array:
    return x + 1


# Each way to a device is one line of this file, which the error has to name.
USES: dict[str, Callable[[str], object]] = {
    "device": lambda name: poot.device(name),
    "asarray": lambda name: poot.asarray([1.0], device=name),
    "ops": lambda name: ops.zeros(3, device=name),
    "call": lambda name: poot.trace(device=name)(added)(poot.asarray([1.0], device="cpu")),
    "program": lambda name: poot.trace(added).program(poot.f32[3], device=name),
    "to_device": lambda name: poot.asarray([1.0], device="cpu").to_device(name),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", MODULES)
def test_the_line_that_asks_for_a_device_without_its_package(fresh: pytest.MonkeyPatch, name: str, use: str) -> None:
    fresh.setitem(sys.modules, MODULES[name], None)
    assert MODULES[name] in str(refused(lambda: USES[use](name)))


@pytest.mark.parametrize("name", MODULES)
def test_a_folder_in_place_of_a_package(fresh: pytest.MonkeyPatch, name: str) -> None:
    module = MODULES[name]
    versions(fresh, **{module: None, "cupy_cuda12x": None, "cupy_cuda13x": None})
    fresh.setitem(sys.modules, module, a_folder(module))
    error = refused(lambda: poot.device(name))
    assert f"what is imported as {module} is the folder /elsewhere/{module}, which holds no package" in str(error)
    assert error.remedy == f"run `{packages.install(name)}`."
    assert isinstance(error.__cause__, AttributeError)
    found = {each.name: each for each in poot.devices()}[name]
    assert (found.reason, found.remedy) == (error.fields["message"], error.remedy)
    assert not any(problem.startswith(f"{name}:") for problem in examine().problems), "nothing that is installed"


@pytest.mark.parametrize("name", MODULES)
def test_a_package_of_another_version_that_lacks_what_is_used(fresh: pytest.MonkeyPatch, name: str) -> None:
    module = MODULES[name]
    versions(fresh, **{module: "0.1", "cupy_cuda12x": None, "cupy_cuda13x": None})
    fresh.setitem(sys.modules, module, ModuleType(module))
    error = refused(lambda: poot.device(name))
    wanted = packages.find_package(packages.BACKENDS[name][0]).wanted
    assert wanted.startswith(">=") and f"; {module} 0.1 is installed, {wanted} is wanted\n" in str(error)
    assert error.remedy == f"run `pip install '{module}{wanted}'`."
    problems = [problem for problem in examine().problems if "0.1 is installed" in problem]
    assert len(problems) == 1 and error.remedy in problems[0]


@pytest.mark.parametrize("name", MODULES)
def test_a_package_that_is_installed_and_cannot_be_imported(fresh: pytest.MonkeyPatch, name: str) -> None:
    module = MODULES[name]
    package = packages.BACKENDS[name][0][0]
    wanted = packages.find_package((package,)).wanted
    versions(fresh, **{package.replace("-", "_"): wanted.split(",")[0].removeprefix(">=")})
    fresh.setitem(sys.modules, module, None)
    error = refused(lambda: poot.device(name))
    assert f"run `pip install --force-reinstall '{package}{wanted}'`" in error.remedy


def test_each_package_that_does_not_fit_is_told(fresh: pytest.MonkeyPatch) -> None:
    versions(fresh, cupy=None, cupy_cuda12x=None, cupy_cuda13x=None, triton="3.2.0")
    fresh.setitem(sys.modules, "cupy", None)
    error = refused(lambda: poot.device("cuda"))
    assert "CuPy cannot be imported" in str(error) and "triton 3.2.0 is installed" in str(error)
    assert "run `pip install 'triton>=" in error.remedy and f"run `{packages.install('cuda')}`" in error.remedy


def test_a_cupy_that_does_not_work_leaves_the_cpu(fresh: pytest.MonkeyPatch) -> None:
    """With a warning at the line of the program; a folder of the name is no CuPy, and needs none."""
    versions(fresh, cupy="1.0", cupy_cuda12x=None, cupy_cuda13x=None)
    fresh.setitem(sys.modules, "cupy", ModuleType("cupy"))
    with pytest.warns(UserWarning, match=r"so cpu is used(.|\n)*cupy 1.0 is installed") as caught:
        assert poot.asarray([1.0]).device == "cpu"
    assert [each.filename for each in caught] == [__file__]
    assert examine().default == "cpu"
    fresh.setattr(api_devices, "_usual", None)
    fresh.setattr(api_devices, "_fallen_back", False)
    fresh.setattr(api_devices.importlib.util, "find_spec", lambda name: SimpleNamespace(origin=None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert poot.asarray([1.0]).device == "cpu"


def test_backends_of_others(fresh: pytest.MonkeyPatch) -> None:
    def broken(ordinal: int) -> backend_devices.DeviceBackend:
        if ordinal:
            raise DeviceUnavailableError(device=f"broken:{ordinal}", message="there is one")
        raise ValueError("no cable")

    fresh.setattr(backend_devices, "_factories", dict(backend_devices._factories))
    for name in ("", "a:b", "cpu"):
        with pytest.raises(ArgumentError, match="expected a new name, without a colon"):
            backend_devices.register(name, broken)
    backend_devices.register("broken", broken)
    error = refused(lambda: poot.device("broken"))
    assert "device broken is not available: ValueError: no cable" in str(error)
    assert isinstance(error.__cause__, ValueError)
    assert "broken:3 is not available: there is one" in str(refused(lambda: poot.device("broken:3")))
    found = {each.name: each for each in poot.devices()}["broken"]
    assert (found.reason, found.remedy) == ("ValueError: no cable", "")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (None, "NoneType given by its factory, which has no target"),
        (SimpleNamespace(name="odd", target="cpu"), "SimpleNamespace given by its factory, which has no target"),
        (
            SimpleNamespace(name="odd", target=poot.Target("odd", "", ("interpret",))),
            "does not state the limit workgroup_invocations, the limit workgroup_storage, the limit buffers, the",
        ),
        (
            SimpleNamespace(name="odd", target=dataclasses.replace(poot.Target.parse("interpret"), languages=())),
            "does not state a language",
        ),
    ],
)
def test_what_a_factory_makes_is_a_device(fresh: pytest.MonkeyPatch, made: Any, said: str) -> None:
    fresh.setattr(backend_devices, "_factories", {"odd": lambda ordinal: made})
    error = refused(lambda: poot.device("odd"))
    assert said in str(error) and error.remedy
    assert "odd" not in backend_devices._devices


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hip", ["AMD's GPUs run programs through the devices opencl and wgpu", 'Target.parse("hip:gfx942")']),
        ("hip:gfx942", ["AMD's GPUs run programs through the devices opencl and wgpu", 'compile("hip:gfx942")']),
        ("rocm", ["AMD's GPUs run programs through the devices opencl and wgpu."]),
        ("cuda:sm_90", ['poot.compile(f.graph(…), poot.Target.parse("cuda:sm_90"))']),
        ("gpu", ["`poot.devices()` says which of these are here."]),
        ("wgpu:x", []),
    ],
)
def test_names_of_what_is_no_device(fresh: pytest.MonkeyPatch, name: str, said: list[str]) -> None:
    for use in (lambda: poot.device(name), lambda: poot.trace(added).program(poot.f32[3], device=name)):
        with pytest.raises(PootError) as caught:
            use()
        assert all(part in caught.value.remedy for part in said)
    fresh.setenv("POOT_DEVICE", name)
    with pytest.raises(PootError) as caught:
        poot.asarray([1.0])
    assert "POOT_DEVICE" in caught.value.remedy and all(part in caught.value.remedy for part in said)
