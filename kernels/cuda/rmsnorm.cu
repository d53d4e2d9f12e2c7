// Root-mean-square normalisation of rows: output = input * weight / sqrt(mean(input^2) + epsilon).
//
//   output [rows, width]   input [rows, width]   weight [width]
//   grid   one block a row
//   block  a multiple of 32 threads, 1024 at most; no dynamic shared memory
//
// add_rmsnorm first adds a summand of the rows' shape to the residual stream `hidden`, and normalises the sum.
#include "numbers.cuh"
#include "reduce.cuh"

template <class Element>
static __device__ void normalise(float* output, const float* input, const Element* weight, unsigned width,
                                 float squares, float epsilon) {
    const float mean_square = block_sum(squares) / static_cast<float>(width);
    // Not rsqrtf, which may differ in its last bit from device to device: ranks must agree on the logits.
    const float inverse = 1.0f / sqrtf(mean_square + epsilon);
    for (unsigned column = threadIdx.x; column < width; column += blockDim.x) {
        output[column] = input[column] * inverse * widen(weight[column]);
    }
}

template <class Element>
static __device__ void rmsnorm(float* output, const float* input, const Element* weight, unsigned width,
                               float epsilon) {
    const Offset row = static_cast<Offset>(blockIdx.x) * width;
    float squares = 0.0f;
    for (unsigned column = threadIdx.x; column < width; column += blockDim.x) {
        const float value = input[row + column];
        squares = fmaf(value, value, squares);
    }
    normalise(output + row, input + row, weight, width, squares, epsilon);
}

template <class Element>
static __device__ void add_rmsnorm(float* output, float* hidden, const float* summand, const Element* weight,
                                   unsigned width, float epsilon) {
    const Offset row = static_cast<Offset>(blockIdx.x) * width;
    float squares = 0.0f;
    // Each thread normalises the columns that it added itself: no barrier is needed for `hidden`.
    for (unsigned column = threadIdx.x; column < width; column += blockDim.x) {
        const float value = hidden[row + column] + summand[row + column];
        hidden[row + column] = value;
        squares = fmaf(value, value, squares);
    }
    normalise(output + row, hidden + row, weight, width, squares, epsilon);
}

#define RMSNORM(name, Element)                                                                                  \
    extern "C" __global__ void name(float* __restrict__ output, const float* __restrict__ input,                \
                                    const Element* __restrict__ weight, unsigned width, float epsilon) {        \
        rmsnorm(output, input, weight, width, epsilon);                                                         \
    }

#define ADD_RMSNORM(name, Element)                                                                              \
    extern "C" __global__ void name(float* __restrict__ output, float* __restrict__ hidden,                     \
                                    const float* __restrict__ summand, const Element* __restrict__ weight,      \
                                    unsigned width, float epsilon) {                                            \
        add_rmsnorm(output, hidden, summand, weight, width, epsilon);                                           \
    }

RMSNORM(rmsnorm_f32, float)
RMSNORM(rmsnorm_bf16, Bf16)
RMSNORM(rmsnorm_f16, F16)
ADD_RMSNORM(add_rmsnorm_f32, float)
ADD_RMSNORM(add_rmsnorm_bf16, Bf16)
ADD_RMSNORM(add_rmsnorm_f16, F16)
