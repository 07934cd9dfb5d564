"""Faults in WGSL: a thread keeps its first, and gives it to the launch's record when it leaves.

Drivers write every function out where it is called, and atomics are long: a check has none of them.
"""

from __future__ import annotations

from poot.dtypes import DType, i32, i64, u64

#: Gives a thread's fault to the record, if it is the first of the launch.
REPORT = """
var<private> kept_fault: array<i32, 7>;

fn report_fault() {
    let first = params.fault_first;
    if (kept_fault[0] != 0 && atomicExchange(&fault[first], 1) == 0) {
        atomicStore(&fault[first + 1], params.launch);
        atomicStore(&fault[first + 2], kept_fault[1]);
        atomicStore(&fault[first + 3], kept_fault[2]);
        atomicStore(&fault[first + 4], kept_fault[3]);
        atomicStore(&fault[first + 5], kept_fault[4]);
        atomicStore(&fault[first + 6], kept_fault[5]);
        atomicStore(&fault[first + 7], kept_fault[6]);
    }
}"""


def record(name: str, index: DType) -> str:
    """A function that keeps a fault of a thread; `index` is the dtype of the index and the extent."""
    t = index.name
    high = "i32({0} >> 32u)" if index in (i64, u64) else "{0} >> 31u" if index is i32 else "0"
    low = "{0}" if index is i32 else "i32({0})"
    return f"""
fn {name}(site: i32, axis: i32, index: {t}, extent: {t}) {{
    if (kept_fault[0] == 0) {{
        kept_fault[0] = 1;
        kept_fault[1] = site;
        kept_fault[2] = axis;
        kept_fault[3] = {low.format("index")};
        kept_fault[4] = {high.format("index")};
        kept_fault[5] = {low.format("extent")};
        kept_fault[6] = {high.format("extent")};
    }}
}}"""
