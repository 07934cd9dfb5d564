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
    b: i32,
    threads_x: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read> x: array<i32>;
@group(0) @binding(2) var<storage, read_write> y: array<i32>;

fn floor_div_i32(a: i32, b: i32) -> i32 {
    if (b == 0) {
        return 0;
    }
    if (b == -1) {
        return 0 - a;
    }
    let quotient = a / b;
    let short = a - quotient * b != 0 && (a < 0) != (b < 0);
    return select(quotient, quotient - 1, short);
}

fn rem_i32(a: i32, b: i32) -> i32 {
    if (b == 0 || b == -1) {
        return 0;
    }
    let rest = a - a / b * b;
    return select(rest, rest + b, rest != 0 && (rest < 0) != (b < 0));
}

fn shift_left_i32(a: i32, count: i32) -> i32 {
    return select(i32(0), a << (u32(count) & 31u), u32(count) < 32u);
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
fn integers(
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
    let a = x[params.x_first + thread_x];
    // <golden integers>:1: y[i] = (a // b) ^ (a % 7) + (a << b)
    y[params.y_first + thread_x] = floor_div_i32(a, params.b) ^ (rem_i32(a, 7) + shift_left_i32(a, params.b));
}
