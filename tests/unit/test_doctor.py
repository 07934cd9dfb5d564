"""`poot.devices()` and `poot doctor`: what is here, and for what is not, as it goes missing, why and what mends it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import poot
from poot.api import devices as api_devices
from poot.backends import device as backend_devices
from poot.backends import packages, settings, survey
from poot.cli import main
from poot.cli.doctor import _NEEDED, examine
from poot.cli.report import show, size
from poot.errors import DeviceUnavailableError
from tests.unit.fake_cupy import CUDARuntimeError, Fake
from tests.unit.test_settings import USES

LLVMLITE = packages.find_package(("llvmlite",))
HERE = (survey.Survey("cpu", (("cpu", "a processor"),), (LLVMLITE,)),)
"""A survey that costs nothing."""


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Caches of other programs are looked for in an empty folder."""
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """No device is open, and no module of the optional backends is imported."""
    monkeypatch.setattr(backend_devices, "_devices", {})
    monkeypatch.setattr(settings, "_settled", {})
    for name in list(sys.modules):
        if name.startswith(("poot.backends.opencl", "poot.backends.wgpu")):
            monkeypatch.delitem(sys.modules, name)
    return monkeypatch


def take_out(fresh: pytest.MonkeyPatch, *modules: str) -> None:
    """Packages are not installed, and cannot be imported."""
    original = metadata.version

    def version(name: str) -> str:
        if name.startswith(modules):
            raise metadata.PackageNotFoundError(name)
        return original(name)

    fresh.setattr(metadata, "version", version)
    for module in modules:
        fresh.setitem(sys.modules, module, None)


def report(name: str) -> Any:
    return {each.name: each for each in poot.devices()}[name]


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main(["doctor", "--json", *arguments])
    return code, json.loads(capsys.readouterr().out)


# --- what is here -----------------------------------------------------------------------------------------------------


def test_devices_are_listed_with_their_hardware() -> None:
    found = poot.devices()
    assert [each.name for each in found][:5] == ["cpu", "interpret", "opencl", "wgpu", "cuda"]
    for each in found[:4]:
        assert each.available and not each.reason and not each.remedy
        assert each.hardware[0][0] == each.name and each.hardware[0][1]
    assert "vectors" in found[0].hardware[0][1]
    assert repr(found).startswith("cpu: ")


def test_a_healthy_machine(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POOT_CACHE_DIR", str(tmp_path))
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "file").write_bytes(bytes(100))
    monkeypatch.setattr("poot.cli.doctor.survey", lambda: HERE)
    code, facts = doctor(capsys)
    assert code == 0 and facts["problems"] == []
    assert facts["version"] == poot.__version__ and facts["default_device"] == poot.device().name
    assert {each["name"]: each["available"] for each in facts["devices"]}["cpu"]
    pool = poot.device("cpu").backend.pool  # type: ignore[attr-defined]
    assert facts["worker_pool"] == {"kind": pool.kind, "threads": pool.threads}
    assert facts["caches"][0] == {
        "what": "compiled kernels",
        "path": str(tmp_path),
        "files": 1,
        "nbytes": 100,
        "most": 512 << 20,
    }
    assert {"name": "numpy", "installed": packages.find_package(("numpy",)).installed, "fits": True} == {
        key: value for key, value in facts["packages"][0].items() if key != "wanted"
    }
    assert facts["settings"]["POOT_CACHE_DIR"] == str(tmp_path)


def test_what_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POOT_CACHE_DIR", str(tmp_path))
    error = DeviceUnavailableError(device="cuda", message="[it] broke", remedy="mend it.")
    monkeypatch.setattr("poot.cli.doctor.survey", lambda: (*HERE, survey.Survey("cuda", (), (), error)))
    show(examine(), Console(width=200, file=sys.stdout))
    text = capsys.readouterr().out
    for part in (
        f"default device: {poot.device().name}",
        "works",
        "absent",
        "[it] broke",
        "remedy: mend it.",
        "worker pool of cpu: ",
    ):
        assert part in text
    assert "0 files, 0 bytes of at most 512.0 MiB" in text
    assert "Everything that is installed works." in text
    monkeypatch.setenv("POOT_DEVICE", "cuda")
    monkeypatch.setenv("POOT_DISK_CACHE_BYTES", "much")
    assert main(["doctor"]) == 1
    assert "What is wrong:" in capsys.readouterr().out


def test_sizes() -> None:
    assert [size(number) for number in (0, 1023, 1536, 5 << 30)] == ["0 bytes", "1023 bytes", "1.5 KiB", "5.0 GiB"]


@pytest.mark.slow
def test_the_command_itself() -> None:
    """In a process of its own, on a machine without drivers."""
    environment = {**os.environ, "OCL_ICD_VENDORS": "/nowhere/", "VK_DRIVER_FILES": "/nowhere", "POOT_DEVICE": ""}
    done = subprocess.run(
        [sys.executable, "-m", "poot", "doctor", "--json"], capture_output=True, env=environment, check=False
    )
    facts = json.loads(done.stdout)
    found = {each["name"]: each for each in facts["devices"]}
    assert found["cpu"]["available"] and facts["default_device"] == "cpu"
    for name, package in (("opencl", "pocl-opencl-icd"), ("wgpu", "mesa-vulkan-drivers")):
        assert not found[name]["available"]
        assert f"apt install {package}" in found[name]["remedy"]
        assert any(problem.startswith(f"{name}: ") for problem in facts["problems"])
    assert done.returncode == 1  # the packages are installed, and of no use


# --- what is not ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "package"), [("opencl", "pyopencl"), ("wgpu", "wgpu"), ("cuda", "cupy")])
def test_a_missing_package(fresh: pytest.MonkeyPatch, name: str, package: str) -> None:
    take_out(fresh, package)
    found = report(name)
    assert not found.available and package in found.reason
    assert f"run `pip install 'poot[{name}]'`" in found.remedy
    assert str(found).startswith(f"{name}: not available: ")
    with pytest.raises(DeviceUnavailableError, match="pip install"):
        poot.device(name)


def test_a_package_of_another_version(fresh: pytest.MonkeyPatch) -> None:
    original = metadata.version
    fresh.setattr(metadata, "version", lambda name: "0.40.1" if name == "wgpu" else original(name))
    fresh.setitem(sys.modules, "wgpu", None)
    found = report("wgpu")
    wanted = packages.requirements()["wgpu"]
    assert found.reason.endswith(f"wgpu 0.40.1 is installed, {wanted} is wanted")
    assert found.remedy == f"run `pip install 'wgpu{wanted}'`."
    facts = examine()
    assert any("wgpu 0.40.1 is installed" in problem for problem in facts.problems)


def test_no_opencl_driver(fresh: pytest.MonkeyPatch) -> None:
    import pyopencl

    def none() -> Any:
        raise pyopencl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")

    fresh.setattr(pyopencl, "get_platforms", none)
    found = report("opencl")
    assert "PLATFORM_NOT_FOUND" in found.reason and "apt install pocl-opencl-icd" in found.remedy


def test_no_vulkan_driver(fresh: pytest.MonkeyPatch) -> None:
    import wgpu

    fresh.setattr(wgpu.gpu, "enumerate_adapters_sync", list)
    found = report("wgpu")
    assert "no adapter for Vulkan" in found.reason and "apt install mesa-vulkan-drivers" in found.remedy


def test_a_name_that_no_device_has(fresh: pytest.MonkeyPatch) -> None:
    fresh.setenv("POOT_OPENCL_DEVICE", "voodoo")
    fresh.setenv("POOT_WGPU_ADAPTER", "voodoo")
    for name in ("opencl", "wgpu"):
        found = report(name)
        assert "is 'voodoo', and here are " in found.reason and "or unset it" in found.remedy


def test_an_nvidia_driver_that_does_not_answer(fresh: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake = Fake()

    def broken() -> int:
        raise CUDARuntimeError("cudaErrorInsufficientDriver")

    fake.cuda.runtime.getDeviceCount = broken
    fresh.setitem(sys.modules, "cupy", fake)  # type: ignore[arg-type]
    found = report("cuda")
    assert "cudaErrorInsufficientDriver" in found.reason and "nvidia-smi" in found.remedy
    fresh.setattr(api_devices, "_usual", None)
    fresh.setattr(api_devices, "_fallen_back", False)
    fresh.setattr(api_devices.importlib.util, "find_spec", lambda name: SimpleNamespace(origin="here"))
    fresh.delenv("POOT_DEVICE", raising=False)
    with pytest.warns(UserWarning, match="`poot doctor` says more"):
        assert poot.device().name == "cpu"


def test_whatever_a_broken_installation_raises(fresh: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> Any:
        raise ValueError("half a library")

    fresh.setattr(survey, "open_device", broken)
    assert all("half a library" in each.reason for each in poot.devices())


def test_asking_for_a_device(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("poot.cli.doctor.survey", lambda: HERE)
    code, facts = doctor(capsys, "--device", "tpu")
    assert code == 1 and any("there is no such backend" in problem for problem in facts["problems"])
    monkeypatch.setenv("POOT_DEVICE", "tpu")
    code, facts = doctor(capsys)
    assert code == 1 and facts["default_device"] == "" and "no such backend" in str(facts["problems"])


def test_a_cache_that_cannot_be_written_to(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("poot.cli.doctor.survey", lambda: HERE)
    monkeypatch.setenv("POOT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    code, facts = doctor(capsys)
    assert code == 1 and "cannot be written to" in str(facts["problems"])
    monkeypatch.setenv("POOT_CACHE_DIR", "")
    assert doctor(capsys)[1]["caches"][0]["path"] == "off"


@pytest.mark.parametrize("beside", [True, False], ids=["checkout", "copy"])
def test_a_poot_that_is_not_installed(
    fresh: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, beside: bool
) -> None:
    """Nothing brings `poot[opencl]` then: remedies name the packages, and what is wanted is read from the checkout."""

    def requires(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    known = packages.requirements()
    fresh.setattr(metadata, "requires", requires)
    fresh.setattr(packages, "_PYPROJECT", packages._PYPROJECT if beside else tmp_path / "pyproject.toml")
    needed = {"opencl": "pyopencl", "wgpu": "wgpu", "cuda": "cupy"}
    take_out(fresh, *needed.values())
    for name, package in needed.items():
        remedy = report(name).remedy
        assert "poot[" not in remedy
        assert re.search(rf"run `pip install '?{package}[\w-]*(>=.+,<.+)?'?", remedy), remedy
        assert (">=" in remedy) == beside and ("triton" in remedy) == (name == "cuda")
    found = packages.requirements()
    if beside:  # what is installed may be of an older day
        assert all(set(found[name].split(",")) == set(known[name].split(",")) for name in known.keys() & found.keys())
    assert bool(found) == beside and (not beside or {"numpy", "pyopencl", "wgpu", "triton"} <= found.keys())
    fresh.setattr("poot.cli.doctor.survey", lambda: HERE)
    show(examine(), Console(width=200, file=sys.stdout))
    row = next(line for line in capsys.readouterr().out.splitlines() if "ml-dtypes" in line)
    assert row.split("│")[3].strip() == (found["ml-dtypes"] if beside else "-")


@pytest.mark.parametrize(("name", "value"), [(name, USES[name][0]) for name in settings.KNOWN])
def test_a_bad_setting_is_told_once(
    fresh: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, value: str
) -> None:
    fresh.setenv("POOT_CACHE_DIR", str(tmp_path))
    fresh.setenv(name, value)
    fresh.setattr(api_devices, "_usual", None)
    facts = examine()
    show(facts, Console(width=2000, file=sys.stdout))
    text = capsys.readouterr().out
    about = [problem for problem in facts.problems if name in problem]
    assert len(about) == 1 and "\n" not in about[0] and "  at " not in text and "Remedy: " not in text
    assert text.count(f"set {name}") == 1, text


def test_versions_and_what_is_wanted() -> None:
    for version, wanted, fits in [
        ("0.32.0", "<0.33,>=0.32", True),
        ("0.33", "<0.33,>=0.32", False),
        ("0.33.0", "<=0.33", True),
        ("0.50.1", "==0.50.*", True),
        ("0.5.1", "==0.50.*", False),
        ("2026.1.4rc1", ">=2026.1", True),
        ("3.0.dev0", ">=3.0", False),
        ("2.11.0+cu130", ">=2.11", True),
        ("1.4", "~=1.3", True),
        ("2.0", "~=1.3", False),
        ("1.0", "!=1.0", False),
        ("1.0", "", True),
        ("a version of our own", "", True),
        ("a version of our own", "<0.33", False),
        ("", "", False),
    ]:
        assert packages.Package("package", version, wanted).fits is fits, (version, wanted)
    assert not packages.find_package(("no-such-package",)).fits


def test_a_package_whose_version_is_none(fresh: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    original = metadata.version
    fresh.setattr(metadata, "version", lambda name: "of our own" if name == "numpy" else original(name))
    fresh.setattr("poot.cli.doctor.survey", lambda: HERE)
    code, facts = doctor(capsys)
    wanted = packages.requirements()["numpy"]
    told = f"numpy of our own is installed, poot is made for {wanted}; run `pip install 'numpy{wanted}'`"
    assert code == 1 and facts["problems"] == [told]


def test_what_every_installation_has_is_what_poot_depends_on(fresh: pytest.MonkeyPatch) -> None:
    fresh.setattr(metadata, "requires", lambda name: None)
    assert sorted(_NEEDED) == sorted(list(packages.requirements())[: len(_NEEDED)])
