struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    x_first: i32,
    y_first: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

var<workgroup> tile: array<f32, 272>;

// The number of a work-group, where a grid that is too long on one axis is dispatched in another shape.
fn launch_group(workgroup: vec3<u32>, counts: vec3<u32>) -> vec3<u32> {
    if (params.folded == 0u) {
        return workgroup;
    }
    let number = workgroup.x + counts.x * (workgroup.y + counts.y * workgroup.z);
    let rows = number / params.num_groups_x;
    return vec3<u32>(number % params.num_groups_x, rows % params.num_groups_y, rows / params.num_groups_y);
}

@compute @workgroup_size(16, 16, 1)
fn tile_transpose(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(num_workgroups) num_workgroups: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let group = launch_group(workgroup_id, num_workgroups);
    if (group.z >= params.num_groups_z) {
        return;
    }
    let group_x = i32(group.x);
    let group_y = i32(group.y);
    let local_x = i32(local_id.x);
    let local_y = i32(local_id.y);
    // <golden tile_transpose>:1: tile = shared(f32, (16, 17))
    // <golden tile_transpose>:2: tile[ly, lx] = x[gy * 16 + ly, gx * 16 + lx]
    tile[local_y * 17 + local_x] = x[params.x_first + ((group_y * 16 + local_y) * 64 + (group_x * 16 + local_x))];
    // <golden tile_transpose>:3: barrier()
    workgroupBarrier();
    storageBarrier();
    // <golden tile_transpose>:4: y[gx * 16 + ly, gy * 16 + lx] = tile[lx, ly]
    y[params.y_first + ((group_x * 16 + local_y) * 64 + (group_y * 16 + local_x))] = tile[local_x * 17 + local_y];
}
