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

fn is_nan_f32(x: f32) -> bool {
    return ((bitcast<u32>(x) ^ params.zero) & 0x7fffffffu) > 0x7f800000u;
}

fn max_f32(a: f32, b: f32) -> f32 {
    let a_bits = bitcast<i32>(a);
    let b_bits = bitcast<i32>(b);
    let x = a_bits ^ bitcast<i32>(bitcast<u32>(a_bits >> 31u) & 0x7fffffffu);
    let y = b_bits ^ bitcast<i32>(bitcast<u32>(b_bits >> 31u) & 0x7fffffffu);
    return bitcast<f32>(select(b_bits, a_bits, is_nan_f32(a) || (y < x && !is_nan_f32(b))));
}

@compute @workgroup_size(128, 1, 1)
fn baked_map(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let zero = bitcast<f32>(params.zero);
    let thread_x = i32(workgroup_id.x) * 128 + i32(local_id.x);
    if (thread_x >= 4096) {
        return;
    }
    let row = thread_x / 64;
    let column = thread_x % 64;
    // <golden baked_map>:1: y[row, column] = max(x[column, row], 0)
    y[params.y_first + (row * 64 + column)] = max_f32(x[params.x_first + (column * 64 + row)], zero);
}
