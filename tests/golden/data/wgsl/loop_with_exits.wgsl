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
    n: i32,
    threads_x: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read> x: array<i32>;
@group(0) @binding(2) var<storage, read_write> y: array<i32>;

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
fn loop_with_exits(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(num_workgroups) num_workgroups: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let group = launch_group(workgroup_id, num_workgroups);
    if (group.z >= params.num_groups_z) {
        return;
    }
    let thread_x = i32(group.x) * 128 + i32(local_id.x);
    if (thread_x >= params.threads_x) {
        return;
    }
    // <golden loop_with_exits>:1: total = 0
    var total = 0;
    // <golden loop_with_exits>:2: for j in range(0, n, 3):
    for (var j = 0; j < params.n; j = select(params.n, j + 3, u32(params.n) - u32(j) > 3u)) {
        let v = x[params.x_first + j];
        // <golden loop_with_exits>:3: if v < 0: continue
        if (v < 0) {
            continue;
        }
        // <golden loop_with_exits>:4: if v > i: break
        if (v > thread_x) {
            break;
        }
        // <golden loop_with_exits>:5: total += v
        total = total + v;
    }
    // <golden loop_with_exits>:6: y[i] = total
    y[params.y_first + thread_x] = total;
}
