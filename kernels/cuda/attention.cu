// Causal attention of a batch's positions over the paged cache, grouped-query: decode, prefill and chunks of it alike.
//
//   output  [positions, heads, head_dim]   queries of that shape   cache and pages: see cache.cuh
//   rows, positions [positions]: whose position each one is, and which
//   tiles   [tiles + 1] ascending: tile t is the batch's positions tiles[t] .. tiles[t + 1], of one row; one in decode,
//           `tile_limit` at most. A tile that is empty, larger, or beyond the batch is left out
//   grid    x: tiles, y: kv heads. A block serves every query head of its kv head, so each key is read once a tile
//   block   any number of whole warps
//   dynamic shared memory: SPAN * (head_dim + 1) keys, SPAN * head_dim values, then for each of the
//           tile_limit * heads / kv_heads vectors: head_dim query, head_dim sums, SPAN weights and 4 of state; all f32
//
// The softmax is taken online over spans of SPAN keys, at multiples of SPAN from the row's start. A vector's bits are a
// function of its query and its history alone: not of the tile, of the batch, or of whether a position came by prefill.
// A page that is not listed, or beyond the cache, reads as NaN.
#include "cache.cuh"
#include "reduce.cuh"

enum : unsigned { SPAN = LANES }; // keys of a step: one a lane

// The extent of one block's work.
struct Tile {
    const unsigned* positions; // of its queries in their row
    unsigned first, queries;   // positions of the batch
    unsigned row;
    unsigned group;   // query heads of a kv head
    unsigned vectors; // queries * group
};

// Shared memory of a block, in the order of the launch's count.
struct Scratch {
    Shared<float> keys, values, queries, sums, weights;
    Shared<float> total;   // of each vector, the sum of its weights
    Shared<float> decay;   // of each vector, what this step multiplies its older weights by
    Shared<float> highest; // twice of each vector, its largest score: before this step and after it, by turns
};

static __device__ Scratch divide(Shared<float> all, unsigned vectors, unsigned head_dim) {
    // Keys are head_dim + 1 apart, so that a key a lane is a bank a lane.
    const Shared<float> values = all + SPAN * (head_dim + 1);
    const Shared<float> queries = values + SPAN * head_dim;
    const Shared<float> sums = queries + vectors * head_dim;
    const Shared<float> weights = sums + vectors * head_dim;
    const Shared<float> state = weights + vectors * SPAN;
    return {all, values, queries, sums, weights, state, state + vectors, state + 2 * vectors};
}

// Where a vector's elements are in queries and output.
static __device__ Offset vector_index(const Tile& tile, const CacheShape& shape, unsigned vector) {
    const Offset position = tile.first + vector / tile.group;
    const unsigned head = blockIdx.y * tile.group + vector % tile.group;
    return (position * shape.kv_heads * tile.group + head) * shape.head_dim;
}

static __device__ void begin(const Scratch& scratch, const float* queries, const Tile& tile, const CacheShape& shape) {
    for (unsigned place = threadIdx.x; place < tile.vectors * shape.head_dim; place += blockDim.x) {
        const unsigned vector = place / shape.head_dim;
        scratch.queries[place] = queries[vector_index(tile, shape, vector) + place % shape.head_dim];
        scratch.sums[place] = 0.0f;
    }
    for (unsigned vector = threadIdx.x; vector < tile.vectors; vector += blockDim.x) {
        scratch.highest[vector] = negative_infinity();
        scratch.total[vector] = 0.0f;
    }
}

// Copies the keys and values of positions start .. end, a warp a position.
template <class Element>
static __device__ void load_span(const Scratch& scratch, const Paged<const Element>& paged, const Tile& tile,
                                 unsigned start, unsigned end) {
    const unsigned warps = blockDim.x / LANES, lane = threadIdx.x % LANES, head_dim = paged.shape.head_dim;
    for (unsigned position = start + threadIdx.x / LANES; position < end; position += warps) {
        const unsigned page = page_of(paged, tile.row, position);
        const unsigned key = position - start, head = blockIdx.y * head_dim;
        const bool exists = page < paged.shape.pages;
        const Element* const keys = exists ? slot_of(paged, KEYS, page, position) + head : nullptr;
        const Element* const values = exists ? slot_of(paged, VALUES, page, position) + head : nullptr;
        for (unsigned place = lane; place < head_dim; place += LANES) {
            scratch.keys[key * (head_dim + 1) + place] = exists ? widen(keys[place]) : not_a_number();
            scratch.values[key * head_dim + place] = exists ? widen(values[place]) : not_a_number();
        }
    }
}

// Turns the scores of one span into weights relative to the highest score so far; one warp a vector, one key a lane.
static __device__ void weigh(const Scratch& scratch, const Tile& tile, unsigned head_dim, unsigned start,
                             unsigned end) {
    const unsigned warps = blockDim.x / LANES, lane = threadIdx.x % LANES;
    const bool odd = start / SPAN % 2;
    const Shared<float> highest_before = scratch.highest + (odd ? tile.vectors : 0);
    const Shared<float> highest_after = scratch.highest + (odd ? 0 : tile.vectors);
    const float scale = 1.0f / sqrtf(static_cast<float>(head_dim));
    for (unsigned vector = threadIdx.x / LANES; vector < tile.vectors; vector += warps) {
        const unsigned key = start + lane;
        const bool visible = key < end && key <= tile.positions[vector / tile.group];
        float product = 0.0f;
        for (unsigned place = 0; visible && place < head_dim; ++place) {
            product = fmaf(scratch.queries[vector * head_dim + place], scratch.keys[lane * (head_dim + 1) + place],
                           product);
        }
        const float score = visible ? product * scale : negative_infinity();
        const float before = highest_before[vector];
        const float highest = fmaxf(before, warp_max(score));
        const float weight = expf(score - highest);
        const float total = warp_sum(weight);
        scratch.weights[vector * SPAN + lane] = weight;
        if (lane == 0) {
            const float decay = expf(before - highest);
            highest_after[vector] = highest;
            scratch.decay[vector] = decay;
            scratch.total[vector] = fmaf(scratch.total[vector], decay, total);
        }
    }
}

// Adds the span's values to every vector's sums, in the order of the keys; one thread an element.
static __device__ void accumulate(const Scratch& scratch, const Tile& tile, unsigned head_dim, unsigned start,
                                  unsigned end) {
    for (unsigned place = threadIdx.x; place < tile.vectors * head_dim; place += blockDim.x) {
        const unsigned vector = place / head_dim, element = place % head_dim;
        const unsigned position = tile.positions[vector / tile.group];
        float sum = scratch.sums[place] * scratch.decay[vector];
        // Not past the position: a weight of 0 would not make up for a value that is NaN.
        for (unsigned key = 0; start + key < end && start + key <= position; ++key) {
            sum = fmaf(scratch.weights[vector * SPAN + key], scratch.values[key * head_dim + element], sum);
        }
        scratch.sums[place] = sum;
    }
}

static __device__ void finish(const Scratch& scratch, float* output, const Tile& tile, const CacheShape& shape) {
    for (unsigned place = threadIdx.x; place < tile.vectors * shape.head_dim; place += blockDim.x) {
        const unsigned vector = place / shape.head_dim;
        const Offset index = vector_index(tile, shape, vector) + place % shape.head_dim;
        output[index] = scratch.sums[place] / scratch.total[vector];
    }
}

// The positions that the tile's queries see together: but one that is not listed, whose NaN is enough.
static __device__ unsigned longest_history(const Tile& tile, Offset listed) {
    unsigned last = 0;
    for (unsigned query = 0; query < tile.queries; ++query) {
        last = tile.positions[query] > last ? tile.positions[query] : last;
    }
    return (last < listed ? last : static_cast<unsigned>(listed)) + 1;
}

template <class Element>
static __device__ void attend(float* output, const float* queries, const Paged<const Element>& paged,
                              const Tile& tile) {
    DYNAMIC_SHARED(float, all);
    const unsigned head_dim = paged.shape.head_dim;
    const Scratch scratch = divide(all, tile.vectors, head_dim);
    const unsigned history = longest_history(tile, static_cast<Offset>(paged.lists.length) * paged.shape.page_size);

    begin(scratch, queries, tile, paged.shape);
    for (unsigned start = 0; start < history; start += SPAN) {
        const unsigned end = history - start < SPAN ? history : start + SPAN;
        load_span(scratch, paged, tile, start, end);
        __syncthreads();
        weigh(scratch, tile, head_dim, start, end);
        __syncthreads();
        accumulate(scratch, tile, head_dim, start, end);
        __syncthreads();
    }
    finish(scratch, output, tile, paged.shape);
}

struct Tiling {
    unsigned positions, tile_limit, group;
};

#define ATTENTION(name, Element)                                                                                 \
    extern "C" __global__ void name(float* __restrict__ output, const float* __restrict__ queries,               \
                                    const Element* __restrict__ cache, const unsigned* __restrict__ pages,       \
                                    const unsigned* __restrict__ rows, const unsigned* __restrict__ positions,   \
                                    const unsigned* __restrict__ tiles, CacheShape shape, PageLists lists,       \
                                    Tiling tiling, unsigned layer) {                                             \
        const unsigned first = tiles[blockIdx.x], end = tiles[blockIdx.x + 1];                                   \
        /* The whole block leaves: no barrier waits for it. */                                                   \
        if (end > tiling.positions || first >= end || end - first > tiling.tile_limit) {                         \
            return;                                                                                              \
        }                                                                                                        \
        const unsigned count = end - first;                                                                      \
        const Tile tile = {positions + first, first, count, rows[first], tiling.group, count * tiling.group};    \
        attend(output, queries, Paged<const Element>{cache, pages, shape, lists, layer}, tile);                  \
    }

ATTENTION(attention_f32, float)
ATTENTION(attention_bf16, Bf16)
