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

// One layer of the cache, as a batch's rows see it.
template <class Element> struct Paged {
    Element* cache;
    const unsigned* pages;
    CacheShape shape;
    PageLists lists;
    unsigned layer;
};

// The page of a row's position; one beyond the cache if the lists have none.
template <class Element>
static __device__ unsigned page_of(const Paged<Element>& paged, unsigned row, unsigned position) {
    const PageLists& lists = paged.lists;
    const unsigned entry = position / paged.shape.page_size;
    const bool listed = row < lists.rows && entry < lists.length;
    return listed ? paged.pages[static_cast<Offset>(row) * lists.length + entry] : paged.shape.pages;
}

// The elements of a position, [kv_heads, head_dim]. The page exists.
template <class Element>
static __device__ Element* slot_of(const Paged<Element>& paged, Side side, unsigned page, unsigned position) {
    const CacheShape& shape = paged.shape;
    const Offset block = (static_cast<Offset>(page) * shape.layers + paged.layer) * 2 + side;
    const Offset slot = block * shape.page_size + position % shape.page_size;
    return paged.cache + slot * shape.kv_heads * shape.head_dim;
}
