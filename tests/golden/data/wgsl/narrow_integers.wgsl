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
@group(0) @binding(1) var<storage, read> x: array<u32>;
@group(0) @binding(2) var<storage, read_write> y: array<atomic<u32>>;

fn load_x(element_number: i32) -> i32 {
    let element_at = u32(params.x_first + element_number);
    return extractBits(bitcast<i32>(x[element_at / 4u]), element_at % 4u * 8u, 8u);
}

fn store_y(element_number: i32, new_value: u32) {
    let element_at = u32(params.y_first + element_number);
    var word_seen = atomicLoad(&y[element_at / 4u]);
    loop {
        let word_new = insertBits(word_seen, new_value, element_at % 4u * 8u, 8u);
        let word_swap = atomicCompareExchangeWeak(&y[element_at / 4u], word_seen, word_new);
        if (word_swap.exchanged) {
            break;
        }
        word_seen = word_swap.old_value;
    }
}

@compute @workgroup_size(128, 1, 1)
fn narrow_integers(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
) {
    let thread_x = i32(workgroup_id.x) * 128 + i32(local_id.x);
    if (thread_x >= 300) {
        return;
    }
    let a = load_x(thread_x);
    // <golden narrow_integers>:1: y[i] = u8(popcount(a) + clz(a)) >> 1
    store_y(thread_x, extractBits(u32(countOneBits(a & 0xff) + (countLeadingZeros(a & 0xff) - 24)), 0u, 8u) >> 1u);
}
