struct Params {
    zero: u32,
    folded: u32,
    num_groups_x: u32,
    num_groups_y: u32,
    num_groups_z: u32,
    x_first: i32,
    y_first: i32,
    z_first: i32,
}

@group(0) @binding(0) var<storage, read> params: Params;
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<atomic<u32>>;
@group(0) @binding(3) var<storage, read_write> z: array<atomic<u32>>;

fn load_x(element_number: i32) -> u32 {
    let element_at = u32(params.x_first + element_number);
    return extractBits(x[element_at / 2u], element_at % 2u * 16u, 16u);
}

fn bf16_to_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}

fn f32_to_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x) ^ params.zero;
    let nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return select((bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u, (bits >> 16u) | 64u, nan);
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

fn store_y(element_number: i32, new_value: u32) {
    let element_at = u32(params.y_first + element_number);
    var word_seen = atomicLoad(&y[element_at / 2u]);
    loop {
        let word_new = insertBits(word_seen, new_value, element_at % 2u * 16u, 16u);
        let word_swap = atomicCompareExchangeWeak(&y[element_at / 2u], word_seen, word_new);
        if (word_swap.exchanged) {
            break;
        }
        word_seen = word_swap.old_value;
    }
}

fn store_z(element_number: i32, new_value: u32) {
    let element_at = u32(params.z_first + element_number);
    var word_seen = atomicLoad(&z[element_at / 2u]);
    loop {
        let word_new = insertBits(word_seen, new_value, element_at % 2u * 16u, 16u);
        let word_swap = atomicCompareExchangeWeak(&z[element_at / 2u], word_seen, word_new);
        if (word_swap.exchanged) {
            break;
        }
        word_seen = word_swap.old_value;
    }
}

@compute @workgroup_size(128, 1, 1)
fn halves(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let thread_x = i32(workgroup_id.x) * 128 + i32(local_id.x);
    if (thread_x >= 1000) {
        return;
    }
    // <golden halves>:1: v = x[i] * x[i]
    let v = f32_to_bf16(bf16_to_f32(load_x(thread_x)) * bf16_to_f32(load_x(thread_x)));
    // <golden halves>:2: y[i] = f16(v)
    store_y(thread_x, f32_to_f16(bf16_to_f32(v)));
    // <golden halves>:3: z[i] = v + 1
    store_z(thread_x, f32_to_bf16(bf16_to_f32(v) + 1.0f));
}
