struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    x_first: i32,
    x_extent_0: i32,
    x_extent_1: i32,
    x_stride_0: i32,
    at_first: i32,
    at_extent_0: i32,
    y_first: i32,
    y_extent_0: i32,
    threads_x: i32,
    launch: i32,
    fault_first: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> at: array<i32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
@group(0) @binding(4) var<storage, read_write> fault: array<atomic<i32>>;

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

// The number of a work-group, where a grid that is too long on one axis is dispatched in another shape.
fn launch_group(workgroup: vec3<u32>, counts: vec3<u32>) -> vec3<u32> {
    if (params.folded == 0u) {
        return workgroup;
    }
    let number = workgroup.x + counts.x * (workgroup.y + counts.y * workgroup.z);
    let rows = number / params.num_groups_x;
    return vec3<u32>(number % params.num_groups_x, rows % params.num_groups_y, rows / params.num_groups_y);
}

@compute @workgroup_size(128, 1, 1)
fn checked_gather(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(num_workgroups) num_workgroups: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let zero = bitcast<f32>(params.zero);
    let group = launch_group(workgroup_id, num_workgroups);
    if (group.z >= params.num_groups_z) {
        return;
    }
    let thread_x = i32(group.x) * 128 + i32(local_id.x);
    if (thread_x >= params.threads_x) {
        return;
    }
    // <golden checked_gather>:1: y[i] = x[at[i, 0], at[i, 1]]
    var at_at = 0;
    if (u32(thread_x) >= u32(params.at_extent_0)) {
        record_fault(0, 0, thread_x, params.at_extent_0);
    } else if (0u >= 2u) {
        record_fault(0, 1, 0, 2);
    } else {
        at_at = at[params.at_first + thread_x * 2];
    }
    let t = at_at;
    var at_at_1 = 0;
    if (u32(thread_x) >= u32(params.at_extent_0)) {
        record_fault(1, 0, thread_x, params.at_extent_0);
    } else if (1u >= 2u) {
        record_fault(1, 1, 1, 2);
    } else {
        at_at_1 = at[params.at_first + (thread_x * 2 + 1)];
    }
    let t_1 = at_at_1;
    var x_at = zero;
    if (u32(t) >= u32(params.x_extent_0)) {
        record_fault(3, 0, t, params.x_extent_0);
    } else if (u32(t_1) >= u32(params.x_extent_1)) {
        record_fault(3, 1, t_1, params.x_extent_1);
    } else {
        x_at = x[params.x_first + (t * params.x_stride_0 + t_1)];
    }
    if (u32(thread_x) >= u32(params.y_extent_0)) {
        record_fault(2, 0, thread_x, params.y_extent_0);
    } else {
        y[params.y_first + thread_x] = x_at;
    }
    // <golden checked_gather>:2: assert at[i, 0] < 1000, 'small'
    if (!(t < 1000)) {
        record_fault(4, 0, 0, 0);
    }
    report_fault();
}
