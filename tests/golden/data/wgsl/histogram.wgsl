struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    x_first: i32,
    x_extent_0: i32,
    bins_first: i32,
    last_first: i32,
    threads_x: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> bins: array<atomic<i32>>;
@group(0) @binding(3) var<storage, read_write> last: array<atomic<u32>>;

fn load_x(element_number: i32) -> u32 {
    let element_at = u32(params.x_first + element_number);
    return extractBits(x[element_at / 4u], element_at % 4u * 8u, 8u);
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
fn histogram(
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
    // <golden histogram>:1: atomic_add(bins, x[i], 1)
    atomicAdd(&bins[params.bins_first + i32(load_x(thread_x))], 1);
    // <golden histogram>:2: old = atomic_exchange(last, 0, 1.5)
    atomicExchange(&last[params.last_first], bitcast<u32>(1.5f));
}
