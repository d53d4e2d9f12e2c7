// The paged key/value cache of one rank, [pages, layers, 2 (keys, values), page_size, kv_heads, head_dim], and where a
// batch's positions are in it. A page is one piece, so that moving it is one copy.
#pragma once
#include "numbers.cuh"

struct CacheShape {
    unsigned pages, layers, page_size, kv_heads, head_dim;
};

enum Side : unsigned { KEYS = 0, VALUES = 1 };

// The page lists of a batch's rows, [rows, length]: position p of a row is in entry p / page_size of its list.
struct PageLists {
    unsigned rows, length;
};

// The page of a row's position; one beyond the cache if the lists have none.
static __device__ unsigned page_of(const unsigned* pages, const PageLists& lists, const CacheShape& cache,
                                   unsigned row, unsigned position) {
    const unsigned entry = position / cache.page_size;
    const bool listed = row < lists.rows && entry < lists.length;
    return listed ? pages[static_cast<Offset>(row) * lists.length + entry] : cache.pages;
}

// Where the elements of a position begin, [kv_heads, head_dim]. The page exists.
static __device__ Offset cache_index(const CacheShape& cache, unsigned layer, Side side, unsigned page,
                                     unsigned position) {
    const Offset block = (static_cast<Offset>(page) * cache.layers + layer) * 2 + side;
    const Offset slot = block * cache.page_size + position % cache.page_size;
    return slot * cache.kv_heads * cache.head_dim;
}
