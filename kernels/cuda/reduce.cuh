// Reductions over a warp and over a block. Their order is a function of the block's size alone: equal inputs give equal
// bits, whatever else the launch computes.
#pragma once
#include "dialect.cuh"

// The sum of `value` over the warp, in every lane. Each lane adds the same pairs, so all lanes hold the same bits.
static __device__ float warp_sum(float value) {
    for (unsigned distance = LANES / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(EVERY_LANE, value, distance);
    }
    return value;
}

// The largest `value` of the warp, in every lane; a NaN loses against any number.
static __device__ float warp_max(float value) {
    for (unsigned distance = LANES / 2; distance > 0; distance /= 2) {
        value = fmaxf(value, __shfl_xor_sync(EVERY_LANE, value, distance));
    }
    return value;
}

// The steps of warp_sums from DISTANCE down, while a lane holds the first HELD of its values. Recursive, so that every
// index is a constant and the values stay in registers.
template <unsigned DISTANCE, unsigned HELD, unsigned COUNT>
static __device__ void warp_sums_step(float (&values)[COUNT]) {
    constexpr unsigned kept_values = HELD > 1 ? HELD / 2 : 1;
    const bool upper = HELD > 1 && threadIdx.x & DISTANCE;
#pragma unroll
    for (unsigned place = 0; place < kept_values; ++place) {
        const unsigned other = place + HELD / 2;
        const float given = HELD > 1 && !upper ? values[other] : values[place];
        const float kept = upper ? values[other] : values[place];
        values[place] = kept + __shfl_xor_sync(EVERY_LANE, given, DISTANCE);
    }
    if constexpr (DISTANCE > 1) {
        warp_sums_step<DISTANCE / 2, kept_values>(values);
    }
}

// The sums over the warp of COUNT values, a power of two up to LANES; lane l gets that of value l / (LANES / COUNT).
//
// Every step pairs the lanes as warp_sum does, so a sum's bits do not depend on COUNT. But while a lane holds several
// values it gives half of them away and sums the other half: COUNT sums for hardly more exchanges than one.
template <unsigned COUNT> static __device__ float warp_sums(float (&values)[COUNT]) {
    warp_sums_step<LANES / 2, COUNT>(values);
    return values[0];
}

// The sum of `value` over a block of whole warps, in every thread. Once a kernel: no barrier releases its array.
static __device__ float block_sum(float value) {
    SHARED(float, partial_sums, LANES);
    const unsigned lane = threadIdx.x % LANES;
    const unsigned warps = blockDim.x / LANES;

    value = warp_sum(value);
    if (lane == 0) {
        partial_sums[threadIdx.x / LANES] = value;
    }
    __syncthreads();
    // Every warp adds the partial sums for itself: cheaper than a second barrier to broadcast one warp's result.
    return warp_sum(lane < warps ? static_cast<float>(partial_sums[lane]) : 0.0f);
}
