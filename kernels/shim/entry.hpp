// What a kernel is to harness.cpp, without its types. Rust generates the program's one list of entries, from the table
// of src/kernel.rs; it includes the kernels' sources and this file.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

struct Parameter {
    std::string type; // as src/kernel.rs prints it: "const f32*", "u64*", "u32", "u32[5]"
    size_t bytes;     // of the value, or of the pointer
    bool buffer;
};

struct Entry {
    const char* name;
    std::vector<Parameter> parameters; // of the kernel's C++ signature
    void (*call)(void** arguments);    // runs the kernel as the current thread, with arguments as in cuLaunchKernel
};

// Every entry of this program.
const std::vector<Entry>& entries();

namespace entry {

// A structure passed by value is a row of u32.
template <class Type> struct Name {
    static_assert(std::is_trivially_copyable<Type>::value && alignof(Type) == 4, "parameters are rows of u32");
    static std::string text() { return "u32[" + std::to_string(sizeof(Type) / 4) + "]"; }
};
template <> struct Name<float> { static std::string text() { return "f32"; } };
template <> struct Name<unsigned> { static std::string text() { return "u32"; } };
template <> struct Name<unsigned long long> { static std::string text() { return "u64"; } };
template <> struct Name<struct Bf16> { static std::string text() { return "bf16"; } };
template <> struct Name<struct F16> { static std::string text() { return "f16"; } };
template <class Type> struct Name<const Type> { static std::string text() { return "const " + Name<Type>::text(); } };
template <class Type> struct Name<Type*> { static std::string text() { return Name<Type>::text() + "*"; } };

template <class... Types, size_t... Places>
void call_with(void (*kernel)(Types...), void** arguments, std::index_sequence<Places...>) {
    kernel(*static_cast<std::remove_const_t<Types>*>(arguments[Places])...);
}

template <auto KERNEL, class... Types> Entry make(const char* name, void (*)(Types...)) {
    return {name, {Parameter{Name<Types>::text(), sizeof(Types), std::is_pointer_v<Types>}...}, [](void** arguments) {
                call_with(KERNEL, arguments, std::index_sequence_for<Types...>());
            }};
}

} // namespace entry

#define ENTRY(kernel) entry::make<&kernel>(#kernel, &kernel)
