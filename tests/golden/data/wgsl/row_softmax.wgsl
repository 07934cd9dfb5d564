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

var<workgroup> scratch_f32: array<f32, 256>;

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

fn group_max_f32(value: f32, lane: u32) -> f32 {
    scratch_f32[lane] = value;
    workgroupBarrier();
    if (lane < 128u) {
        scratch_f32[lane] = max_f32(scratch_f32[lane], scratch_f32[lane + 128u]);
    }
    workgroupBarrier();
    if (lane < 64u) {
        scratch_f32[lane] = max_f32(scratch_f32[lane], scratch_f32[lane + 64u]);
    }
    workgroupBarrier();
    if (lane < 32u) {
        scratch_f32[lane] = max_f32(scratch_f32[lane], scratch_f32[lane + 32u]);
    }
    workgroupBarrier();
    if (lane < 16u) {
        scratch_f32[lane] = max_f32(scratch_f32[lane], scratch_f32[lane + 16u]);
    }
    workgroupBarrier();
    if (lane < 8u) {
        scratch_f32[lane] = max_f32(scratch_f32[lane], scratch_f32[lane + 8u]);
    }
    workgroupBarrier();
    if (lane < 4u) {
        scratch_f32[lane] = max_f32(scratch_f32[lane], scratch_f32[lane + 4u]);
    }
    workgroupBarrier();
    if (lane < 2u) {
        scratch_f32[lane] = max_f32(scratch_f32[lane], scratch_f32[lane + 2u]);
    }
    workgroupBarrier();
    if (lane < 1u) {
        scratch_f32[lane] = max_f32(scratch_f32[lane], scratch_f32[lane + 1u]);
    }
    workgroupBarrier();
    let result = scratch_f32[0];
    workgroupBarrier();
    return result;
}

// The value itself, in a form that the compiler cannot simplify together with its surroundings.
fn fence_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ params.zero);
}

// A comparison that is not turned round where a branch negates it: that would be wrong for NaN.
fn holds(comparison: bool) -> bool {
    return select(0u, 1u, comparison) != params.zero;
}

// The value itself, which the compiler cannot know to be one that it meets, be that fenced or not.
fn apart_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) + params.zero);
}

fn group_sum_f32(value: f32, lane: u32) -> f32 {
    scratch_f32[lane] = value;
    workgroupBarrier();
    if (lane < 128u) {
        scratch_f32[lane] = scratch_f32[lane] + scratch_f32[lane + 128u];
    }
    workgroupBarrier();
    if (lane < 64u) {
        scratch_f32[lane] = scratch_f32[lane] + scratch_f32[lane + 64u];
    }
    workgroupBarrier();
    if (lane < 32u) {
        scratch_f32[lane] = scratch_f32[lane] + scratch_f32[lane + 32u];
    }
    workgroupBarrier();
    if (lane < 16u) {
        scratch_f32[lane] = scratch_f32[lane] + scratch_f32[lane + 16u];
    }
    workgroupBarrier();
    if (lane < 8u) {
        scratch_f32[lane] = scratch_f32[lane] + scratch_f32[lane + 8u];
    }
    workgroupBarrier();
    if (lane < 4u) {
        scratch_f32[lane] = scratch_f32[lane] + scratch_f32[lane + 4u];
    }
    workgroupBarrier();
    if (lane < 2u) {
        scratch_f32[lane] = scratch_f32[lane] + scratch_f32[lane + 2u];
    }
    workgroupBarrier();
    if (lane < 1u) {
        scratch_f32[lane] = scratch_f32[lane] + scratch_f32[lane + 1u];
    }
    workgroupBarrier();
    let result = scratch_f32[0];
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

@compute @workgroup_size(256, 1, 1)
fn row_softmax(
    @builtin(workgroup_id) workgroup_id: vec3<u32>,
    @builtin(num_workgroups) num_workgroups: vec3<u32>,
    @builtin(local_invocation_id) local_id: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let zero = bitcast<f32>(params.zero);
    let group = launch_group(workgroup_id, num_workgroups);
    if (group.z >= params.num_groups_z) {
        return;
    }
    let group_x = i32(group.x);
    let local_x = i32(local_id.x);
    var top = bitcast<f32>(0xff800000u ^ params.zero);
    // <golden row_softmax>:1: for k0 in range(0, 1024, 256): top = max(top, x[row, k0 + lane])
    for (var k0 = 0; k0 < 1024; k0 += 256) {
        top = max_f32(top, x[params.x_first + (group_x * 1024 + (k0 + local_x))]);
    }
    // <golden row_softmax>:2: top = group_max(top)
    let whole = group_max_f32(top, lane);
    var total = zero;
    // <golden row_softmax>:3: for k0 in range(0, 1024, 256): total += exp(x[row, k0 + lane] - top)
    for (var k0_1 = 0; k0_1 < 1024; k0_1 += 256) {
        let exp_of = x[params.x_first + (group_x * 1024 + (k0_1 + local_x))] - whole;
        let exp_x = select(apart_f32(exp_of), 89.0f, fence_f32(exp_of) > 89.0f);
        let exp_x_1 = select(apart_f32(exp_x), -104.0f, fence_f32(exp_x) < -104.0f);
        let exp_n = round(exp_x_1 * 1.442695f);
        let exp_r = fence_f32(fence_f32(exp_x_1) - fence_f32(exp_n * 0.69314575f)) - fence_f32(exp_n * 1.4286068e-06f);
        let exp_p = fence_f32(fence_f32((fence_f32((fence_f32((fence_f32((fence_f32(exp_r * 0.0013820329f) + 0.008368691f) * exp_r) + 0.041668274f) * exp_r) + 0.16666521f) * exp_r) + 0.49999994f) * fence_f32(exp_r * exp_r)) + fence_f32(exp_r)) + 1.0f;
        let exp_whole = bitcast<i32>(fence_f32(exp_n + 1.2582912e+07f));
        let exp_half = exp_whole >> 1u;
        total = total + fence_f32(fence_f32(exp_p * bitcast<f32>((exp_half << 23u) + 1065353216)) * bitcast<f32>(((exp_whole - exp_half) << 23u) + 1065353216));
    }
    // <golden row_softmax>:4: total = group_sum(total)
    let divisor = group_sum_f32(total, lane);
    // <golden row_softmax>:5: for k0 in range(0, 1024, 256): y[row, k0 + lane] = exp(x[row, k0 + lane] - top) / total
    for (var k0_2 = 0; k0_2 < 1024; k0_2 += 256) {
        let exp_of_1 = x[params.x_first + (group_x * 1024 + (k0_2 + local_x))] - whole;
        let exp_x_2 = select(apart_f32(exp_of_1), 89.0f, fence_f32(exp_of_1) > 89.0f);
        let exp_x_3 = select(apart_f32(exp_x_2), -104.0f, fence_f32(exp_x_2) < -104.0f);
        let exp_n_1 = round(exp_x_3 * 1.442695f);
        let exp_r_1 = fence_f32(fence_f32(exp_x_3) - fence_f32(exp_n_1 * 0.69314575f)) - fence_f32(exp_n_1 * 1.4286068e-06f);
        let exp_p_1 = fence_f32(fence_f32((fence_f32((fence_f32((fence_f32((fence_f32(exp_r_1 * 0.0013820329f) + 0.008368691f) * exp_r_1) + 0.041668274f) * exp_r_1) + 0.16666521f) * exp_r_1) + 0.49999994f) * fence_f32(exp_r_1 * exp_r_1)) + fence_f32(exp_r_1)) + 1.0f;
        let exp_whole_1 = bitcast<i32>(fence_f32(exp_n_1 + 1.2582912e+07f));
        let exp_half_1 = exp_whole_1 >> 1u;
        y[params.y_first + (group_x * 1024 + (k0_2 + local_x))] = fence_f32(fence_f32(exp_p_1 * bitcast<f32>((exp_half_1 << 23u) + 1065353216)) * bitcast<f32>(((exp_whole_1 - exp_half_1) << 23u) + 1065353216)) / divisor;
    }
}
