// Root-mean-square normalisation of rows: output = input * weight / sqrt(mean(input^2) + epsilon).
//
//   output [rows, width]   input [rows, width]   weight [width]
//   grid   one block a row
//   block  a multiple of 32 threads, 1024 at most; no dynamic shared memory
//
// The sum's order depends on the block size alone, so equal launches give equal bits.
#include "dialect.cuh"

// The sum of `value` over the warp, in every lane. Each lane adds the same pairs, so all lanes hold the same bits.
static __device__ float warp_sum(float value) {
    for (unsigned distance = LANES / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(EVERY_LANE, value, distance);
    }
    return value;
}

// The sum of `value` over the block, in every thread. Once a kernel: its shared memory is not released by a barrier.
static __device__ float block_sum(float value) {
    __shared__ float warp_sums[LANES];
    const unsigned lane = threadIdx.x % LANES;
    const unsigned warps = blockDim.x / LANES;

    value = warp_sum(value);
    if (lane == 0) {
        warp_sums[threadIdx.x / LANES] = value;
    }
    __syncthreads();
    // Every warp adds the partial sums for itself: cheaper than a second barrier to broadcast one warp's result.
    return warp_sum(lane < warps ? warp_sums[lane] : 0.0f);
}

extern "C" __global__ void rmsnorm(float* __restrict__ output, const float* __restrict__ input,
                                   const float* __restrict__ weight, unsigned width, float epsilon) {
    const unsigned long long row_start = static_cast<unsigned long long>(blockIdx.x) * width;

    float squares = 0.0f;
    for (unsigned column = threadIdx.x; column < width; column += blockDim.x) {
        const float value = input[row_start + column];
        squares += value * value;
    }

    const float scale = rsqrtf(block_sum(squares) / static_cast<float>(width) + epsilon);
    for (unsigned column = threadIdx.x; column < width; column += blockDim.x) {
        output[row_start + column] = input[row_start + column] * scale * weight[column];
    }
}
