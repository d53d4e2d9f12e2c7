// The gate of the feed-forward: output = gate / (1 + exp(-gate)) * up, element by element.
//
//   output [count]   gate [count]   up [count]
//   grid   one thread an element, rounded up to whole blocks
#include "dialect.cuh"

extern "C" __global__ void silu_mul(float* __restrict__ output, const float* __restrict__ gate,
                                    const float* __restrict__ up, unsigned count) {
    const unsigned place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place < count) {
        output[place] = gate[place] / (1.0f + expf(-gate[place])) * up[place];
    }
}
