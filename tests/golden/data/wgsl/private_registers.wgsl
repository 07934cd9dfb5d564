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

@compute @workgroup_size(128, 1, 1)
fn private_registers(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let thread_x = i32(workgroup_id.x) * 128 + i32(local_id.x);
    if (thread_x >= 256) {
        return;
    }
    // <golden private_registers>:1: acc = private(f32, 4)
    var acc: array<f32, 4>;
    // <golden private_registers>:2: acc[0] = x[0, i]
    acc[0] = x[params.x_first + thread_x];
    // <golden private_registers>:3: acc[1] = x[1, i]
    acc[1] = x[params.x_first + (thread_x + 256)];
    // <golden private_registers>:4: acc[2] = x[2, i]
    acc[2] = x[params.x_first + (thread_x + 512)];
    // <golden private_registers>:5: acc[3] = x[3, i]
    acc[3] = x[params.x_first + (thread_x + 768)];
    // <golden private_registers>:6: y[i] = acc[0] + acc[3]
    y[params.y_first + thread_x] = acc[0] + acc[3];
}
