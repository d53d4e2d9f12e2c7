// A linear map without bias: output[row, column] = sum over k of input[row, k] * weight[column, k].
//
//   output [rows, outputs]   input [rows, inputs]   weight [outputs, inputs], row-major as in checkpoints
//   grid   x: tiles of COLUMNS * WARPS outputs, y: tiles of 8 rows (gemm) or single rows (gemv)
//   block  WARPS warps; each computes COLUMNS outputs of the tile's rows, its lanes share k; no dynamic shared memory
//
// Batch-invariant: a lane adds the products of k = lane, lane + 32, ... in ascending order, then the lanes are added as
// warp_sum does. No tile's shape changes that, so gemv and gemm give the same bits for a row in any company.
// Lanes read neighbouring weights, each weight once a row tile; the inputs are shared by the block's warps.
#include "numbers.cuh"
#include "reduce.cuh"

enum : unsigned {
    WARPS = 4,
    COLUMNS = 4,
    CHUNK = 256, // inputs of a row in shared memory at a time; a multiple of LANES
};

struct Matrix {
    unsigned rows, outputs, inputs;
};

// Copies the inputs from `start` on of ROWS rows, zero where there are none.
template <unsigned ROWS>
static __device__ void load_tile(Shared<float> tile, const float* input, const Matrix& of, unsigned start) {
    for (unsigned place = threadIdx.x; place < ROWS * CHUNK; place += blockDim.x) {
        const unsigned row = blockIdx.y * ROWS + place / CHUNK;
        const unsigned k = start + place % CHUNK;
        const bool exists = row < of.rows && k < of.inputs;
        tile[place] = exists ? input[static_cast<Offset>(row) * of.inputs + k] : 0.0f;
    }
}

// Adds the products of one step of LANES inputs; `k` is this lane's.
template <class Element, unsigned ROWS>
static __device__ void add_products(float (&sums)[ROWS * COLUMNS], Shared<float> tile, const Element* weight,
                                    const Matrix& of, unsigned first_column, unsigned k) {
    float inputs[ROWS];
#pragma unroll
    for (unsigned row = 0; row < ROWS; ++row) {
        inputs[row] = tile[row * CHUNK + k % CHUNK];
    }
#pragma unroll
    for (unsigned place = 0; place < COLUMNS; ++place) {
        const unsigned column = first_column + place;
        const bool exists = column < of.outputs && k < of.inputs;
        const float factor = exists ? widen(weight[static_cast<Offset>(column) * of.inputs + k]) : 0.0f;
#pragma unroll
        for (unsigned row = 0; row < ROWS; ++row) {
            sums[row * COLUMNS + place] = fmaf(inputs[row], factor, sums[row * COLUMNS + place]);
        }
    }
}

template <unsigned ROWS, class Element>
static __device__ void matmul(float* output, const float* input, const Element* weight, const Matrix& of) {
    SHARED(float, tile, ROWS * CHUNK);
    const unsigned lane = threadIdx.x % LANES;
    const unsigned first_column = (blockIdx.x * WARPS + threadIdx.x / LANES) * COLUMNS;

    float sums[ROWS * COLUMNS] = {};
    for (unsigned start = 0; start < of.inputs; start += CHUNK) {
        if (start > 0) {
            __syncthreads(); // every warp is done with the tile before
        }
        load_tile<ROWS>(tile, input, of, start);
        __syncthreads();
        for (unsigned k = start + lane; k < start + CHUNK && k - lane < of.inputs; k += LANES) {
            add_products<Element, ROWS>(sums, tile, weight, of, first_column, k);
        }
    }

    const float sum = warp_sums(sums);
    const unsigned share = LANES / (ROWS * COLUMNS); // lanes that hold the same sum
    const unsigned row = blockIdx.y * ROWS + lane / share / COLUMNS;
    const unsigned column = first_column + lane / share % COLUMNS;
    if (lane % share == 0 && row < of.rows && column < of.outputs) {
        output[static_cast<Offset>(row) * of.outputs + column] = sum;
    }
}

#define MATMUL(name, ROWS, Element)                                                                              \
    extern "C" __global__ void name(float* __restrict__ output, const float* __restrict__ input,                 \
                                    const Element* __restrict__ weight, Matrix of) {                             \
        matmul<ROWS>(output, input, weight, of);                                                                 \
    }

MATMUL(gemv_f32, 1, float)
MATMUL(gemv_bf16, 1, Bf16)
MATMUL(gemv_f16, 1, F16)
MATMUL(gemm_f32, 8, float)
MATMUL(gemm_bf16, 8, Bf16)
MATMUL(gemm_f16, 8, F16)
