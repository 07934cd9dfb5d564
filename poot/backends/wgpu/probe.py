"""What an adapter's driver makes of floats: a question that WebGPU leaves open, and answers to no query.

Drivers may take subnormal numbers for zero, and may divide through a rounded reciprocal, if only by constants.  A
kernel of one work-group computes sums, products, quotients and roots whose exact values tell, in f32 and in f64 where
the adapter has that.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import numpy as np

from poot.backends.wgpu.adapter import wgpu
from poot.backends.wgpu.transfers import read_memory, submit
from poot.dtypes import DType, f32, f64

_COUNT = 1024

_SHADER = f"""
@group(0) @binding(0) var<storage, read> a: array<element>;
@group(0) @binding(1) var<storage, read> b: array<element>;
@group(0) @binding(2) var<storage, read_write> found: array<element>;

@compute @workgroup_size(64)
fn probe(@builtin(local_invocation_id) local_id: vec3<u32>) {{
    for (var i = local_id.x; i < {_COUNT}u; i += 64u) {{
        found[i] = a[i] + b[i];
        found[i + {_COUNT}u] = a[i] * b[i];
        found[i + {2 * _COUNT}u] = a[i] / b[i];
        found[i + {3 * _COUNT}u] = a[i] / element(3);
        found[i + {4 * _COUNT}u] = sqrt(abs(a[i]));
    }}
}}
"""


def float_features(device: Any, dtypes: frozenset[DType]) -> set[str]:
    """`subnormals` where they are kept, `correct_division` where quotients and square roots round to nearest.

    Both hold of f32, and of f64 where that is among the dtypes.
    """
    found = {"subnormals", "correct_division"}
    for dtype in (f32, f64):
        if dtype in dtypes:
            found &= _features(device, *_operands(dtype), dtype)
    return found


def _features(device: Any, a: Any, b: Any, dtype: DType) -> set[str]:
    """The same, of one dtype."""
    sums, products, quotients, thirds, roots = _computed(device, a, b, dtype)
    normal = slice(_COUNT // 2, None)
    with np.errstate(all="ignore"):
        kept = np.array_equal(sums, a + b) and np.array_equal(products, a * b)
        divided = np.array_equal(quotients[normal], (a / b)[normal])
        divided &= np.array_equal(thirds[normal], (a / dtype.dtype.type(3))[normal])
        divided &= np.array_equal(roots[normal], np.sqrt(np.abs(a))[normal])
    return {name for name, holds in (("subnormals", kept), ("correct_division", divided)) if holds}


def _operands(dtype: DType) -> tuple[Any, Any]:
    """Subnormal numbers against powers of two around 1, then numbers of every size whose quotients are normal."""
    random = np.random.default_rng(0)
    half = _COUNT // 2
    unsigned, digits, top = (np.uint32, 23, 127) if dtype is f32 else (np.uint64, 52, 1023)
    bits = random.integers(1, 2 << digits, half, dtype=unsigned)
    bits[:4] = 1, (1 << digits) - 1, 1 << digits, (1 << digits) + 1
    small = (bits | random.integers(0, 2, half, dtype=unsigned) << unsigned(dtype.bits - 1)).view(dtype.dtype)
    exponents = random.integers(27 - top, top, half)
    sizes = (np.ldexp(random.uniform(1, 2, half), each) for each in (exponents, exponents // 2))
    large, divisors = (each.astype(dtype.dtype) for each in sizes)
    a = np.concatenate([small, large])
    b = np.concatenate([np.ldexp(1.0, random.integers(-1, 2, half)).astype(dtype.dtype), divisors])
    return a, b


def _computed(device: Any, a: Any, b: Any, dtype: DType) -> Any:
    """The rows of sums, products, quotients, thirds and roots that the device gives."""
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    arrays = a, b, np.zeros(5 * _COUNT, dtype.dtype)
    buffers = [device.create_buffer_with_data(data=array, usage=usage) for array in arrays]
    shader = device.create_shader_module(code=f"alias element = {dtype.name};\n{_SHADER}")
    pipeline = device.create_compute_pipeline(layout="auto", compute={"module": shader, "entry_point": "probe"})
    group = device.create_bind_group(
        layout=pipeline.get_bind_group_layout(0),
        entries=[{"binding": n, "resource": {"buffer": buffer}} for n, buffer in enumerate(buffers)],
    )
    encoder = device.create_command_encoder()
    work = encoder.begin_compute_pass()
    work.set_pipeline(pipeline)
    work.set_bind_group(0, group)
    work.dispatch_workgroups(1)
    work.end()
    submit(device, device.queue, encoder.finish())
    found = read_memory(device, device.queue, buffers[2], 0, arrays[2].nbytes).view(dtype.dtype).reshape(5, _COUNT)
    for buffer in buffers:
        buffer.destroy()
    return found
