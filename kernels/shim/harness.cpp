// A process that runs kernels on the CPU.
//
//   harness signatures   prints every entry's name and the types of its parameters, an entry a line
//   harness              answers launches from standard input until it ends
//
// Words are u32 of this machine's byte order. A launch is: the length of the entry's name and the name, blocks x, blocks
// y, threads x, threads y, shared bytes, seed, then for each parameter its size in bytes and its bytes (a buffer's
// content, or a value). The answer is: 0 and the bytes of the buffers that the kernel may write, in order; or 1, a
// message's size and the message.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "entry.hpp"
#include "fiber_shim.hpp"

namespace {

constexpr unsigned DEADLINE_SECONDS = 60; // of a launch: a kernel that spins never yields, so a signal must end it
constexpr size_t ALIGNMENT = 256;         // of a buffer: what a device's allocator promises

struct Free {
    void operator()(unsigned char* memory) const { std::free(memory); }
};

// One argument's bytes, in an allocation of its own, so that a sanitizer sees an access beyond them.
struct Bytes {
    std::unique_ptr<unsigned char, Free> memory;
    size_t size;
};

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

const Entry& read_entry() {
    std::string name(read_word(), ' ');
    read(name.data(), name.size());
    for (const Entry& entry : entries()) {
        if (name == entry.name) {
            return entry;
        }
    }
    throw std::runtime_error("this program has no kernel " + name);
}

fiber::Grid read_grid() {
    fiber::Grid grid{};
    grid.blocks.x = read_word();
    grid.blocks.y = read_word();
    grid.threads.x = read_word();
    grid.threads.y = read_word();
    grid.blocks.z = grid.threads.z = 1;
    grid.shared_bytes = read_word();
    grid.seed = read_word();
    return grid;
}

Bytes read_argument(const Parameter& parameter) {
    const size_t size = read_word();
    if (!parameter.buffer && size != parameter.bytes) {
        throw std::runtime_error("an argument does not fit its parameter of type " + parameter.type);
    }
    void* memory = nullptr;
    if (posix_memalign(&memory, ALIGNMENT, size) != 0) {
        throw std::runtime_error("no memory for an argument of " + std::to_string(size) + " bytes");
    }
    Bytes bytes{std::unique_ptr<unsigned char, Free>(static_cast<unsigned char*>(memory)), size};
    read(memory, size);
    return bytes;
}

// What cuLaunchKernel is given: for a buffer where its address is stored, for a value where it is.
std::vector<void*> addresses(const Entry& entry, const std::vector<Bytes>& arguments, std::vector<void*>& buffers) {
    std::vector<void*> result;
    for (size_t place = 0; place < arguments.size(); ++place) {
        buffers[place] = arguments[place].memory.get();
        result.push_back(entry.parameters[place].buffer ? static_cast<void*>(&buffers[place]) : buffers[place]);
    }
    return result;
}

bool written(const Parameter& parameter) {
    return parameter.buffer && parameter.type.rfind("const ", 0) != 0;
}

void answer(const Entry& entry, const std::vector<Bytes>& arguments) {
    write_word(0);
    for (size_t place = 0; place < arguments.size(); ++place) {
        if (written(entry.parameters[place])) {
            write(arguments[place].memory.get(), arguments[place].size);
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
    const Entry& entry = read_entry();
    const fiber::Grid grid = read_grid();
    std::vector<Bytes> arguments;
    for (const Parameter& parameter : entry.parameters) {
        arguments.push_back(read_argument(parameter));
    }
    std::vector<void*> buffers(arguments.size());
    std::vector<void*> pointers = addresses(entry, arguments, buffers);
    try {
        fiber::launch(grid, entry.call, pointers.data());
        answer(entry, arguments);
    } catch (const std::runtime_error& stuck) {
        answer_failure(stuck.what());
    }
    std::fflush(stdout);
    alarm(0);
}

void print_signatures() {
    for (const Entry& entry : entries()) {
        std::string line = entry.name;
        for (const Parameter& parameter : entry.parameters) {
            line += (line == entry.name ? ": " : ", ") + parameter.type;
        }
        std::puts(line.c_str());
    }
}

} // namespace

int main(int count, char** words) {
    if (count == 2 && std::strcmp(words[1], "signatures") == 0) {
        print_signatures();
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
