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
@group(0) @binding(1) var<storage, read> x: array<i32>;
@group(0) @binding(2) var<storage, read_write> y: array<i32>;

var<workgroup> scratch_i32: array<i32, 96>;
var<workgroup> scratch_u32: array<u32, 96>;

fn group_scan_i32(value: i32, lane: u32) -> i32 {
    var before = value;
    scratch_i32[lane] = value;
    workgroupBarrier();
    before = scratch_i32[max(lane, 1u) - 1u];
    workgroupBarrier();
    if (lane >= 1u) {
        scratch_i32[lane] = before + scratch_i32[lane];
    }
    workgroupBarrier();
    before = scratch_i32[max(lane, 2u) - 2u];
    workgroupBarrier();
    if (lane >= 2u) {
        scratch_i32[lane] = before + scratch_i32[lane];
    }
    workgroupBarrier();
    before = scratch_i32[max(lane, 4u) - 4u];
    workgroupBarrier();
    if (lane >= 4u) {
        scratch_i32[lane] = before + scratch_i32[lane];
    }
    workgroupBarrier();
    before = scratch_i32[max(lane, 8u) - 8u];
    workgroupBarrier();
    if (lane >= 8u) {
        scratch_i32[lane] = before + scratch_i32[lane];
    }
    workgroupBarrier();
    before = scratch_i32[max(lane, 16u) - 16u];
    workgroupBarrier();
    if (lane >= 16u) {
        scratch_i32[lane] = before + scratch_i32[lane];
    }
    workgroupBarrier();
    before = scratch_i32[max(lane, 32u) - 32u];
    workgroupBarrier();
    if (lane >= 32u) {
        scratch_i32[lane] = before + scratch_i32[lane];
    }
    workgroupBarrier();
    before = scratch_i32[max(lane, 64u) - 64u];
    workgroupBarrier();
    if (lane >= 64u) {
        scratch_i32[lane] = before + scratch_i32[lane];
    }
    workgroupBarrier();
    let result = scratch_i32[lane];
    workgroupBarrier();
    return result;
}

fn group_any_bool(value: bool, lane: u32) -> bool {
    scratch_u32[lane] = u32(value);
    workgroupBarrier();
    if (lane < 48u) {
        scratch_u32[lane] = u32(scratch_u32[lane] != 0u || scratch_u32[lane + 48u] != 0u);
    }
    workgroupBarrier();
    if (lane < 24u) {
        scratch_u32[lane] = u32(scratch_u32[lane] != 0u || scratch_u32[lane + 24u] != 0u);
    }
    workgroupBarrier();
    if (lane < 12u) {
        scratch_u32[lane] = u32(scratch_u32[lane] != 0u || scratch_u32[lane + 12u] != 0u);
    }
    workgroupBarrier();
    if (lane < 6u) {
        scratch_u32[lane] = u32(scratch_u32[lane] != 0u || scratch_u32[lane + 6u] != 0u);
    }
    workgroupBarrier();
    if (lane < 3u) {
        scratch_u32[lane] = u32(scratch_u32[lane] != 0u || scratch_u32[lane + 3u] != 0u);
    }
    workgroupBarrier();
    if (lane < 1u) {
        scratch_u32[lane] = u32(scratch_u32[lane] != 0u || scratch_u32[lane + 2u] != 0u);
    }
    workgroupBarrier();
    if (lane < 1u) {
        scratch_u32[lane] = u32(scratch_u32[lane] != 0u || scratch_u32[lane + 1u] != 0u);
    }
    workgroupBarrier();
    let result = scratch_u32[0] != 0u;
    workgroupBarrier();
    return result;
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

@compute @workgroup_size(96, 1, 1)
fn scan(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(num_workgroups) num_workgroups: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let group = launch_group(workgroup_id, num_workgroups);
    if (group.z >= params.num_groups_z) {
        return;
    }
    let local_x = i32(local_id.x);
    // <golden scan>:1: y[i] = group_scan(x[i])
    let running = group_scan_i32(x[params.x_first + local_x], lane);
    y[params.y_first + local_x] = running;
    // <golden scan>:2: some = group_any(x[i] < 0)
    let some = group_any_bool(x[params.x_first + local_x] < 0, lane);
    if (some) {
        // <golden scan>:3: y[0] = -1
        y[params.y_first] = -1;
    }
}
