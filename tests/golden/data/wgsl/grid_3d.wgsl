struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    y_first: i32,
    y_extent_1: i32,
    y_extent_2: i32,
    y_stride_0: i32,
    y_stride_1: i32,
    y_stride_2: i32,
    threads_x: i32,
    threads_y: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

// The number of a work-group, where a grid that is too long on one axis is dispatched in another shape.
fn launch_group(workgroup: vec3<u32>, counts: vec3<u32>) -> vec3<u32> {
    if (params.folded == 0u) {
        return workgroup;
    }
    let number = workgroup.x + counts.x * (workgroup.y + counts.y * workgroup.z);
    let rows = number / params.num_groups_x;
    return vec3<u32>(number % params.num_groups_x, rows % params.num_groups_y, rows / params.num_groups_y);
}

@compute @workgroup_size(8, 4, 2)
fn grid_3d(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(num_workgroups) num_workgroups: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let group = launch_group(workgroup_id, num_workgroups);
    if (group.z >= params.num_groups_z) {
        return;
    }
    let thread_x = i32(group.x) * 8 + i32(local_id.x);
    let thread_y = i32(group.y) * 4 + i32(local_id.y);
    let thread_z = i32(group.z) * 2 + i32(local_id.z);
    if (thread_x >= params.threads_x || thread_y >= params.threads_y || thread_z >= 20) {
        return;
    }
    // <golden grid_3d>:1: y[z, y, x] = x + y
    y[params.y_first + (thread_z * params.y_stride_0 + thread_y * params.y_stride_1 + thread_x * params.y_stride_2)] = f32(thread_y + thread_x);
}
