struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    x_first: i32,
    to_bool_first: i32,
    to_i8_first: i32,
    to_i64_first: i32,
    to_u32_first: i32,
    to_f16_first: i32,
    to_bf16_first: i32,
    to_f32_first: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f64>;
@group(0) @binding(2) var<storage, read_write> to_bool: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> to_i8: array<atomic<u32>>;
@group(0) @binding(4) var<storage, read_write> to_i64: array<i64>;
@group(0) @binding(5) var<storage, read_write> to_u32: array<u32>;
@group(0) @binding(6) var<storage, read_write> to_f16: array<atomic<u32>>;
@group(0) @binding(7) var<storage, read_write> to_bf16: array<atomic<u32>>;
@group(0) @binding(8) var<storage, read_write> to_f32: array<f32>;

fn store_to_bool(element_number: i32, new_value: bool) {
    let element_at = u32(params.to_bool_first + element_number);
    var word_seen = atomicLoad(&to_bool[element_at / 4u]);
    loop {
        let word_new = insertBits(word_seen, u32(new_value), element_at % 4u * 8u, 8u);
        let word_swap = atomicCompareExchangeWeak(&to_bool[element_at / 4u], word_seen, word_new);
        if (word_swap.exchanged) {
            break;
        }
        word_seen = word_swap.old_value;
    }
}

fn is_nan_f64(x: f64) -> bool {
    return ((bitcast<u64>(x) ^ (u64(params.zero) * 0x100000001lu)) & 0x7ffffffffffffffflu) > 0x7ff0000000000000lu;
}

fn f64_to_i8(x: f64) -> i32 {
    if (is_nan_f64(x)) {
        return 0;
    }
    if (x <= -128.0lf) {
        return -128;
    }
    if (x >= 127.0lf) {
        return 127;
    }
    return i32(x);
}

fn store_to_i8(element_number: i32, new_value: i32) {
    let element_at = u32(params.to_i8_first + element_number);
    var word_seen = atomicLoad(&to_i8[element_at / 4u]);
    loop {
        let word_new = insertBits(word_seen, u32(new_value), element_at % 4u * 8u, 8u);
        let word_swap = atomicCompareExchangeWeak(&to_i8[element_at / 4u], word_seen, word_new);
        if (word_swap.exchanged) {
            break;
        }
        word_seen = word_swap.old_value;
    }
}

fn f64_to_i64(x: f64) -> i64 {
    if (is_nan_f64(x)) {
        return 0li;
    }
    if (x <= -9.223372036854776e+18lf) {
        return (-9223372036854775807li - 1li);
    }
    if (x >= 9.223372036854776e+18lf) {
        return 9223372036854775807li;
    }
    return i64(x);
}

fn f64_to_u32(x: f64) -> u32 {
    if (is_nan_f64(x)) {
        return 0u;
    }
    if (x <= 0.0lf) {
        return 0u;
    }
    if (x >= 4294967295.0lf) {
        return 4294967295u;
    }
    return u32(x);
}

// To f32 so that a second rounding is right: the bits past those that it holds are gathered in its last one.
fn f64_to_odd(x: f64) -> f32 {
    let bits = bitcast<u64>(x) ^ (u64(params.zero) * 0x100000001lu);
    let lost = u32(clamp(926 - i32((bits >> 52u) & 0x7fflu), 29, 45));
    let mask = (1lu << lost) - 1lu;
    return f32(bitcast<f64>((bits & ~mask) | select(0lu, mask + 1lu, (bits & mask) != 0lu)));
}

fn f32_to_f16(x: f32) -> u32 {
    let bits = bitcast<u32>(x) ^ params.zero;
    let sign = (bits >> 16u) & 0x8000u;
    let size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) {
        return sign | 0x7e00u;
    }
    if (size >= 0x47800000u) {
        return sign | 0x7c00u;
    }
    if (size >= 0x38800000u) {
        return sign | ((size + 0xfffu + ((size >> 13u) & 1u) - 0x38000000u) >> 13u);
    }
    let drop = 126u - max(size >> 23u, 101u);
    let mantissa = (size & 0x7fffffu) | 0x800000u;
    let kept = mantissa >> drop;
    let rest = mantissa & ((1u << drop) - 1u);
    let half = 1u << (drop - 1u);
    let up = rest > half || (rest == half && (kept & 1u) == 1u);
    return sign | select(0u, kept + u32(up), size >= 0x33000000u);
}

fn store_to_f16(element_number: i32, new_value: u32) {
    let element_at = u32(params.to_f16_first + element_number);
    var word_seen = atomicLoad(&to_f16[element_at / 2u]);
    loop {
        let word_new = insertBits(word_seen, new_value, element_at % 2u * 16u, 16u);
        let word_swap = atomicCompareExchangeWeak(&to_f16[element_at / 2u], word_seen, word_new);
        if (word_swap.exchanged) {
            break;
        }
        word_seen = word_swap.old_value;
    }
}

fn f32_to_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x) ^ params.zero;
    let nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return select((bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u, (bits >> 16u) | 64u, nan);
}

fn store_to_bf16(element_number: i32, new_value: u32) {
    let element_at = u32(params.to_bf16_first + element_number);
    var word_seen = atomicLoad(&to_bf16[element_at / 2u]);
    loop {
        let word_new = insertBits(word_seen, new_value, element_at % 2u * 16u, 16u);
        let word_swap = atomicCompareExchangeWeak(&to_bf16[element_at / 2u], word_seen, word_new);
        if (word_swap.exchanged) {
            break;
        }
        word_seen = word_swap.old_value;
    }
}

@compute @workgroup_size(128, 1, 1)
fn casts(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let thread_x = i32(workgroup_id.x) * 128 + i32(local_id.x);
    if (thread_x >= 256) {
        return;
    }
    let a = x[params.x_first + thread_x];
    // <golden casts>:1: to_bool[i] = bool(a)
    store_to_bool(thread_x, !(a == 0.0lf));
    // <golden casts>:2: to_i8[i] = i8(a)
    store_to_i8(thread_x, f64_to_i8(a));
    // <golden casts>:3: to_i64[i] = i64(a)
    to_i64[params.to_i64_first + thread_x] = f64_to_i64(a);
    // <golden casts>:4: to_u32[i] = u32(a)
    to_u32[params.to_u32_first + thread_x] = f64_to_u32(a);
    // <golden casts>:5: to_f16[i] = f16(a)
    store_to_f16(thread_x, f32_to_f16(f64_to_odd(a)));
    // <golden casts>:6: to_bf16[i] = bf16(a)
    store_to_bf16(thread_x, f32_to_bf16(f64_to_odd(a)));
    // <golden casts>:7: to_f32[i] = f32(a)
    to_f32[params.to_f32_first + thread_x] = f32(a);
}
