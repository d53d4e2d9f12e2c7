// Rows of a table: the embeddings of tokens, and the last positions of a batch.
//
//   output [rows, width] f32   table [entries, width]   indices [rows]
//   grid   one block a row
//   block  any number of threads
//
// An index beyond the table gives a row of NaN.
#include "numbers.cuh"

template <class Element>
static __device__ void gather_rows(float* output, const Element* table, const unsigned* indices, unsigned entries,
                                   unsigned width) {
    const unsigned index = indices[blockIdx.x];
    const Offset to = static_cast<Offset>(blockIdx.x) * width;
    const Offset from = static_cast<Offset>(index) * width;
    for (unsigned column = threadIdx.x; column < width; column += blockDim.x) {
        output[to + column] = index < entries ? widen(table[from + column]) : not_a_number();
    }
}

#define GATHER_ROWS(name, Element)                                                                               \
    extern "C" __global__ void name(float* __restrict__ output, const Element* __restrict__ table,               \
                                    const unsigned* __restrict__ indices, unsigned entries, unsigned width) {    \
        gather_rows(output, table, indices, entries, width);                                                     \
    }

GATHER_ROWS(gather_rows_f32, float)
GATHER_ROWS(gather_rows_bf16, Bf16)
GATHER_ROWS(gather_rows_f16, F16)
