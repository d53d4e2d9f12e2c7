// A process that runs one kernel on the CPU.
//
//   harness signature   prints the parameters' types, one a line
//   harness             answers launches from standard input until it ends
//
// Words are u32 of this machine's byte order. A launch is: blocks, threads x, threads y, shared bytes, seed, then for
// each parameter its size in bytes and its bytes (a buffer's content, or a scalar's value). The answer is: 0 and the
// buffers' bytes after the launch, in order; or 1, a message's size and the message.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "entry.hpp"
#include "fiber_shim.hpp"

namespace {

constexpr unsigned DEADLINE_SECONDS = 30; // of a launch: a kernel that spins never yields, so a signal must end it

using Bytes = std::vector<unsigned char>;

void read(void* target, size_t bytes) {
    if (std::fread(target, 1, bytes, stdin) != bytes) {
        throw std::runtime_error("standard input ends within a launch");
    }
}

void write(const void* source, size_t bytes) {
    std::fwrite(source, 1, bytes, stdout);
}

void write_word(uint32_t word) {
    write(&word, sizeof word);
}

uint32_t read_word() {
    uint32_t word = 0;
    read(&word, sizeof word);
    return word;
}

bool at_end() {
    const int next = std::getc(stdin);
    return next == EOF || std::ungetc(next, stdin) == EOF;
}

fiber::Grid read_grid() {
    fiber::Grid grid{};
    grid.blocks = {read_word(), 1, 1};
    grid.threads.x = read_word();
    grid.threads.y = read_word();
    grid.threads.z = 1;
    grid.shared_bytes = read_word();
    grid.seed = read_word();
    return grid;
}

Bytes read_argument(const Parameter& parameter) {
    Bytes bytes(read_word());
    if (!parameter.buffer && bytes.size() != parameter.bytes) {
        throw std::runtime_error("an argument does not fit its parameter of type " + parameter.type);
    }
    read(bytes.data(), bytes.size());
    return bytes;
}

// What cuLaunchKernel is given: for a buffer where its address is stored, for a scalar where its value is.
std::vector<void*> addresses(const std::vector<Parameter>& parameters, std::vector<Bytes>& arguments,
                             std::vector<void*>& buffers) {
    std::vector<void*> result;
    for (size_t place = 0; place < parameters.size(); ++place) {
        buffers[place] = arguments[place].data();
        result.push_back(parameters[place].buffer ? static_cast<void*>(&buffers[place]) : buffers[place]);
    }
    return result;
}

void answer(const std::vector<Parameter>& parameters, const std::vector<Bytes>& arguments) {
    write_word(0);
    for (size_t place = 0; place < parameters.size(); ++place) {
        if (parameters[place].buffer) {
            write(arguments[place].data(), arguments[place].size());
        }
    }
}

void answer_failure(const char* message) {
    write_word(1);
    write_word(static_cast<uint32_t>(std::strlen(message)));
    write(message, std::strlen(message));
}

void serve_launch() {
    alarm(DEADLINE_SECONDS);
    const std::vector<Parameter> parameters = kernel_parameters();
    const fiber::Grid grid = read_grid();
    std::vector<Bytes> arguments;
    for (const Parameter& parameter : parameters) {
        arguments.push_back(read_argument(parameter));
    }
    std::vector<void*> buffers(parameters.size());
    std::vector<void*> pointers = addresses(parameters, arguments, buffers);
    try {
        fiber::launch(grid, &kernel_call, pointers.data());
        answer(parameters, arguments);
    } catch (const std::runtime_error& stuck) {
        answer_failure(stuck.what());
    }
    std::fflush(stdout);
    alarm(0);
}

void print_signature() {
    for (const Parameter& parameter : kernel_parameters()) {
        std::puts(parameter.type.c_str());
    }
}

} // namespace

int main(int count, char** words) {
    if (count == 2 && std::strcmp(words[1], "signature") == 0) {
        print_signature();
        return 0;
    }
    try {
        while (!at_end()) {
            serve_launch();
        }
    } catch (const std::runtime_error& broken) {
        std::fprintf(stderr, "harness: %s\n", broken.what());
        return 1;
    }
    return 0;
}
