// The CUDA dialect of cuda/dialect.cuh for g++: each thread of a block is a fiber, and one block runs at a time.
//
// A thread runs until it meets a barrier or a warp operation. The order of threads is drawn anew from a seed whenever
// threads are released, so what depends on it shows as different results; shared.hpp shows races in any order.
#pragma once

#include "shared.hpp"

namespace fiber {

struct Index {
    unsigned x, y, z;
};

// The place in the kernel's source where threads wait for one another.
struct Site {
    const char* file;
    int line;
};

struct Grid {
    Index blocks, threads;
    unsigned shared_bytes;
    unsigned seed; // 0 runs the threads in ascending order
};

const Index& thread_index();
const Index& block_index();
const Index& block_size();
const Index& grid_size();

// The bytes of a block's dynamic shared memory.
size_t dynamic_shared_bytes();

// The block's dynamic shared memory. The same storage for every thread of a block, empty traces in every block.
template <class Type> Shared<Type> dynamic_shared() {
    static SharedArray<Type> array{0};
    static size_t bytes = 0;
    if (bytes != dynamic_shared_bytes()) {
        bytes = dynamic_shared_bytes();
        array = SharedArray<Type>(bytes / sizeof(Type));
    }
    return array.all();
}

// Returns once every thread of the block waits here.
void block_barrier(Site site);

// Returns the value that `source_lane` published, once every lane of `mask` has published one here.
unsigned long long warp_exchange(Site site, unsigned mask, unsigned long long value, unsigned source_lane);
unsigned lane();

// Runs `kernel` in every thread of every block. Throws std::runtime_error with the evidence if threads get stuck or race.
void launch(const Grid& grid, void (*kernel)(void** arguments), void** arguments);

template <class Value>
Value shuffle(Site site, unsigned mask, Value value, unsigned source_lane) {
    static_assert(sizeof(Value) <= sizeof(unsigned long long), "a lane publishes at most 8 bytes");
    unsigned long long published = 0;
    __builtin_memcpy(&published, &value, sizeof value);
    const unsigned long long received = warp_exchange(site, mask, published, source_lane);
    __builtin_memcpy(&value, &received, sizeof value);
    return value;
}

} // namespace fiber

#define __global__
#define __device__
#define threadIdx (fiber::thread_index())
#define blockIdx (fiber::block_index())
#define blockDim (fiber::block_size())
#define gridDim (fiber::grid_size())

// The defaults are evaluated where the kernel calls.
inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    fiber::block_barrier({file, line});
}

template <class Value>
Value __shfl_xor_sync(unsigned mask, Value value, unsigned flip, const char* file = __builtin_FILE(),
                      int line = __builtin_LINE()) {
    return fiber::shuffle({file, line}, mask, value, fiber::lane() ^ flip);
}

// A lane whose source lies beyond the warp keeps its own value.
template <class Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned distance, const char* file = __builtin_FILE(),
                       int line = __builtin_LINE()) {
    const unsigned source = fiber::lane() + distance;
    return fiber::shuffle({file, line}, mask, value, source < 32 ? source : fiber::lane());
}
