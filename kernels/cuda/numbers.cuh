// The element types of weights and caches. Arithmetic is in f32: elements are widened when read, rounded when written.
#pragma once
#include "dialect.cuh"

struct Bf16 {
    unsigned short bits;
};

struct F16 {
    unsigned short bits;
};

// What a kernel answers for an index that is out of range: it spreads to the logits, and the forward pass is refused.
static __device__ float not_a_number() {
    return __uint_as_float(0x7fc00000u);
}

// Less than every score.
static __device__ float negative_infinity() {
    return __uint_as_float(0xff800000u);
}

static __device__ float widen(float value) {
    return value;
}

static __device__ float widen(Bf16 value) {
    return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}

static __device__ float widen(F16 value) {
    enum : unsigned { SIGN = 0x8000u, INFINITE = 0x7c00u };
    const unsigned magnitude = value.bits & ~SIGN;
    // Moved to its place in an f32, the exponent is 112 too low; the product is exact, of a subnormal F16 too.
    const float scaled = __uint_as_float(magnitude << 13) * 0x1p112f;
    const unsigned exponent = magnitude >= INFINITE ? 0x7f800000u : 0u;
    return __uint_as_float(__float_as_uint(scaled) | exponent | (value.bits & SIGN) << 16);
}

template <class Element> static __device__ Element narrow(float value);

template <> __device__ float narrow<float>(float value) {
    return value;
}

// To nearest, ties to even.
template <> __device__ Bf16 narrow<Bf16>(float value) {
    const unsigned bits = __float_as_uint(value);
    if (value != value) {
        return {static_cast<unsigned short>(bits >> 16 | 0x40u)};
    }
    return {static_cast<unsigned short>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}
