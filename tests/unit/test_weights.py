"""Weight stores and maps: safetensors files as they are stored, what is refused, and how long a mapping lives."""

from __future__ import annotations

import gc
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import poot
from poot import Builder, Engine, StepInputs, StoredView, TraceLimits, WeightMap, WeightStore, bf16, f16, f32, u8
from poot.errors import EngineError, UnsupportedDTypeError, WeightError, WeightFileError, WeightsError

OPTIONS = poot.CompileOptions()

ARRAYS: dict[str, np.ndarray[Any, Any]] = {
    "half": np.arange(6, dtype=np.float16).reshape(2, 3),
    "single": np.arange(8, dtype=np.float32),
    "scalar": np.array(7.0, np.float32),
    "flags": np.array([True, False, True]),
    "ids": np.arange(5, dtype=np.int64),
    "empty": np.zeros((0, 4), np.float32),
}


def write(path: Path, header: Any, data: bytes, *, length: int | None = None) -> Path:
    """A file with whatever header is given."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    save_file(ARRAYS, path)
    return path


# --- what is read -----------------------------------------------------------------------------------------------------


def test_arrays_are_those_that_were_saved(file: Path) -> None:
    store = WeightStore.from_safetensors(file)
    assert set(store) == set(ARRAYS) and len(store) == len(ARRAYS)
    for name, array in ARRAYS.items():
        assert store.spec(name) == poot.ArraySpec(poot.asarray(array).dtype, array.shape)
        np.testing.assert_array_equal(store.array(name), array)
        assert not store.array(name).flags.writeable


def test_brain_floats_and_their_bits(tmp_path: Path) -> None:
    bits = np.array([0x3F80, 0x8000, 0x7F80, 0x7FC1, 0x0001], np.uint16)
    header = {"__metadata__": {"format": "pt"}, "w": entry("BF16", [5], 0, 10)}
    store = WeightStore.from_safetensors(write(tmp_path / "w.safetensors", header, bits.tobytes()))
    assert store.spec("w") == bf16[5]
    np.testing.assert_array_equal(store.array("w").view(np.uint16), bits)


def test_formats_without_a_dtype_are_bytes(tmp_path: Path) -> None:
    values = np.array([[1.0, -2.0], [0.5, 448.0]], ml_dtypes.float8_e4m3fn)
    header = {"w": entry("F8_E4M3", [2, 2], 0, 4), "packed": entry("F4", [6], 4, 7)}
    store = WeightStore.from_safetensors(write(tmp_path / "w.safetensors", header, values.tobytes() + b"\x12\x34\x56"))
    with pytest.raises(UnsupportedDTypeError, match="weight 'w': dtype F8_E4M3 is not supported"):
        store.array("w")
    found = WeightMap({"w": StoredView("w", dtype=u8), "p": StoredView("packed", dtype=u8)}).resolve(store)
    np.testing.assert_array_equal(found["w"].view(ml_dtypes.float8_e4m3fn), values)
    assert found["p"].tolist() == [0x12, 0x34, 0x56]


def test_arrays_at_odd_places(tmp_path: Path, device: poot.Device) -> None:
    """The format aligns nothing: what is not aligned to its elements is copied."""
    header = {"a": entry("U8", [1], 0, 1), "w": entry("F32", [8], 1, 33)}
    values = np.arange(8, dtype=np.float32)
    store = WeightStore.from_safetensors(write(tmp_path / "w.safetensors", header, b"\x05" + values.tobytes()))
    assert stepped(device, store, WeightMap({"w": "w"})) == (values + 1).tolist()


def test_shards_of_an_index_and_of_a_folder(tmp_path: Path) -> None:
    save_file({"a": ARRAYS["single"]}, tmp_path / "one.safetensors")
    save_file({"b": ARRAYS["half"]}, tmp_path / "two.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}))
    for path in (index, tmp_path):
        assert {name: store_spec.dtype for name, store_spec in specs(path).items()} == {"a": f32, "b": f16}
    index.write_text(json.dumps({"weight_map": {"a": "one.safetensors", "c": "two.safetensors"}}))
    with pytest.raises(WeightFileError, match=r"lack what the index says is there: c in two.safetensors"):
        WeightStore.from_safetensors(index)
    index.write_text(json.dumps({"weight_map": {"a": "../one.safetensors"}}))
    with pytest.raises(WeightFileError, match="no file beside it"):
        WeightStore.from_safetensors(index)
    index.unlink()
    with pytest.raises(WeightFileError, match=r"holds several: one.safetensors, two.safetensors"):
        WeightStore.from_safetensors(tmp_path)


def specs(path: Path) -> dict[str, poot.ArraySpec]:
    store = WeightStore.from_safetensors(path)
    return {name: store.spec(name) for name in store}


# --- what is refused --------------------------------------------------------------------------------------------------

GOOD = {"w": entry("F32", [2], 0, 8)}
DAMAGED: dict[str, tuple[Any, bytes, str]] = {
    "no JSON": (b'{"w": ', bytes(8), "the header is damaged"),
    "no UTF-8": (b"\xff\xfe{}", bytes(8), "the header is damaged"),
    "a list": ([], b"", "it is no JSON object"),
    "a name twice": (b'{"w": 1, "w": 2}', b"", "a name stands there twice"),
    "no shape": ({"w": {"dtype": "F32", "data_offsets": [0, 8]}}, bytes(8), "lacks a dtype, a shape or two"),
    "a negative extent": ({"w": entry("F32", [-2], 0, 8)}, bytes(8), "have to be numbers, 0 or more"),
    "an extent of true": ({"w": entry("U8", [True], 0, 1)}, bytes(1), "have to be numbers, 0 or more"),
    "an unknown format": ({"w": entry("F12", [2], 0, 8)}, bytes(8), "'F12' is no format that is known"),
    "a format of no name": ({"w": {**GOOD["w"], "dtype": []}}, bytes(8), "is no format that is known"),
    "a wrong size": ({"w": entry("F32", [3], 0, 8)}, bytes(8), r"F32\[3\] takes 12 bytes, and its span 0:8 has 8"),
    "half a byte": ({"w": entry("F4", [3], 0, 2)}, bytes(2), "takes 1.5 bytes"),
    "a gap": ({"w": entry("F32", [1], 4, 8)}, bytes(8), "tensor 'w' leaves a gap after the header"),
    "an overlap": ({**GOOD, "v": entry("U8", [4], 4, 8)}, bytes(8), "tensor 'v' overlaps 'w'"),
    "truncated data": (GOOD, bytes(7), "is truncated: its tensors take 8 bytes, and 7 are there"),
    "more data": (GOOD, bytes(9), "has 1 bytes after its last tensor"),
    "a bool of 2": ({"w": entry("BOOL", [2], 0, 2)}, b"\x01\x02", "bools are bytes 0 and 1, and 2 is there"),
    "a deep header": (b"[" * 100_000, b"", "the header is damaged"),
    "too many axes": ({"w": entry("U8", [1] * 100, 0, 1)}, b"\x01", "tensor 'w': shape"),
}


@pytest.mark.parametrize(("header", "data", "message"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_are_refused(tmp_path: Path, header: Any, data: bytes, message: str) -> None:
    with pytest.raises(WeightFileError, match=message):
        WeightStore.from_safetensors(write(tmp_path / "w.safetensors", header, data))


def test_any_cut_is_refused(file: Path) -> None:
    whole = file.read_bytes()
    for length in {0, 1, 7, 8, 9, len(whole) // 2, len(whole) - 1}:
        file.write_bytes(whole[:length])
        with pytest.raises(WeightFileError, match=r"truncated|damaged"):
            WeightStore.from_safetensors(file)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightFileError, match="another format"):
        WeightStore.from_safetensors(write(tmp_path / "x", b"", b"", length=1 << 60))
    with pytest.raises(WeightFileError, match="cannot be read"):
        WeightStore.from_safetensors(tmp_path / "absent.safetensors")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(WeightFileError, match=r"holds no .safetensors file"):
        WeightStore.from_safetensors(tmp_path / "nothing")
    (tmp_path / "w.json").write_text("{}")
    with pytest.raises(WeightFileError, match='has no "weight_map"'):
        WeightStore.from_safetensors(tmp_path / "w.json")
    with pytest.raises(TypeError, match="from_safetensors: int given, expected a path"):
        WeightStore.from_safetensors(3)  # type: ignore[arg-type]


# --- what fits a program ----------------------------------------------------------------------------------------------


def program(device: poot.Device, **constants: poot.ArraySpec) -> poot.Program:
    b = Builder(TraceLimits.STANDARD)
    return poot.compile(
        b.finish([b.constant(name, spec) + 1 for name, spec in constants.items()]), device.target, OPTIONS
    )


def stepped(device: poot.Device, store: WeightStore, weight_map: WeightMap) -> list[float]:
    """`w + 1` from a store."""
    engine = Engine(device)
    exe = engine.load_weights(store, weight_map)
    entry = engine.add_entry(exe, program(device, w=f32[8]))
    (result,) = engine.step(exe, entry).read()
    engine.unload(exe)
    assert engine.stats.allocated_bytes == 0
    return result.tolist()


def test_everything_that_does_not_fit_is_listed_before_anything_is_written(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = poot.device("cpu")
    engine = Engine(cpu)
    wanting = program(cpu, single=f32[8], half=f32[2, 3], scalar=f32[1], absent=f32[2], other=f32[3])
    monkeypatch.setattr(cpu.backend, "write", lambda *_: pytest.fail("written"), raising=False)
    monkeypatch.setattr(cpu.backend, "allocate", lambda *_: pytest.fail("allocated"), raising=False)
    with pytest.raises(WeightsError) as caught:
        engine.load_weights(WeightStore.from_safetensors(file), wanting=wanting)
    assert caught.value.summary == (
        "7 weights do not fit:\n"
        "  of another dtype (1):\n    half: f16[2,3], f32[2,3] is wanted\n"
        "  of another shape (1):\n    scalar: f32[], f32[1] is wanted\n"
        "  missing from the store (2), which has empty, flags, half, ids, scalar, single:\n    absent\n    other\n"
        "  wanted by nothing (3):\n    empty\n    flags\n    ids"
    )
    for remedy in ("convert the arrays", "map each name", "leave what nothing wants out of the map"):
        assert caught.value.remedy.count(remedy) == 1
    assert isinstance(caught.value, WeightError)
    with pytest.raises(
        WeightsError, match=r"missing from the store \(2\), .*:\n    absent\n    other \(stored as other2\)\n"
    ):
        engine.load_weights(WeightStore.from_safetensors(file), WeightMap({"absent": "absent", "other": "other2"}))


def arrays_misfitting(shape: tuple[int, ...] = (4,), dtype: str = "f4", name: str = "w") -> WeightStore:
    return WeightStore.from_arrays({name: np.zeros(shape, dtype)})


#: One weight that does not fit a constant w of f32[4]: the head of its list and its line.
ALONE: dict[str, tuple[WeightStore, WeightMap | None, str]] = {
    "shape": (arrays_misfitting((3,)), None, "of another shape (1):\n    w: f32[3], f32[4] is wanted"),
    "dtype": (arrays_misfitting(dtype="f8"), None, "of another dtype (1):\n    w: f64[4], f32[4] is wanted"),
    "both": (arrays_misfitting((3,), "f8"), None, "of another dtype and shape (1):\n    w: f64[3], f32[4] is wanted"),
    "map": (arrays_misfitting(name="v"), WeightMap({}), "missing from the map (1), which has none:\n    w"),
    "store": (
        arrays_misfitting(name="v"),
        WeightMap({"w": "u"}),
        "missing from the store (1), which has v:\n    w (stored as u)",
    ),
    "view": (
        arrays_misfitting(),
        WeightMap({"w": StoredView("w", (9,))}),
        "with a view that does not fit (1):\n    w: (9,): index 9 is out of bounds for axis 0 with size 4",
    ),
}


@pytest.mark.parametrize("kind", ALONE)
def test_one_misfit_is_told_as_many_are(kind: str) -> None:
    cpu = poot.device("cpu")
    store, weight_map, text = ALONE[kind]
    with pytest.raises(WeightsError) as caught:
        Engine(cpu).load_weights(store, weight_map, program(cpu, w=f32[4]))
    assert caught.value.summary == "1 weight does not fit:\n  " + text
    assert caught.value.where is not None and caught.value.remedy


def test_names_that_are_there_stand_in_the_head_once() -> None:
    cpu = poot.device("cpu")
    store = WeightStore.from_arrays({f"layer.{n}.weight": np.zeros(1, np.float32) for n in range(20)})
    wanted = program(cpu, **{"layers.11.weight": f32[1], "other": f32[1]})
    with pytest.raises(WeightsError) as caught:
        Engine(cpu).load_weights(store, WeightMap.of(wanted), wanted)
    head, first, second = caught.value.summary.split("\n")[1:]
    assert head.startswith("  missing from the store (2), which has layer.0.weight, layer.1.weight, ")
    assert head.endswith(" and 12 more:")
    assert (first, second) == ("    layers.11.weight: did you mean 'layer.11.weight'?", "    other")


def test_an_entry_lists_everything_too(file: Path) -> None:
    cpu = poot.device("cpu")
    engine = Engine(cpu)
    exe = engine.load_weights(WeightStore.from_safetensors(file))
    with pytest.raises(WeightsError, match=r"2 weights do not fit"):
        engine.add_entry(exe, program(cpu, half=f32[2, 3], absent=f32[2]))
    engine.unload(exe)


def test_a_map_of_what_is_wanted(file: Path, device: poot.Device) -> None:
    wanting = [program(device, single=f32[8]), program(device, scalar=f32[()])]
    engine = Engine(device)
    store = WeightStore.from_safetensors(file)
    exe = engine.load_weights(store, WeightMap.of(wanting), wanting)
    entries = [engine.add_entry(exe, each) for each in wanting]
    assert [engine.step(exe, each).read()[0].tolist() for each in entries] == [list(range(1, 9)), 8.0]
    assert set(exe.weights) == {"single", "scalar"}
    engine.unload(exe)


def test_a_long_list_is_cut_and_a_near_name_is_named() -> None:
    store = WeightStore.from_arrays({f"layer.{n}.weight": np.zeros(1, np.float32) for n in range(20)})
    with pytest.raises(WeightError, match=r"did you mean 'layer.11.weight'\?"):
        store.array("layers.11.weight")
    with pytest.raises(WeightsError, match="and 10 more"):
        WeightMap({f"w{n}": f"w{n}" for n in range(50)}).resolve(store)


# --- one copy, and its lifetime ---------------------------------------------------------------------------------------


def mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_tied_weights_and_entries_share_one_buffer(device: poot.Device) -> None:
    engine = Engine(device)
    store = WeightStore.from_arrays({"w": np.arange(8, dtype=np.float32)})
    exe = engine.load_weights(store, WeightMap({"w": "w", "tied": "w", "row": StoredView("w", (slice(0, 2),))}))
    assert exe.weights["w"][0] is exe.weights["tied"][0]
    before = engine.stats.allocated_bytes
    assert before == 32 + 8
    wanting = program(device, w=f32[8], tied=f32[8], row=f32[2])
    first, second = (engine.add_entry(exe, wanting) for _ in range(2))
    for each in (first, second):
        assert [out.tolist() for out in engine.step(exe, each).read()] == [[*range(1, 9)], [*range(1, 9)], [1, 2]]
        engine.remove_entry(each)
    engine.unload(exe)
    assert engine.stats.allocated_bytes == 0


def test_a_mapping_lives_as_long_as_something_uses_it(file: Path, device: poot.Device) -> None:
    engine = Engine(device)
    store = WeightStore.from_safetensors(file)
    exe = engine.load_weights(store, WeightMap({"w": "single"}))
    in_place = engine.stats.allocated_bytes == 0
    entry = engine.add_entry(exe, program(device, w=f32[8]))
    del store
    gc.collect()
    assert mapped(file) is in_place
    os.unlink(file)
    for _ in range(2):
        assert engine.step(exe, entry, StepInputs()).read()[0].tolist() == list(range(1, 9))
    engine.unload(exe)
    del exe, entry
    device.synchronize()
    gc.collect()
    assert not mapped(file)


def test_what_was_unloaded_keeps_no_file(file: Path, device: poot.Device) -> None:
    engine = Engine(device)
    exe = engine.load_weights(WeightStore.from_safetensors(file), WeightMap({"w": "single"}))
    entry = engine.add_entry(exe, program(device, w=f32[8]))
    result = engine.step(exe, entry, StepInputs())
    view = result.read(borrow=True)[0]
    engine.unload(exe)
    device.synchronize()
    gc.collect()
    assert not mapped(file) and view.tolist() == list(range(1, 9))
    for use in (lambda: engine.step(exe, entry), result.read, lambda: engine.remove_entry(entry)):
        with pytest.raises(EngineError, match=r"unloaded|removed"):
            use()


def test_devices_on_host_memory_copy_nothing(file: Path) -> None:
    for name in ("cpu", "interpret", "opencl"):
        engine = Engine(poot.device(name))
        exe = engine.load_weights(WeightStore.from_safetensors(file))
        assert engine.stats.allocated_bytes <= 8, name  # the empty array, and bools where they stand at an odd place
        engine.unload(exe)


def test_the_calls_of_an_index_error() -> None:
    store = WeightStore.from_arrays({"w": np.zeros((2, 3), np.float32)})
    cases: list[Callable[[], Any]] = [
        lambda: StoredView("w", (5,)).of(store),
        lambda: StoredView("w", dtype=poot.f64).of(store),
    ]
    for case in cases:
        with pytest.raises(WeightError, match="weight 'w'"):
            case()
