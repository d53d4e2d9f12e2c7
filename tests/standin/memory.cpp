// Device memory: pages of one large reservation, each allocation followed by a page that faults. Addresses are never given
// twice, so freed memory faults for good. What is mapped around an allocation (its fringe) is 0xA5 and must stay so.
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include "standin.hpp"

namespace standin {
namespace {

constexpr size_t RESERVED = size_t{1} << 40;
constexpr size_t PAGE = 4096;
constexpr size_t ALIGNMENT = 256; // what the driver promises
constexpr unsigned char POISON = 0xA5;

struct Allocation {
    int device;
    size_t bytes;
    Address pages; // where its mapping starts
    size_t mapped;
    bool live;
};

struct Memory {
    std::mutex mutex;
    Address base = 0, next = 0;
    std::map<Address, Allocation> allocations; // by start; freed ones too, for the reports
    std::map<int, size_t> used;
};

thread_local sigjmp_buf recovery;
thread_local bool watched = false;
thread_local Address fault = 0;
struct sigaction previous;

void on_fault(int, siginfo_t* info, void*);

void watch_faults() {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &previous);
}

// Never destroyed: threads of streams may outlive main.
Memory& memory() {
    static Memory& all = *[] {
        auto* made = new Memory;
        void* reserved = mmap(nullptr, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (reserved == MAP_FAILED) {
            say("no address space for device memory");
            std::abort();
        }
        made->base = made->next = reinterpret_cast<Address>(reserved);
        watch_faults();
        return made;
    }();
    return all;
}

void on_fault(int, siginfo_t* info, void*) {
    const auto address = reinterpret_cast<Address>(info->si_addr);
    if (watched && address - memory().base < RESERVED) {
        fault = address;
        siglongjmp(recovery, 1);
    }
    sigaction(SIGSEGV, &previous, nullptr); // not a device access: the fault happens again, for whom it concerns
}

// The last allocation that starts at or before an address; with its mutex held.
std::map<Address, Allocation>::iterator find(Address address) {
    auto after = memory().allocations.upper_bound(address);
    return after == memory().allocations.begin() ? memory().allocations.end() : std::prev(after);
}

std::string describe(Address address) {
    const std::lock_guard lock(memory().mutex);
    const auto found = find(address);
    if (found == memory().allocations.end()) {
        return "an address before every allocation";
    }
    const auto& [start, allocation] = *found;
    const std::string size = std::to_string(allocation.bytes) + " bytes";
    return "byte " + std::to_string(address - start) + " of " + (allocation.live ? "an allocation" : "freed memory") + " of " + size;
}

bool poisoned(Address from, Address to) {
    for (; from < to; ++from) {
        if (*reinterpret_cast<unsigned char*>(from) != POISON) {
            return false;
        }
    }
    return true;
}

} // namespace

Address allocate(int device, size_t bytes) {
    Memory& all = memory();
    const std::lock_guard lock(all.mutex);
    const size_t mapped = (bytes + PAGE - 1) / PAGE * PAGE;
    if (bytes > total_bytes() - all.used[device] || all.next + mapped + PAGE > all.base + RESERVED) {
        return 0;
    }
    const Address pages = all.next;
    void* const start_of_pages = reinterpret_cast<void*>(pages);
    if (mprotect(start_of_pages, mapped, PROT_READ | PROT_WRITE) != 0) {
        return 0;
    }
    std::memset(start_of_pages, POISON, mapped);
    const Address start = pages + (mapped - bytes) / ALIGNMENT * ALIGNMENT;
    all.allocations[start] = {device, bytes, pages, mapped, true};
    all.used[device] += bytes;
    all.next += mapped + PAGE;
    return start;
}

bool release(Address start) {
    Memory& all = memory();
    const std::lock_guard lock(all.mutex);
    const auto found = all.allocations.find(start);
    if (found == all.allocations.end() || !found->second.live) {
        return false;
    }
    Allocation& freed = found->second;
    freed.live = false;
    all.used[freed.device] -= freed.bytes;
    void* const pages = reinterpret_cast<void*>(freed.pages);
    madvise(pages, freed.mapped, MADV_DONTNEED);
    mprotect(pages, freed.mapped, PROT_NONE);
    return true;
}

void require(Address from, size_t bytes) {
    {
        const std::lock_guard lock(memory().mutex);
        const auto found = find(from);
        if (found != memory().allocations.end()) {
            const auto& [start, allocation] = *found;
            if (allocation.live && from - start <= allocation.bytes && bytes <= allocation.bytes - (from - start)) {
                return;
            }
        }
    }
    throw Failure{ILLEGAL_ADDRESS, std::to_string(bytes) + " bytes from " + describe(from) + " on are not device memory"};
}

void inspect(Address inside) {
    require(inside, 1);
    const std::lock_guard lock(memory().mutex);
    const auto& [start, allocation] = *find(inside);
    if (!poisoned(allocation.pages, start) || !poisoned(start + allocation.bytes, allocation.pages + allocation.mapped)) {
        throw Failure{ILLEGAL_ADDRESS, "something was written just outside an allocation of " + std::to_string(allocation.bytes) + " bytes"};
    }
}

size_t total_bytes() {
    return static_cast<size_t>(setting("STANDIN_MEMORY_MIB", 4096)) << 20;
}

size_t free_bytes(int device) {
    const std::lock_guard lock(memory().mutex);
    return total_bytes() - memory().used[device];
}

// Whatever the work holds when it faults is lost, which a process whose device has failed can bear.
void run_watched(const std::function<void()>& work) {
    memory();
    if (sigsetjmp(recovery, 1) != 0) {
        watched = false;
        throw Failure{ILLEGAL_ADDRESS, "access to " + describe(fault)};
    }
    watched = true;
    try {
        work();
    } catch (...) {
        watched = false;
        throw;
    }
    watched = false;
}

} // namespace standin
