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

// What one position's block works on.
struct Position {
    float* queries;
    const float *keys, *values;
    const float* turns; // of the position; null if it is beyond the context
    unsigned heads, kv_heads, half;
};

struct Turned {
    float first, second;
};

// The pair at `place` of `head`, turned by the position's angle.
static __device__ Turned turn(const float* head, const Position& of, unsigned place) {
    const float first = head[place], second = head[place + of.half];
    const float cosine = of.turns[2 * place], sine = of.turns[2 * place + 1];
    return {first * cosine - second * sine, second * cosine + first * sine};
}

static __device__ void turn_queries(const Position& of) {
    for (unsigned pair = threadIdx.x; pair < of.heads * of.half; pair += blockDim.x) {
        float* const head = of.queries + pair / of.half * 2 * of.half;
        const unsigned place = pair % of.half;
        const Turned turned = of.turns ? turn(head, of, place) : Turned{not_a_number(), not_a_number()};
        head[place] = turned.first;
        head[place + of.half] = turned.second;
    }
}

template <class Element> static __device__ void append_keys(Element* slot, const Position& of) {
    for (unsigned pair = threadIdx.x; pair < of.kv_heads * of.half; pair += blockDim.x) {
        const unsigned head = pair / of.half * 2 * of.half, place = pair % of.half;
        const Turned turned = turn(of.keys + head, of, place);
        slot[head + place] = narrow<Element>(turned.first);
        slot[head + place + of.half] = narrow<Element>(turned.second);
    }
}

template <class Element> static __device__ void append_values(Element* slot, const Position& of) {
    for (unsigned place = threadIdx.x; place < of.kv_heads * of.half * 2; place += blockDim.x) {
        slot[place] = narrow<Element>(of.values[place]);
    }
}

template <class Element>
static __device__ void rope_append(const Position& of, const Paged<Element>& paged, unsigned row, unsigned position) {
    turn_queries(of);
    const unsigned page = page_of(paged, row, position);
    if (of.turns && page < paged.shape.pages) {
        append_keys(slot_of(paged, KEYS, page, position), of);
        append_values(slot_of(paged, VALUES, page, position), of);
    }
}

#define ROPE_APPEND(name, Element)                                                                               \
    extern "C" __global__ void name(float* __restrict__ queries, Element* __restrict__ cache,                    \
                                    const float* __restrict__ keys, const float* __restrict__ values,            \
                                    const float* __restrict__ turns, const unsigned* __restrict__ rows,          \
                                    const unsigned* __restrict__ positions, const unsigned* __restrict__ pages,  \
                                    CacheShape shape, PageLists lists, unsigned heads, unsigned layer,           \
                                    unsigned context) {                                                          \
        const unsigned position = positions[blockIdx.x];                                                         \
        const Offset query = static_cast<Offset>(blockIdx.x) * heads * shape.head_dim;                           \
        const Offset key = static_cast<Offset>(blockIdx.x) * shape.kv_heads * shape.head_dim;                    \
        const Offset turn = static_cast<Offset>(position) * shape.head_dim;                                      \
        const float* const turns_here = position < context ? turns + turn : nullptr;                             \
        const Position of = {queries + query, keys + key,     values + key,      turns_here,                     \
                             heads,           shape.kv_heads, shape.head_dim / 2};                               \
        rope_append(of, Paged<Element>{cache, pages, shape, lists, layer}, rows[blockIdx.x], position);          \
    }

ROPE_APPEND(rope_append_f32, float)
ROPE_APPEND(rope_append_bf16, Bf16)
