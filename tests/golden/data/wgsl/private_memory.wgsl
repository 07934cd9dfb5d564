struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    y_first: i32,
    n: i32,
    launch: i32,
    fault_first: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read_write> y: array<i32>;
@group(0) @binding(2) var<storage, read_write> fault: array<atomic<i32>>;

fn record_fault(site: i32, axis: i32, index: i32, extent: i32) {
    if (kept_fault[0] == 0) {
        kept_fault[0] = 1;
        kept_fault[1] = site;
        kept_fault[2] = axis;
        kept_fault[3] = index;
        kept_fault[4] = index >> 31u;
        kept_fault[5] = extent;
        kept_fault[6] = extent >> 31u;
    }
}

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
}

@compute @workgroup_size(128, 1, 1)
fn private_memory(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let thread_x = i32(workgroup_id.x) * 128 + i32(local_id.x);
    if (thread_x >= 256) {
        return;
    }
    var acc: array<i32, 8>;
    // <golden private_memory>:1: for j in range(8): acc[j] = j * i
    for (var j = 0; j < 8; j += 1) {
        acc[j] = j * thread_x;
    }
    // <golden private_memory>:2: y[i] = acc[n]
    var acc_at = 0;
    if (u32(params.n) >= 8u) {
        record_fault(0, 0, params.n, 8);
    } else {
        acc_at = acc[params.n];
    }
    y[params.y_first + thread_x] = acc_at;
    report_fault();
}
