struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    x_first: i32,
    x_extent_0_low: u32,
    x_extent_0_high: u32,
    y_first: i32,
    y_extent_0_low: u32,
    y_extent_0_high: u32,
    threads_x_low: u32,
    threads_x_high: u32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

// The number of a work-group, where a grid that is too long on one axis is dispatched in another shape.
fn launch_group(workgroup: vec3<u32>, counts: vec3<u32>) -> vec3<u32> {
    if (params.folded == 0u) {
        return workgroup;
    }
    let number = workgroup.x + counts.x * (workgroup.y + counts.y * workgroup.z);
    let rows = number / params.num_groups_x;
    return vec3<u32>(number % params.num_groups_x, rows % params.num_groups_y, rows / params.num_groups_y);
}

@compute @workgroup_size(256, 1, 1)
fn wide_indices(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(num_workgroups) num_workgroups: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let x_extent_0 = bitcast<i64>((u64(params.x_extent_0_high) << 32u) | u64(params.x_extent_0_low));
    let y_extent_0 = bitcast<i64>((u64(params.y_extent_0_high) << 32u) | u64(params.y_extent_0_low));
    let threads_x = bitcast<i64>((u64(params.threads_x_high) << 32u) | u64(params.threads_x_low));
    let group = launch_group(workgroup_id, num_workgroups);
    if (group.z >= params.num_groups_z) {
        return;
    }
    let thread_x = i64(u64(group.x)) * 256li + i64(u64(local_id.x));
    if (thread_x >= threads_x) {
        return;
    }
    // <golden wide_indices>:1: y[i] = x[2 * i]
    y[params.y_first + i32(thread_x)] = x[params.x_first + i32(thread_x * 2li)];
}
