struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    x_first: i32,
    x_extent_0: i32,
    y_first: i32,
    y_extent_0: i32,
    threads_x: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

// The value itself, in a form that the compiler cannot simplify together with its surroundings.
fn fence_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ params.zero);
}

// A comparison that is not turned round where a branch negates it: that would be wrong for NaN.
fn holds(comparison: bool) -> bool {
    return select(0u, 1u, comparison) != params.zero;
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
fn branches(
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
    var v = x[params.x_first + thread_x];
    // <golden branches>:1: if v < 0:
    if (holds(fence_f32(v) < zero)) {
        // <golden branches>:2: v = -v
        v = -fence_f32(v);
    } else {
        // <golden branches>:3: v = v + 1
        v = fence_f32(v) + 1.0f;
    }
    // <golden branches>:4: y[i] = v
    y[params.y_first + thread_x] = v;
}
