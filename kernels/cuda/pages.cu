// Pages of the cache into one piece for a transfer, and back.
//
//   staging [listed, page_words]   cache [pages, page_words]   listed [listed]: page numbers
//   grid   x: listed pages, y: parts of a page
//   block  any number of threads
//
// In words of 8 bytes, which every page is a multiple of, whatever its elements. A page beyond the cache is gathered as
// all ones, a NaN in every element type, and scattered nowhere. A page that is scattered twice holds either content.
#include "dialect.cuh"

typedef unsigned long long Word;

struct Pages {
    unsigned pages, page_words;
};

extern "C" __global__ void gather_pages(Word* __restrict__ staging, const Word* __restrict__ cache,
                                        const unsigned* __restrict__ listed, Pages of) {
    const unsigned page = listed[blockIdx.x];
    const Offset from = static_cast<Offset>(page) * of.page_words;
    const Offset to = static_cast<Offset>(blockIdx.x) * of.page_words;
    for (unsigned word = blockIdx.y * blockDim.x + threadIdx.x; word < of.page_words; word += gridDim.y * blockDim.x) {
        staging[to + word] = page < of.pages ? cache[from + word] : ~0ull;
    }
}

extern "C" __global__ void scatter_pages(Word* __restrict__ cache, const Word* __restrict__ staging,
                                         const unsigned* __restrict__ listed, Pages of) {
    const unsigned page = listed[blockIdx.x];
    if (page >= of.pages) {
        return;
    }
    const Offset from = static_cast<Offset>(blockIdx.x) * of.page_words;
    const Offset to = static_cast<Offset>(page) * of.page_words;
    for (unsigned word = blockIdx.y * blockDim.x + threadIdx.x; word < of.page_words; word += gridDim.y * blockDim.x) {
        cache[to + word] = staging[from + word];
    }
}
