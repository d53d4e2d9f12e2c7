// One kernel, made callable without its types: KERNEL_SOURCE is its file and KERNEL_ENTRY its entry point.
#include KERNEL_SOURCE

#include <string>

#include "entry.hpp"

namespace {

template <class Type> struct Name;
template <> struct Name<float> { static std::string text() { return "f32"; } };
template <> struct Name<unsigned> { static std::string text() { return "u32"; } };
template <> struct Name<unsigned long long> { static std::string text() { return "u64"; } };
template <class Type> struct Name<const Type> { static std::string text() { return "const " + Name<Type>::text(); } };
template <class Type> struct Name<Type*> { static std::string text() { return Name<Type>::text() + "*"; } };

template <class... Types>
std::vector<Parameter> describe(void (*)(Types...)) {
    return {Parameter{Name<Types>::text(), sizeof(Types), std::is_pointer_v<Types>}...};
}

template <class... Types, size_t... Places>
void call_with(void (*kernel)(Types...), void** arguments, std::index_sequence<Places...>) {
    kernel(*static_cast<Types*>(arguments[Places])...);
}

template <class... Types>
void call(void (*kernel)(Types...), void** arguments) {
    call_with(kernel, arguments, std::index_sequence_for<Types...>());
}

} // namespace

std::vector<Parameter> kernel_parameters() {
    return describe(&KERNEL_ENTRY);
}

void kernel_call(void** arguments) {
    call(&KERNEL_ENTRY, arguments);
}
