// Turns the queries and keys of a batch by their positions, and writes keys and values to the cache.
//
//   queries [positions, heads, head_dim], turned in place   keys, values [positions, kv_heads, head_dim]
//   turns   [context, head_dim / 2, 2 (cosine, sine)]       cache and pages: see cache.cuh
//   rows, positions [positions]: whose position each one is, and which
//   grid    one block a position
//   block   any number of threads
//
// Elements i and i + head_dim / 2 of a head turn together, as in Hugging Face's files. A position beyond the context
// makes its queries NaN and is not written, nor is one that no page is listed for.
#include "cache.cuh"

struct Turned {
    float first, second;
};

// The pair at `place` of `head`, turned by the position's angle.
static __device__ Turned turn(const float* head, const float* turns, unsigned place, unsigned half) {
    const float first = head[place], second = head[place + half];
    const float cosine = turns[2 * place], sine = turns[2 * place + 1];
    return {first * cosine - second * sine, second * cosine + first * sine};
}

static __device__ void turn_queries(float* queries, const float* turns, unsigned heads, unsigned half, bool known) {
    for (unsigned pair = threadIdx.x; pair < heads * half; pair += blockDim.x) {
        float* const head = queries + pair / half * 2 * half;
        const unsigned place = pair % half;
        const Turned turned = known ? turn(head, turns, place, half) : Turned{not_a_number(), not_a_number()};
        head[place] = turned.first;
        head[place + half] = turned.second;
    }
}

template <class Element>
static __device__ void append_keys(Element* slot, const float* keys, const float* turns, unsigned kv_heads,
                                   unsigned half) {
    for (unsigned pair = threadIdx.x; pair < kv_heads * half; pair += blockDim.x) {
        const unsigned head = pair / half * 2 * half, place = pair % half;
        const Turned turned = turn(keys + head, turns, place, half);
        slot[head + place] = narrow<Element>(turned.first);
        slot[head + place + half] = narrow<Element>(turned.second);
    }
}

template <class Element>
static __device__ void rope_append(float* queries, Element* cache, const float* keys, const float* values,
                                   const float* turns, const unsigned* rows, const unsigned* positions,
                                   const unsigned* pages, const CacheShape& shape, const PageLists& lists,
                                   unsigned heads, unsigned layer, unsigned context) {
    const unsigned half = shape.head_dim / 2, width = shape.kv_heads * shape.head_dim;
    const unsigned position = positions[blockIdx.x];
    const bool known = position < context;
    const float* const turns_here = turns + static_cast<Offset>(known ? position : 0) * shape.head_dim;
    turn_queries(queries + static_cast<Offset>(blockIdx.x) * heads * shape.head_dim, turns_here, heads, half, known);

    const unsigned page = page_of(pages, lists, shape, rows[blockIdx.x], position);
    if (!known || page >= shape.pages) {
        return;
    }
    const Offset from = static_cast<Offset>(blockIdx.x) * width;
    append_keys(cache + cache_index(shape, layer, KEYS, page, position), keys + from, turns_here, shape.kv_heads, half);
    Element* const slot = cache + cache_index(shape, layer, VALUES, page, position);
    for (unsigned place = threadIdx.x; place < width; place += blockDim.x) {
        slot[place] = narrow<Element>(values[from + place]);
    }
}

#define ROPE_APPEND(name, Element)                                                                               \
    extern "C" __global__ void name(float* __restrict__ queries, Element* __restrict__ cache,                    \
                                    const float* __restrict__ keys, const float* __restrict__ values,            \
                                    const float* __restrict__ turns, const unsigned* __restrict__ rows,          \
                                    const unsigned* __restrict__ positions, const unsigned* __restrict__ pages,  \
                                    CacheShape shape, PageLists lists, unsigned heads, unsigned layer,           \
                                    unsigned context) {                                                          \
        rope_append(queries, cache, keys, values, turns, rows, positions, pages, shape, lists, heads, layer,     \
                    context);                                                                                    \
    }

ROPE_APPEND(rope_append_f32, float)
ROPE_APPEND(rope_append_bf16, Bf16)
