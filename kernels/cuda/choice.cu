// The next tokens: argmax or sampling over a vocabulary that the ranks share out.
//
// A token's bid is 64 bits that order as tokens are preferred: the least has the highest value and, among equal ones,
// the lowest token. So the ranks' choices combine by the same element-wise minimum as their votes (vote_min).
//
//   argmax         bids [rows]   logits [rows, width] of tokens first_token ..           grid: one block a row
//   sample         likewise, of logit / temperature + Gumbel noise: a token's chance is its softmax. Rows have each their
//                  own seed and temperature; at a temperature of 0 a row is argmax's
//   chosen_tokens  tokens [rows]   bids [rows]                                            grid: one thread a row
//   follow_tokens  tokens [rows]   chosen [choices]   follows [rows]: the choice that each row goes on from; a row whose
//                  number is beyond the choices keeps its token                           grid: one thread a row
//
// argmax and sample take blocks of whole warps. A row with a logit that is not finite bids 0, which wins every minimum
// and is chosen as the token ~0. The noise is a function of the row's seed and of the token, not of the token's rank.
#include "numbers.cuh"

typedef unsigned long long Bid;

enum : Bid { NOT_FINITE = 0, NO_BID = ~0ull };

static __device__ Bid better(Bid left, Bid right) {
    return right < left ? right : left;
}

static __device__ Bid bid_of(float value, unsigned token) {
    // Adding zero makes -0 the 0 that it equals.
    const unsigned bits = __float_as_uint(value + 0.0f);
    const unsigned ascending = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
    return finite ? static_cast<Bid>(~ascending) << 32 | token : static_cast<Bid>(NOT_FINITE);
}

// The smallest bid of a block of whole warps, in its first thread. Once a kernel.
static __device__ Bid block_minimum(Bid bid) {
    SHARED(Bid, minima, LANES);
    const unsigned lane = threadIdx.x % LANES, warps = blockDim.x / LANES;
    for (unsigned distance = LANES / 2; distance > 0; distance /= 2) {
        bid = better(bid, __shfl_xor_sync(EVERY_LANE, bid, distance));
    }
    if (lane == 0) {
        minima[threadIdx.x / LANES] = bid;
    }
    __syncthreads();
    for (unsigned warp = 0; threadIdx.x == 0 && warp < warps; ++warp) {
        bid = better(bid, minima[warp]);
    }
    return bid;
}

extern "C" __global__ void argmax(Bid* __restrict__ bids, const float* __restrict__ logits, unsigned width,
                                  unsigned first_token) {
    Bid best = NO_BID;
    const float* const row = logits + static_cast<Offset>(blockIdx.x) * width;
    for (unsigned column = threadIdx.x; column < width; column += blockDim.x) {
        best = better(best, bid_of(row[column], first_token + column));
    }
    best = block_minimum(best);
    if (threadIdx.x == 0) {
        bids[blockIdx.x] = best;
    }
}

// The splitmix64 mixing of a row's seed and a token.
static __device__ unsigned long long mixed(unsigned long long seed, unsigned token) {
    unsigned long long word = seed + 0x9e3779b97f4a7c15ull * (token + 1ull);
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ word >> 27) * 0x94d049bb133111ebull;
    return word ^ word >> 31;
}

// Gumbel's noise from 23 random bits, taken half a step up so that neither logarithm is of 0 or 1.
static __device__ float gumbel(unsigned long long word) {
    const float uniform = (static_cast<float>(word >> 41) + 0.5f) * 0x1p-23f;
    return -logf(-logf(uniform));
}

extern "C" __global__ void sample(Bid* __restrict__ bids, const float* __restrict__ logits,
                                  const unsigned long long* __restrict__ seeds,
                                  const float* __restrict__ temperatures, unsigned width, unsigned first_token) {
    Bid best = NO_BID;
    const float* const row = logits + static_cast<Offset>(blockIdx.x) * width;
    const float temperature = temperatures[blockIdx.x];
    for (unsigned column = threadIdx.x; column < width; column += blockDim.x) {
        const unsigned token = first_token + column;
        float value = row[column];
        if (temperature > 0.0f) {
            value = value / temperature + gumbel(mixed(seeds[blockIdx.x], token));
        }
        best = better(best, bid_of(value, token));
    }
    best = block_minimum(best);
    if (threadIdx.x == 0) {
        bids[blockIdx.x] = best;
    }
}

extern "C" __global__ void chosen_tokens(unsigned* __restrict__ tokens, const Bid* __restrict__ bids, unsigned rows) {
    const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        tokens[row] = bids[row] == NOT_FINITE ? ~0u : static_cast<unsigned>(bids[row]);
    }
}

extern "C" __global__ void follow_tokens(unsigned* __restrict__ tokens, const unsigned* __restrict__ chosen,
                                         const unsigned* __restrict__ follows, unsigned rows, unsigned choices) {
    const unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows && follows[row] < choices) {
        tokens[row] = chosen[follows[row]];
    }
}
