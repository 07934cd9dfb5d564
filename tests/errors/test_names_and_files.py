"""Names of devices, files of weights and maps to them that are wrong: told by type, never by what Python trips over."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import poot
from poot import StoredView, WeightMap, WeightStore, ops
from poot.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConcretizationError,
    DeviceUnavailableError,
    PootError,
    WeightError,
    WeightFileError,
)
from poot.plan.compile import compile as plan
from poot.plan.serial import dump_program, load_program
from poot.target import Target
from poot.trace.builder import Builder
from poot.trace.limits import TraceLimits

# --- names of devices -------------------------------------------------------------------------------------------------

NO_NAME = [
    *("cpu:²", "cpu:٣", "cpu:-1", "cpu:", "cpu: 0", "cpu:+0", "cpu:1_0", "cpu:0:0", "cpu:zero", "cpu:0x0", "wgpu:²"),
    *("hip:gfx942", "cpu:" + "x" * 10_000),
]
NO_DEVICE = ["", " cpu", "CPU", "cpu\n", "nothing", "x" * 10_000, "\ud800", ":1", "cpu:1", "cpu:" + "9" * 40]
NO_DEVICE += ["cuda:" + "9" * 5000, "opencl:" + "9" * 40, "wgpu:999"]
USES: dict[str, Callable[[Any], Any]] = {
    "poot.device": poot.device,
    "a traced function": lambda name: poot.trace(lambda x: x, device=name)(np.ones(2, np.float32)),
    "poot.asarray": lambda name: poot.asarray([1], device=name),
    "ops.zeros": lambda name: ops.zeros(2, device=name),
    "to_device": lambda name: poot.asarray([1]).to_device(name),
}


@pytest.mark.parametrize("use", USES)
def test_names_of_devices(use: str) -> None:
    for name in NO_NAME:
        with pytest.raises(ArgumentError, match="is not valid, expected a backend name") as caught:
            USES[use](name)
        assert len(str(caught.value)) < 1000
    for name in NO_DEVICE:
        with pytest.raises(DeviceUnavailableError, match="is not available") as unavailable:
            USES[use](name)
        assert len(str(unavailable.value)) < 1000
    for wrong in (3, 2.5, b"cpu", ["cpu"], object()):
        with pytest.raises(ArgumentTypeError, match=r"device: \w+ given"):
            USES[use](wrong)


def test_leading_zeros_count_for_nothing() -> None:
    assert poot.device("cpu:000").backend is poot.device("cpu").backend


@pytest.mark.parametrize("name", ["wgpu:-1", "cpu:²", "cpu:-1", " ", "nothing", "cpu:" + "9" * 40, "cpu:7"])
def test_the_variable_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOT_DEVICE", name)
    with pytest.raises((ArgumentError, DeviceUnavailableError), match=r"(.|\n)*POOT_DEVICE") as caught:
        poot.asarray([1.0])
    assert "unset it" in caught.value.remedy and caught.value.where is not None


# --- safetensors ------------------------------------------------------------------------------------------------------

HUGE = 10**400
SHAPES: list[Any] = [
    *([HUGE], [HUGE, 0], [0, HUGE], [-1], [-HUGE], [1.0], [[1]], ["1"], [True], None, {}, 3, [None], "12"),
    *([2**63], [2**63, 0], [2**31, 2**31, 0], [1] * 65, [1] * 100 + [0], [HUGE] * 20, [2**62] * 64, [2**62] * 400),
]
SPANS: list[Any] = [
    *([0, 4], [0, 0], [0, HUGE], [HUGE, HUGE], [-4, 0], [0.0, 4.0], [0], [[0, 4]], None, "04", [True, 4], [0, 4, 8]),
    *([4, 0], [-HUGE, HUGE], {"a": 1, "b": 2}, [None, None]),
]


def write(path: Path, header: bytes, data: bytes = bytes(4)) -> Path:
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


@pytest.mark.parametrize("format_", ["F32", "F8_E4M3", "F4", "C64", None, 3, [], {}, "f32", "\ud800", "x" * 10_000])
def test_headers_with_odd_entries(format_: Any, tmp_path: Path) -> None:
    for shape, span in itertools.product(SHAPES, SPANS):
        header = json.dumps({"w": {"dtype": format_, "shape": shape, "data_offsets": span}}).encode()
        with pytest.raises(WeightFileError, match=r"m\.safetensors") as caught:
            WeightStore.from_safetensors(write(tmp_path / "m.safetensors", header))
        assert len(caught.value.summary) < 3000


ENTRY: dict[str, Any] = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize("name", ["\ud800", "a.\udfff", "\udc00\ud800"])
def test_headers_with_half_of_a_pair(name: str, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    for header in ({name: ENTRY}, {"w": ENTRY, "__metadata__": {"of": name}}, {"w": ENTRY | {name: 1}}):
        with pytest.raises(WeightFileError, match=r"m\.safetensors: .*half of a pair of UTF-16") as caught:
            WeightStore.from_safetensors(write(path, json.dumps(header).encode()))
        str(caught.value).encode()
    for whole in ("\U0001f600", "ä", "\\ud800"):  # escapes of whole characters, and what only looks like one
        assert list(WeightStore.from_safetensors(write(path, json.dumps({whole: ENTRY}).encode()))) == [whole]


def test_every_message_is_text() -> None:
    """Python's own names may have halves of pairs: what is said of them is written as UTF-8 all the same."""
    name = "\ud800"
    with pytest.raises(WeightError) as caught:
        WeightStore.from_arrays({name: np.ones(1, np.float32)}).array("w")
    traced = poot.trace(lambda k: bool(k[name]))
    with pytest.raises(ConcretizationError) as concrete:
        traced({name: np.ones(2, np.float32)})
    builder = Builder(TraceLimits.STANDARD, name=name)
    graph = builder.finish(builder.input(name, poot.f32[2]) + 1.0)
    program = load_program(dump_program(plan(graph, Target.parse("cpu"))))
    shown = (str(caught.value), str(concrete.value), repr(program), str(program.report()), str(graph))
    assert all(r"\ud800" in text and text.encode() for text in shown)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert error.fields["message"].endswith(name) and str(error).encode()


@pytest.mark.parametrize(
    "header",
    [
        *(b"[]", b"3", b"null", b'{"x":3}', b'{"x":[]}', b'{"x":{}}', b"{" * 10_000, b"[" * 100_000, b"\xff", b""),
        *(b'{"x":' + b"1" * 5000 + b"}", b'{"x":NaN}', b'{"x":1e999}', b'{"x":{"dtype":"F32"}}'),
        b'{"x":{"dtype":"F32","shape":[' + b"9" * 4400 + b'],"data_offsets":[0,4]}}',
        b'{"x":{"dtype":"F32","shape":[1e400],"data_offsets":[0,4]}}',
    ],
)
def test_headers_that_are_none(header: bytes, tmp_path: Path) -> None:
    with pytest.raises(WeightFileError):
        WeightStore.from_safetensors(write(tmp_path / "m.safetensors", header))


class Fspath:
    """What `os.fspath` takes, whatever it gives."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def __fspath__(self) -> Any:
        return self.given


def test_paths() -> None:
    for wrong in (b"m.safetensors", 3, None, Fspath(b"m"), Fspath(3), Fspath(None), Fspath(Fspath("m"))):
        with pytest.raises(ArgumentTypeError, match="from_safetensors"):
            WeightStore.from_safetensors(wrong)  # type: ignore[arg-type]
    for nowhere in ("", "no/such", "\0", "\ud800", "x" * 5000, Fspath("no"), Fspath("x" * 5000), Path("/dev/null")):
        with pytest.raises(WeightFileError):
            WeightStore.from_safetensors(nowhere)


def test_a_path_object_of_ones_own(tmp_path: Path) -> None:
    header = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    write(tmp_path / "m.safetensors", header)
    for path in (Fspath(os.fspath(tmp_path / "m.safetensors")), Fspath(str(tmp_path))):
        assert WeightStore.from_safetensors(path).spec("w") == poot.f32[1]


# --- views and maps ---------------------------------------------------------------------------------------------------

STORE = WeightStore.from_arrays({"w": np.arange(12, dtype=np.float32).reshape(3, 4), "z": np.float32(3)})
LOAD = poot.Engine(poot.device("cpu")).load_weights
WRONG: dict[str, Callable[[], Any]] = {
    **{
        f"index {index!r:.30}": lambda index=index: StoredView("w", index)
        for index in (
            *(0, "a", None, slice(1), [0], {}, 1.5, b"x", (None,), (0.5,), ([0, 1],), (True,), ((0, 1),), ("a",)),
            *((np.array([0, 1]),), (slice("a", "b"),), (slice(0, 2, 0),), (slice(0.5),), (slice(True),)),
        )
    },
    **{
        f"dtype {dtype!r:.30}": lambda dtype=dtype: StoredView("w", (), dtype)
        for dtype in ("zz", 3, Ellipsis, "S3", "O", "M8[s]", [], "\ud800", complex)
    },
    **{f"name {name!r}": lambda name=name: StoredView(name) for name in (3, None, b"w", (), 2.5)},
    **{
        f"map {given!r:.30}": lambda given=given: WeightMap(given)
        for given in (
            *(3, None, [], [("a", "w")], "w", {3: "w"}, {"c": 3}, {"c": None}, {"c": b"w"}, {"c": ("w",)}),
            *({None: "w"}, {"c": poot.f32}, {"c": STORE}),
        )
    },
    **{
        f"load {given!r:.30}": lambda given=given: LOAD(STORE, given)
        for given in (3, [], {}, {"c": "w"}, "w", StoredView("w"), False)
    },
    "out of range": lambda: WeightMap({"c": StoredView("w", (5,))}).resolve(STORE),
    "far out of range": lambda: WeightMap({"c": StoredView("w", (10**30,))}).resolve(STORE),
    "too many": lambda: WeightMap({"c": StoredView("w", (0, 0, 0))}).resolve(STORE),
    "another width": lambda: WeightMap({"c": StoredView("z", (), poot.f64)}).resolve(STORE),
    "no store": lambda: WeightMap({"c": "w"}).resolve(None),  # type: ignore[arg-type]
    "a dict": lambda: WeightMap({"c": "w"}).resolve({"w": np.ones(2)}),  # type: ignore[arg-type]
    "a view of none": lambda: StoredView("w").of(None),  # type: ignore[arg-type]
    "wanting 3": lambda: WeightMap({"c": "w"}).resolve(STORE, 3),  # type: ignore[arg-type]
    "identity": lambda: WeightMap.identity(3),  # type: ignore[arg-type]
    "of": lambda: WeightMap.of([3]),  # type: ignore[list-item]
    "spec of 3": lambda: STORE.spec(3),  # type: ignore[arg-type]
    "array of a list": lambda: STORE.array([]),  # type: ignore[arg-type]
    "a store of 3": lambda: WeightStore(3),  # type: ignore[arg-type]
    "ragged": lambda: WeightStore.from_arrays({"w": [[1], [2, 3]]}),
    "masked": lambda: WeightStore.from_arrays({"w": np.ma.array([1.0])}),
    "objects": lambda: WeightStore.from_arrays({"w": object()}),
    "complex": lambda: WeightStore.from_arrays({"w": np.ones(2, complex)}),
}


@pytest.mark.parametrize("kind", WRONG)
def test_views_and_maps(kind: str) -> None:
    with pytest.raises(PootError):
        WRONG[kind]()


def test_what_a_view_takes() -> None:
    whole = STORE.array("w")
    for index in ((), (1,), (-1, 2), (slice(1), slice(None, None, -1)), (..., 0), (np.int64(2),), (slice(0, 10**30),)):
        np.testing.assert_array_equal(StoredView("w", index).of(STORE), whole[index])
    for dtype in ("f16", np.float16, poot.f16, np.dtype(np.float16)):
        assert StoredView("w", dtype=dtype).of(STORE).dtype == np.float16  # type: ignore[arg-type]


# --- dtypes -----------------------------------------------------------------------------------------------------------

NO_DTYPE: list[Any] = ["zzz", object(), 3, "S3", "O", "M8[s]", complex, "c8", "\ud800", np.void]
MADE: dict[str, Callable[[Any], Any]] = {
    "astype": lambda dtype: X.astype(dtype),
    "numpy": lambda dtype: X.numpy(dtype),
    "view": lambda dtype: X.view(dtype),
    "sum": lambda dtype: X.sum(dtype=dtype),
    "zeros": lambda dtype: ops.zeros(2, dtype=dtype),
    "poot.asarray": lambda dtype: poot.asarray(X, dtype=dtype),
    "ops.asarray": lambda dtype: ops.asarray(X, dtype=dtype),
    "finfo": lambda dtype: ops.finfo(dtype),
}
X: Any = poot.asarray(np.ones(2, np.float32))


@pytest.mark.parametrize("use", MADE)
def test_what_is_no_dtype(use: str) -> None:
    for dtype in NO_DTYPE:
        with pytest.raises(PootError) as caught:
            MADE[use](dtype)
        assert caught.value.where is not None


def test_what_numpy_cannot_convert_to() -> None:
    for dtype in ("zzz", object(), 3, "\ud800"):
        with pytest.raises(ArgumentTypeError, match=r"dtype: .* given, expected one of NumPy's"):
            X.__array__(dtype)


@pytest.mark.parametrize("taker", [poot.asarray, ops.asarray, ops.from_dlpack], ids=["poot", "ops", "dlpack"])
@pytest.mark.parametrize("array", [np.ones(2, complex), np.array(["a"]), np.array([object()]), np.zeros(2, "V3")])
def test_arrays_of_dtypes_that_poot_has_not(array: Any, taker: Callable[[Any], Any]) -> None:
    with pytest.raises(PootError) as caught:
        taker(array)
    assert caught.value.where is not None and caught.value.where.file == __file__
