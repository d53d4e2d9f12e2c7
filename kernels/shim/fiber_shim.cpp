// The scheduler of fiber_shim.hpp: runs every ready thread, then releases the barriers and warp operations that are
// complete, until all have returned. When nothing ran and nothing was released, the block is stuck: that is the bug.
#include "fiber_shim.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "context.hpp"

namespace fiber {
namespace {

constexpr unsigned WARP = 32;
constexpr size_t STACK_BYTES = 64 << 10;

enum class State { Ready, AtBarrier, AtWarp, Returned };

struct Thread {
    Context context;
    State state;
    Index index;
    unsigned number;
    Site site;
    unsigned mask;                // of its warp operation
    unsigned source_lane;         // likewise
    unsigned long long published; // likewise; holds the received value once released
};

std::string name(Site site) {
    const char* slash = std::strrchr(site.file, '/');
    const std::string file = slash ? slash + 1 : site.file;
    return site.line == 0 ? file : file + ":" + std::to_string(site.line);
}

bool same(Site left, Site right) {
    return left.line == right.line && std::strcmp(left.file, right.file) == 0;
}

class Block {
public:
    Block(const Grid& of, void (*body)(void**), void** values);
    void run(Index of);

    const Grid grid;
    Index index{};
    Thread* running = nullptr;

    void wait(State state, Site site);
    [[noreturn]] void end(const std::string& evidence);

private:
    static void enter();
    void prepare();
    void shuffle_order();
    bool run_ready();
    bool release_barrier();
    bool release_warps();
    bool release_warp(Thread* first, unsigned lanes);
    void release_group(Thread* first, const Thread& leader);
    unsigned count(State state) const;
    [[noreturn]] void fail(const std::string& evidence) const;
    [[noreturn]] void fail_stuck() const;

    void (*const kernel)(void**);
    void** const arguments;
    Context scheduler{};
    std::vector<Thread> threads;
    std::vector<unsigned> order;
    Site last_barrier{"the start", 0};
    std::string ended; // why a thread ended the launch; empty while none has
    std::unique_ptr<unsigned char[]> stacks;
    std::mt19937 random;
};

Block* current = nullptr; // a fiber starts without arguments

Block::Block(const Grid& of, void (*body)(void**), void** values)
    : grid(of), kernel(body), arguments(values),
      threads(grid.threads.x * grid.threads.y * grid.threads.z), order(threads.size()),
      stacks(new unsigned char[threads.size() * STACK_BYTES]), random(grid.seed) {
    std::iota(order.begin(), order.end(), 0u);
}

void Block::enter() {
    current->kernel(current->arguments);
    current->wait(State::Returned, {"", 0});
}

void Block::wait(State state, Site site) {
    running->state = state;
    running->site = site;
    switch_context(running->context, scheduler);
}

// Leaves the thread for good.
void Block::end(const std::string& evidence) {
    ended = "thread " + std::to_string(running->number) + " " + evidence + ", after " + name(last_barrier);
    wait(State::Returned, {"", 0});
    __builtin_unreachable();
}

void Block::prepare() {
    now.block_start = ++now.barriers;
    last_barrier = {"the start", 0};
    for (unsigned number = 0; number < threads.size(); ++number) {
        Thread& thread = threads[number];
        const Index size = grid.threads;
        thread.state = State::Ready;
        thread.number = number;
        thread.index = {number % size.x, number / size.x % size.y, number / (size.x * size.y)};
        thread.context.prepare(&stacks[number * STACK_BYTES], STACK_BYTES, &Block::enter);
    }
}

void Block::run(Index of) {
    index = of;
    current = this;
    prepare();
    while (count(State::Returned) < threads.size()) {
        const bool ran = run_ready();
        const bool warps = release_warps();
        const bool barrier = release_barrier();
        if (!ran && !warps && !barrier) {
            fail_stuck();
        }
    }
}

void Block::shuffle_order() {
    if (grid.seed != 0) {
        std::shuffle(order.begin(), order.end(), random);
    }
}

bool Block::run_ready() {
    bool ran = false;
    shuffle_order();
    for (unsigned number : order) {
        if (threads[number].state == State::Ready) {
            ran = true;
            running = &threads[number];
            now.thread = number + 1;
            switch_context(scheduler, running->context);
            if (!ended.empty()) {
                fail(ended);
            }
        }
    }
    return ran;
}

bool Block::release_barrier() {
    if (count(State::AtBarrier) < threads.size()) {
        return false;
    }
    for (Thread& thread : threads) {
        if (!same(thread.site, threads[0].site)) {
            fail("divergence: threads wait at different barriers, " + name(threads[0].site) + " and " + name(thread.site));
        }
        thread.state = State::Ready;
    }
    ++now.barriers;
    last_barrier = threads[0].site;
    return true;
}

bool Block::release_warps() {
    bool released = false;
    for (size_t first = 0; first < threads.size(); first += WARP) {
        const size_t lanes = std::min<size_t>(WARP, threads.size() - first);
        released |= release_warp(&threads[first], static_cast<unsigned>(lanes));
    }
    return released;
}

// Releases the groups of a warp whose lanes have all published.
bool Block::release_warp(Thread* first, unsigned lanes) {
    unsigned waiting = 0;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        const bool waits = first[lane].state == State::AtWarp;
        if (waits && !(first[lane].mask >> lane & 1u)) {
            fail("divergence: a lane is not in the mask that it passes at " + name(first[lane].site));
        }
        waiting |= (waits ? 1u : 0u) << lane;
    }
    bool released = false;
    for (unsigned lane = 0; lane < lanes; ++lane) {
        const Thread& leader = first[lane];
        if (leader.state == State::AtWarp && (leader.mask & ~waiting) == 0) {
            release_group(first, leader);
            waiting &= ~leader.mask;
            released = true;
        }
    }
    return released;
}

void Block::release_group(Thread* first, const Thread& leader) {
    const unsigned mask = leader.mask;
    const Site site = leader.site;
    unsigned long long received[WARP] = {};
    for (unsigned lane = 0; lane < WARP; ++lane) {
        if (mask >> lane & 1u) {
            const Thread& thread = first[lane];
            if (thread.mask != mask || !same(thread.site, site)) {
                fail("divergence: lanes of one warp disagree on a warp operation, " + name(site) + " and " + name(thread.site));
            }
            if (!(mask >> thread.source_lane & 1u)) {
                fail("divergence: a lane reads from a lane outside the mask at " + name(site));
            }
            received[lane] = first[thread.source_lane].published;
        }
    }
    for (unsigned lane = 0; lane < WARP; ++lane) {
        if (mask >> lane & 1u) {
            first[lane].published = received[lane];
            first[lane].state = State::Ready;
        }
    }
}

unsigned Block::count(State state) const {
    const auto in_state = [state](const Thread& thread) { return thread.state == state; };
    return static_cast<unsigned>(std::count_if(threads.begin(), threads.end(), in_state));
}

void Block::fail(const std::string& evidence) const {
    throw std::runtime_error("block " + std::to_string(index.x) + ": " + evidence);
}

void Block::fail_stuck() const {
    const auto waits = [](const Thread& thread) { return thread.state != State::Returned; };
    const Thread& waiting = *std::find_if(threads.begin(), threads.end(), waits);
    char evidence[220];
    std::snprintf(evidence, sizeof evidence,
                  "divergence: of %zu threads, %u wait at a barrier, %u in a warp operation, %u have returned; thread %u waits at ",
                  threads.size(), count(State::AtBarrier), count(State::AtWarp), count(State::Returned), waiting.number);
    fail(evidence + name(waiting.site));
}

} // namespace

const Index& thread_index() { return current->running->index; }
const Index& block_index() { return current->index; }
const Index& block_size() { return current->grid.threads; }
const Index& grid_size() { return current->grid.blocks; }
size_t dynamic_shared_bytes() { return current->grid.shared_bytes; }
unsigned lane() { return current->running->number % WARP; }

void block_barrier(Site site) { current->wait(State::AtBarrier, site); }

unsigned long long warp_exchange(Site site, unsigned mask, unsigned long long value, unsigned source_lane) {
    Thread& self = *current->running;
    self.mask = mask;
    self.source_lane = source_lane;
    self.published = value;
    current->wait(State::AtWarp, site);
    return self.published;
}

Now now;

void fail_access(Misuse misuse, unsigned other) {
    if (misuse == Misuse::Unwritten) {
        current->end("reads shared memory that no thread of the block has written");
    }
    current->end("races with " + (other == SEVERAL ? "others" : "thread " + std::to_string(other - 1)) +
                 " for an element of shared memory");
}

void fail_index(std::ptrdiff_t index, size_t count) {
    current->end("accesses element " + std::to_string(index) + " of a shared array of " + std::to_string(count));
}

void launch(const Grid& grid, void (*kernel)(void**), void** arguments) {
    Block block(grid, kernel, arguments);
    for (unsigned z = 0; z < grid.blocks.z; ++z) {
        for (unsigned y = 0; y < grid.blocks.y; ++y) {
            for (unsigned x = 0; x < grid.blocks.x; ++x) {
                block.run({x, y, z});
            }
        }
    }
}

} // namespace fiber
