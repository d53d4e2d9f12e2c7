// The dialect every kernel here is written in: plain CUDA C++ that two compilers accept.
//
// NVRTC compiles it to PTX; g++ compiles it with shim/fiber_shim.hpp and runs it on the CPU. A kernel may use
// threadIdx, blockIdx, blockDim, gridDim, __syncthreads, the __shfl_*_sync operations, shared memory through the two
// macros below, and the mathematics of shim/device_math.hpp. It may not use cooperative groups, tensor-core or
// asynchronous-copy instructions, textures, atomics, or a wait of one block for another.
#pragma once

// SHARED names a shared array of fixed size. DYNAMIC_SHARED, at most once a kernel, names the block's dynamic shared
// memory, whose size the launch decides and which is aligned to 16 bytes. Parts of either are `Shared<Type>`: a pointer
// on a device, a checked pointer on the CPU. A bare `__shared__` is forbidden: the CPU could not watch it for races.
//
//     SHARED(float, sums, LANES);
//     DYNAMIC_SHARED(float, keys);
//     const Shared<float> values = keys + count;
#ifdef __CUDACC__
#define SHARED(type, name, count) __shared__ type name[count]
#define DYNAMIC_SHARED(type, name)                                        \
    extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[]; \
    type* const name = reinterpret_cast<type*>(dynamic_shared_bytes)
template <class Type> using Shared = Type*;
#else
#include "fiber_shim.hpp"
#include "device_math.hpp"
#define SHARED(type, name, count)                       \
    static fiber::SharedArray<type> name##_array{count}; \
    const fiber::Shared<type> name = name##_array.all()
#define DYNAMIC_SHARED(type, name) const fiber::Shared<type> name = fiber::dynamic_shared<type>()
template <class Type> using Shared = fiber::Shared<Type>;
#endif

// An index into global memory, whose products of two sizes pass 32 bits.
typedef unsigned long long Offset;

// Enumerators, because NVRTC turns a namespace-scope constexpr into device memory.
enum : unsigned {
    LANES = 32,               // threads of a warp
    EVERY_LANE = 0xffffffffu, // mask of a full warp
};
