// The device's mathematics for g++. Results may differ from a GPU's in their last bits, but for fmaf, sqrtf and the
// casts, which both round one way.
#pragma once

#include <cmath>
#include <cstring>

inline unsigned __float_as_uint(float value) {
    unsigned bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline float __uint_as_float(unsigned bits) {
    float value = 0.0f;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
