// Shared memory that watches its accesses, element by element: a kernel that lacks a barrier is caught in any thread
// order, not only in the unlucky ones.
//
// Two threads race if both access an element between the same two barriers of the block and one of them writes. Warp
// operations do not count as barriers: CUDA does not promise that they order memory.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

namespace fiber {

// Who accessed one element since the barrier number `since`; and after which barrier it was last written.
struct Trace {
    unsigned long long since = 0, written = 0;
    unsigned writer = 0, reader = 0; // thread + 1; 0 is nobody
};

constexpr unsigned SEVERAL = ~0u; // readers

// The running thread, and time as shared memory knows it: barriers that the program has passed.
struct Now {
    unsigned long long barriers = 0, block_start = 0;
    unsigned thread = 0; // thread + 1
};

extern Now now;

enum class Misuse { Race, Unwritten };

// Ends the launch, with what the running thread and `other` (thread + 1) did.
[[noreturn]] void fail_access(Misuse misuse, unsigned other);

inline void refresh(Trace& trace) {
    if (trace.since != now.barriers) {
        trace.since = now.barriers;
        trace.writer = trace.reader = 0;
    }
}

// Notes a read by the running thread; ends the launch if it races, or if no thread of the block has written there.
inline void note_read(Trace& trace) {
    refresh(trace);
    if (trace.written < now.block_start) {
        fail_access(Misuse::Unwritten, 0);
    }
    if (trace.writer != 0 && trace.writer != now.thread) {
        fail_access(Misuse::Race, trace.writer);
    }
    trace.reader = trace.reader == 0 || trace.reader == now.thread ? now.thread : SEVERAL;
}

// Notes a write by the running thread; ends the launch if it races.
inline void note_write(Trace& trace) {
    refresh(trace);
    for (const unsigned other : {trace.writer, trace.reader}) {
        if (other != 0 && other != now.thread) {
            fail_access(Misuse::Race, other);
        }
    }
    trace.writer = now.thread;
    trace.written = now.barriers;
}

// Ends the launch, because `index` is not in an array of `count` elements.
[[noreturn]] void fail_index(std::ptrdiff_t index, size_t count);

// One element, in place of the reference that a device's pointer gives.
template <class Type> class Cell {
public:
    Cell(Type& of, Trace& by) : value(of), trace(by) {}
    Cell(const Cell&) = default;

    operator Type() const {
        note_read(trace);
        return value;
    }
    Type operator=(Type written) const {
        note_write(trace);
        return value = written;
    }
    Type operator=(const Cell& from) const { return *this = static_cast<Type>(from); }

private:
    Type& value;
    Trace& trace;
};

// A pointer into a shared array. The array's bounds hold for every pointer into it.
template <class Type> class Shared {
public:
    Shared(Type* all, Trace* by, size_t size, std::ptrdiff_t from) : data(all), traces(by), count(size), first(from) {}

    Cell<Type> operator[](size_t index) const {
        const std::ptrdiff_t place = first + static_cast<std::ptrdiff_t>(index);
        if (place < 0 || static_cast<size_t>(place) >= count) {
            fail_index(place, count);
        }
        return {data[place], traces[place]};
    }
    Shared operator+(size_t distance) const {
        return {data, traces, count, first + static_cast<std::ptrdiff_t>(distance)};
    }

private:
    Type* data;
    Trace* traces;
    size_t count;
    std::ptrdiff_t first;
};

// The storage of a shared array. Blocks run one after another, so one storage serves them all.
template <class Type> class SharedArray {
public:
    explicit SharedArray(size_t count) : data(count), traces(count) {}

    Shared<Type> all() { return {data.data(), traces.data(), data.size(), 0}; }

private:
    static_assert(std::is_trivially_copyable<Type>::value, "shared memory holds plain values");
    std::vector<Type> data;
    std::vector<Trace> traces;
};

} // namespace fiber
