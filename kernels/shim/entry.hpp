// What entry.cpp makes of a kernel and harness.cpp runs.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

struct Parameter {
    std::string type; // as in the table of src/kernel.rs: "const f32*", "u64*", "u32"
    size_t bytes;     // of the value, or of the pointer
    bool buffer;
};

// The parameters of the kernel's C++ signature.
std::vector<Parameter> kernel_parameters();

// Runs the kernel as the current thread; `arguments` point to the values, as in cuLaunchKernel.
void kernel_call(void** arguments);
