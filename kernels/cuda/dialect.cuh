// The dialect every kernel here is written in: plain CUDA C++ that two compilers accept.
//
// NVRTC compiles it to PTX; g++ compiles it with shim/fiber_shim.hpp and runs it on the CPU. A kernel may use
// threadIdx, blockIdx, blockDim, gridDim, __shared__ arrays, __syncthreads and the __shfl_*_sync operations. It may not
// use cooperative groups, tensor-core or asynchronous-copy instructions, textures, or a wait of one block for another.
#pragma once

// Names the block's dynamic shared memory, whose size the launch decides:
//
//     DYNAMIC_SHARED(float, partial_sums);   // partial_sums is a float*, aligned to 16 bytes
//
// At most once a kernel. A bare `extern __shared__ float partial_sums[];` is forbidden: g++ has no storage to bind it to.
#ifdef __CUDACC__
#define DYNAMIC_SHARED(type, name)                                        \
    extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[]; \
    type* const name = reinterpret_cast<type*>(dynamic_shared_bytes)
#else
#include "fiber_shim.hpp"
#define DYNAMIC_SHARED(type, name) type* const name = reinterpret_cast<type*>(fiber::dynamic_shared())
#endif

// Enumerators, because NVRTC turns a namespace-scope constexpr into device memory.
enum : unsigned {
    LANES = 32,               // threads of a warp
    EVERY_LANE = 0xffffffffu, // mask of a full warp
};
