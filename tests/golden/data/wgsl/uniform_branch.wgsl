struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    y_first: i32,
    n: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read_write> y: array<i32>;

@compute @workgroup_size(128, 1, 1)
fn uniform_branch(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let thread_x = i32(workgroup_id.x) * 128 + i32(local_id.x);
    if (thread_x >= 1024) {
        return;
    }
    // <golden uniform_branch>:1: total = 0
    var total = 0;
    // <golden uniform_branch>:2: if n > 3:
    if (params.n > 3) {
        // <golden uniform_branch>:3: total = n * 2
        total = params.n * 2;
    }
    // <golden uniform_branch>:4: y[i] = total
    y[params.y_first + thread_x] = total;
}
