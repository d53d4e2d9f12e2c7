// Element-wise minimum of the ranks' vote vectors: output[element] = min over ranks of votes[rank, element].
//
//   output [width]   votes [ranks, width]
//   grid   one block a tile of blockDim.x elements, rounded up
//   block  (elements of a tile, rows that share the ranks); dynamic shared memory: 8 bytes a thread
//
// Threads of a row read neighbouring elements, so that a warp's loads coalesce.
#include "dialect.cuh"

typedef unsigned long long Vote;
enum : Vote { NEUTRAL = ~0ull }; // the vote that changes no minimum

static __device__ Vote lesser(Vote left, Vote right) {
    return right < left ? right : left;
}

// The minimum of one element over the ranks of this thread's row.
static __device__ Vote row_minimum(const Vote* votes, unsigned element, unsigned ranks, unsigned width) {
    Vote minimum = NEUTRAL;
    for (unsigned rank = threadIdx.y; rank < ranks; rank += blockDim.y) {
        minimum = lesser(minimum, votes[static_cast<unsigned long long>(rank) * width + element]);
    }
    return minimum;
}

extern "C" __global__ void vote_min(Vote* __restrict__ output, const Vote* __restrict__ votes, unsigned ranks,
                                    unsigned width) {
    DYNAMIC_SHARED(Vote, minima); // [blockDim.y, blockDim.x]
    const unsigned element = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned own = threadIdx.y * blockDim.x + threadIdx.x;

    // A thread past the last element must not return here: it owes the block the barriers below.
    minima[own] = element < width ? row_minimum(votes, element, ranks, width) : NEUTRAL;

    for (unsigned rows = blockDim.y; rows > 1; rows = (rows + 1) / 2) {
        __syncthreads();
        const unsigned partner = threadIdx.y + (rows + 1) / 2;
        if (partner < rows) {
            minima[own] = lesser(minima[own], minima[partner * blockDim.x + threadIdx.x]);
        }
    }
    if (threadIdx.y == 0 && element < width) {
        output[element] = minima[own];
    }
}
