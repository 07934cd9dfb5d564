struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    x_first: i32,
    y_floor_first: i32,
    y_ceil_first: i32,
    y_trunc_first: i32,
    y_round_first: i32,
    y_sqrt_first: i32,
    y_neg_first: i32,
    y_abs_first: i32,
    least_first: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y_floor: array<f32>;
@group(0) @binding(3) var<storage, read_write> y_ceil: array<f32>;
@group(0) @binding(4) var<storage, read_write> y_trunc: array<f32>;
@group(0) @binding(5) var<storage, read_write> y_round: array<f32>;
@group(0) @binding(6) var<storage, read_write> y_sqrt: array<f32>;
@group(0) @binding(7) var<storage, read_write> y_neg: array<f32>;
@group(0) @binding(8) var<storage, read_write> y_abs: array<f32>;
@group(0) @binding(9) var<storage, read_write> least: array<f32>;

fn is_nan_f32(x: f32) -> bool {
    return ((bitcast<u32>(x) ^ params.zero) & 0x7fffffffu) > 0x7f800000u;
}

fn min_f32(a: f32, b: f32) -> f32 {
    let a_bits = bitcast<i32>(a);
    let b_bits = bitcast<i32>(b);
    let x = a_bits ^ bitcast<i32>(bitcast<u32>(a_bits >> 31u) & 0x7fffffffu);
    let y = b_bits ^ bitcast<i32>(bitcast<u32>(b_bits >> 31u) & 0x7fffffffu);
    return bitcast<f32>(select(b_bits, a_bits, is_nan_f32(a) || (x < y && !is_nan_f32(b))));
}

@compute @workgroup_size(128, 1, 1)
fn rounding(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let thread_x = i32(workgroup_id.x) * 128 + i32(local_id.x);
    if (thread_x >= 256) {
        return;
    }
    let a = x[params.x_first + thread_x];
    // <golden rounding>:1: floor[i] = floor(a)
    y_floor[params.y_floor_first + thread_x] = floor(a);
    // <golden rounding>:2: ceil[i] = ceil(a)
    y_ceil[params.y_ceil_first + thread_x] = ceil(a);
    // <golden rounding>:3: trunc[i] = trunc(a)
    y_trunc[params.y_trunc_first + thread_x] = trunc(a);
    // <golden rounding>:4: round[i] = round(a)
    y_round[params.y_round_first + thread_x] = round(a);
    // <golden rounding>:5: sqrt[i] = sqrt(a)
    y_sqrt[params.y_sqrt_first + thread_x] = sqrt(a);
    // <golden rounding>:6: neg[i] = neg(a)
    y_neg[params.y_neg_first + thread_x] = -a;
    // <golden rounding>:7: abs[i] = abs(a)
    y_abs[params.y_abs_first + thread_x] = abs(a);
    // <golden rounding>:8: least[i] = min(a, 1 / a)
    least[params.least_first + thread_x] = min_f32(a, 1.0f / a);
}
