struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    y_first: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

var<workgroup> a: array<f32, 16384>;
var<workgroup> b: array<atomic<i32>, 3>;

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
fn large_shared(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(num_workgroups) num_workgroups: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let group = launch_group(workgroup_id, num_workgroups);
    if (group.z >= params.num_groups_z) {
        return;
    }
    let local_x = i32(local_id.x);
    // <golden large_shared>:1: a[i * 64] = i
    a[local_x * 64] = f32(local_x);
    // <golden large_shared>:2: atomic_add(b, 1, 1)
    atomicAdd(&b[1], 1);
    // <golden large_shared>:3: barrier()
    workgroupBarrier();
    storageBarrier();
    // <golden large_shared>:4: y[i] = a[64]
    y[params.y_first + local_x] = a[64];
}
