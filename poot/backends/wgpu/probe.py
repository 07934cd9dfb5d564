"""What an adapter's driver makes of 32-bit floats: a question that WebGPU leaves open, and answers to no query.

Drivers may take subnormal numbers for zero, and may divide through a rounded reciprocal.  A kernel of one work-group
computes sums, products, quotients and roots whose exact values tell.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import numpy as np

from poot.backends.wgpu.adapter import wgpu

_COUNT = 1024

_SHADER = f"""
@group(0) @binding(0) var<storage, read> a: array<f32>;
@group(0) @binding(1) var<storage, read> b: array<f32>;
@group(0) @binding(2) var<storage, read_write> found: array<f32>;

@compute @workgroup_size(64)
fn probe(@builtin(local_invocation_id) local_id: vec3<u32>) {{
    for (var i = local_id.x; i < {_COUNT}u; i += 64u) {{
        found[i] = a[i] + b[i];
        found[i + {_COUNT}u] = a[i] * b[i];
        found[i + {2 * _COUNT}u] = a[i] / b[i];
        found[i + {3 * _COUNT}u] = sqrt(abs(a[i]));
    }}
}}
"""


def float_features(device: Any) -> set[str]:
    """`subnormals` where they are kept, `correct_division` where quotients and square roots round to nearest."""
    a, b = _operands()
    sums, products, quotients, roots = _computed(device, a, b)
    normal = slice(_COUNT // 2, None)
    with np.errstate(all="ignore"):
        kept = np.array_equal(sums, a + b) and np.array_equal(products, a * b)
        divided = np.array_equal(quotients[normal], (a / b)[normal])
        divided &= np.array_equal(roots[normal], np.sqrt(np.abs(a))[normal])
    return {name for name, holds in (("subnormals", kept), ("correct_division", divided)) if holds}


def _operands() -> tuple[Any, Any]:
    """Subnormal numbers against powers of two around 1, then numbers of every size whose quotients are normal."""
    random = np.random.default_rng(0)
    half = _COUNT // 2
    bits = random.integers(1, 1 << 24, half, dtype=np.uint32)
    bits[:4] = 1, 0x7FFFFF, 0x800000, 0x800001
    small = (bits | random.integers(0, 2, half, dtype=np.uint32) << np.uint32(31)).view(np.float32)
    exponents = random.integers(-100, 127, half)
    sizes = random.uniform(1, 2, half) * 2.0**exponents, random.uniform(1, 2, half) * 2.0 ** (exponents // 2)
    a = np.concatenate([small, sizes[0].astype(np.float32)])
    b = np.concatenate([np.float32(2.0) ** random.integers(-1, 2, half), sizes[1].astype(np.float32)])
    return a, b.astype(np.float32)


def _computed(device: Any, a: Any, b: Any) -> Any:
    """The rows of sums, products, quotients and roots that the device gives."""
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC
    buffers = [device.create_buffer_with_data(data=array, usage=usage) for array in (a, b, np.zeros(4 * _COUNT, "f4"))]
    shader = device.create_shader_module(code=_SHADER)
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
    device.queue.submit([encoder.finish()])
    found = np.frombuffer(device.queue.read_buffer(buffers[2]), np.float32).reshape(4, _COUNT)
    for buffer in buffers:
        buffer.destroy()
    return found
