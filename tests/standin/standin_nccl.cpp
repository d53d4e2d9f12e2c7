// A STAND-IN FOR LIBNCCL, as far as Lockstep calls it: ranks are processes of one machine that share a piece of memory.
// It works on the stand-in of libcuda alone, which it knows through the driver's functions, and refuses any other.
//
// As NCCL does: a collective is enqueued and returns at once; a rank whose peer does not come hangs in its stream, and
// only ncclCommAbort frees it; nobody is told that a peer died or gave up; a communicator that is made with blocking = 0
// answers ncclInProgress and is asked until it is ready, and once more with its first collective, until all ranks have
// enqueued theirs; two ranks on one device are refused, unless
// NCCL_MULTI_RANK_GPU_ENABLE=1; a captured collective runs once for each launch of its graph.
//
// Stricter than NCCL, which does not compare: ranks whose collectives differ (kind, operation, type, count or root) get
// ncclInvalidUsage as asynchronous error, a line on stderr, and then hang, as NCCL may. Other than NCCL: sums go in the
// order of ranks, in f32, rounded once; the calls of a group are not held back until its end; one stream a communicator.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

namespace {

enum Result : int { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7 };
enum Type : int { U32 = 3, U64 = 5, F16 = 6, F32 = 7, BF16 = 9 };
enum Operation : int { SUM = 0, MIN = 3 };
enum class Kind : int { AllReduce, Broadcast, AllGather };

constexpr int VERSION = 23000;
constexpr int MAX_RANKS = 16;
constexpr size_t PIECE = 64 << 10; // bytes of a rank that are in shared memory at a time
constexpr auto SILENCE = std::chrono::seconds(1); // of a hanging rank, before it says so

using Driver = int (*)(void*, void (*)(void*), void*);

// What ranks must agree on.
struct Shape {
    Kind kind;
    int type, operation, root;
    size_t count;

    bool operator==(const Shape& other) const {
        return kind == other.kind && type == other.type && operation == other.operation && root == other.root && count == other.count;
    }
};

// A rank's part of the shared memory. It writes its pieces by turns, so that a peer may still read the one before.
struct Slot {
    std::atomic<int> present; // device + 1
    std::atomic<unsigned long long> steps, collectives; // pieces and collectives that it has entered
    std::atomic<bool> connects; // a collective is enqueued or captured: ranks connect with the first
    Shape shape[2];
    unsigned char piece[2][PIECE];
};

struct Shared {
    std::atomic<int> ranks;
    Slot slots[MAX_RANKS];
};

struct Identity {
    char path[128]; // of the memory, which lives as long as the process that made it, or one that joined
};

struct Communicator {
    Shared* shared;
    int rank, ranks;
    std::atomic<int> state{IN_PROGRESS};
    std::atomic<bool> aborted{false};
    std::atomic<int> pending{0};    // collectives that are enqueued or run
    std::atomic<bool> connected{false};
    void* stream = nullptr;
    std::mutex mutex;
    std::string last_error;

    void fail(Result result, const std::string& why) {
        const std::lock_guard lock(mutex);
        last_error = why;
        std::fprintf(stderr, "stand-in NCCL: rank %d: %s\n", rank, why.c_str());
        state = result;
    }
};

// Never destroyed: threads of streams may outlive main.
std::mutex& registry_mutex = *new std::mutex;
auto& registry = *new std::map<void*, std::shared_ptr<Communicator>>;

std::shared_ptr<Communicator> find(void* handle) {
    const std::lock_guard lock(registry_mutex);
    const auto found = registry.find(handle);
    return found == registry.end() ? nullptr : found->second;
}

void* driver_function(const char* name) {
    static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    return library == nullptr ? nullptr : dlsym(library, name);
}

// Lets others run, the longer the more.
void pause(unsigned turns) {
    if (turns < 1000) {
        std::this_thread::yield();
    } else {
        usleep(50);
    }
}

size_t bytes_of(int type) {
    return type == U64 ? 8 : type == BF16 || type == F16 ? 2 : 4;
}

float widen(unsigned short bits) {
    const unsigned wide = static_cast<unsigned>(bits) << 16;
    float value = 0;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

unsigned short narrow(float value) {
    unsigned bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return static_cast<unsigned short>(value != value ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

template <class Value> Value combined(int operation, Value left, Value right) {
    return operation == SUM ? left + right : right < left ? right : left;
}

// Element `index` of the ranks' pieces, combined in the order of ranks.
template <class Value> Value combine(const Communicator& of, int parity, size_t index, int operation) {
    Value result = reinterpret_cast<const Value*>(of.shared->slots[0].piece[parity])[index];
    for (int rank = 1; rank < of.ranks; ++rank) {
        result = combined(operation, result, reinterpret_cast<const Value*>(of.shared->slots[rank].piece[parity])[index]);
    }
    return result;
}

unsigned short combine_bf16(const Communicator& of, int parity, size_t index, int operation) {
    float result = 0;
    for (int rank = 0; rank < of.ranks; ++rank) {
        const float value = widen(reinterpret_cast<const unsigned short*>(of.shared->slots[rank].piece[parity])[index]);
        result = rank == 0 ? value : combined(operation, result, value);
    }
    return narrow(result);
}

void reduce(const Communicator& of, int parity, const Shape& shape, unsigned char* to, size_t bytes) {
    for (size_t index = 0; index < bytes / bytes_of(shape.type); ++index) {
        switch (shape.type) {
        case U64: reinterpret_cast<unsigned long long*>(to)[index] = combine<unsigned long long>(of, parity, index, shape.operation); break;
        case U32: reinterpret_cast<unsigned*>(to)[index] = combine<unsigned>(of, parity, index, shape.operation); break;
        case F32: reinterpret_cast<float*>(to)[index] = combine<float>(of, parity, index, shape.operation); break;
        default: reinterpret_cast<unsigned short*>(to)[index] = combine_bf16(of, parity, index, shape.operation);
        }
    }
}

struct Collective {
    std::shared_ptr<Communicator> of;
    Shape shape;
    const unsigned char* from;
    unsigned char* to;
    bool once; // not part of a graph
};

// Waits until a rank has entered a step; false if this rank gives up.
bool wait_for(Communicator& self, int rank, unsigned long long step) {
    const Slot& peer = self.shared->slots[rank];
    const auto start = std::chrono::steady_clock::now();
    bool said = false;
    for (unsigned turns = 0; peer.steps.load(std::memory_order_acquire) < step; ++turns) {
        if (self.aborted) {
            return false;
        }
        if (!said && std::chrono::steady_clock::now() - start > SILENCE) {
            said = true;
            std::fprintf(stderr, "stand-in NCCL: rank %d hangs in collective %llu; rank %d has entered %llu\n", self.rank,
                         self.shared->slots[self.rank].collectives.load(), rank, peer.collectives.load());
        }
        pause(turns);
    }
    return true;
}

void hang(const Communicator& self) {
    for (unsigned turns = 0; !self.aborted; ++turns) {
        pause(turns);
    }
}

// Exchanges one piece with all ranks; false if this rank gave up.
bool exchange(Communicator& self, const Shape& shape, const unsigned char* from, size_t bytes, int& parity) {
    Slot& own = self.shared->slots[self.rank];
    const auto step = own.steps.load() + 1;
    parity = static_cast<int>(step % 2);
    own.shape[parity] = shape;
    std::memcpy(own.piece[parity], from, bytes);
    own.steps.store(step, std::memory_order_release);
    for (int rank = 0; rank < self.ranks; ++rank) {
        if (!wait_for(self, rank, step)) {
            return false;
        }
        if (!(self.shared->slots[rank].shape[parity] == shape)) {
            self.fail(INVALID_USAGE, "its collective " + std::to_string(own.collectives.load()) + " is not that of rank " +
                                         std::to_string(rank));
            hang(self);
            return false;
        }
    }
    return true;
}

void take(const Communicator& self, const Collective& collective, int parity, size_t done, size_t bytes) {
    const Shape& shape = collective.shape;
    const size_t whole = shape.count * bytes_of(shape.type);
    switch (shape.kind) {
    case Kind::AllReduce: reduce(self, parity, shape, collective.to + done, bytes); break;
    case Kind::Broadcast: std::memcpy(collective.to + done, self.shared->slots[shape.root].piece[parity], bytes); break;
    case Kind::AllGather:
        for (int rank = 0; rank < self.ranks; ++rank) {
            std::memcpy(collective.to + static_cast<size_t>(rank) * whole + done, self.shared->slots[rank].piece[parity], bytes);
        }
    }
}

// Runs on the stream.
void run(void* data) {
    auto* collective = static_cast<Collective*>(data);
    Communicator& self = *collective->of;
    if (!self.aborted) {
        ++self.shared->slots[self.rank].collectives;
        const size_t whole = collective->shape.count * bytes_of(collective->shape.type);
        for (size_t done = 0; done < whole; done += PIECE) {
            const size_t bytes = whole - done < PIECE ? whole - done : PIECE;
            int parity = 0;
            if (!exchange(self, collective->shape, collective->from + done, bytes, parity)) {
                break;
            }
            take(self, *collective, parity, done, bytes);
        }
    }
    if (collective->once) {
        --self.pending;
        delete collective;
    }
}

int enqueue(void* handle, void* stream, const Shape& shape, const void* from, void* to) {
    const auto self = find(handle);
    const auto push = reinterpret_cast<Driver>(driver_function("cuLaunchHostFunc"));
    const auto is_capturing = reinterpret_cast<int (*)(void*, int*)>(driver_function("cuStreamIsCapturing"));
    if (!self || self->state != SUCCESS || shape.count == 0) {
        return self && self->state != SUCCESS ? self->state.load() : INVALID_ARGUMENT;
    }
    if (self->stream != nullptr && self->stream != stream) {
        self->fail(INVALID_USAGE, "the stand-in knows one stream for a communicator");
        return INVALID_USAGE;
    }
    self->stream = stream;
    int captured = 0;
    is_capturing(stream, &captured);
    self->pending += captured == 0 ? 1 : 0;
    auto* collective = new Collective{self, shape, static_cast<const unsigned char*>(from), static_cast<unsigned char*>(to), captured == 0};
    push(stream, run, collective);
    self->shared->slots[self->rank].connects = true;
    return self->connected ? SUCCESS : IN_PROGRESS;
}

// Waits until every rank is there, and looks for two on one device.
void gather(const std::shared_ptr<Communicator>& self) {
    std::map<int, int> rank_of_device;
    const char* allowed = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    for (int rank = 0; rank < self->ranks; ++rank) {
        const Slot& slot = self->shared->slots[rank];
        for (unsigned turns = 0; slot.present == 0 && !self->aborted; ++turns) {
            pause(turns);
        }
        const auto [other, fresh] = rank_of_device.emplace(slot.present, rank);
        if (!fresh && !self->aborted && (allowed == nullptr || std::strcmp(allowed, "1") != 0)) {
            self->fail(INVALID_USAGE, "Duplicate GPU detected: ranks " + std::to_string(other->second) + " and " +
                                          std::to_string(rank) + " are on device " + std::to_string(slot.present - 1));
            return;
        }
    }
    self->state = SUCCESS;
}

Shared* attach(const char* path) {
    const int file = open(path, O_RDWR | O_CLOEXEC);
    void* memory = file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return memory == MAP_FAILED ? nullptr : static_cast<Shared*>(memory);
}

// Forgets the communicator once no collective of it runs; its memory stays for the graphs that name it.
int drop(void* handle) {
    const auto self = find(handle);
    if (!self) {
        return INVALID_ARGUMENT;
    }
    const std::lock_guard lock(registry_mutex);
    registry.erase(handle);
    return SUCCESS;
}

} // namespace

API int ncclGetVersion(int* version) {
    *version = VERSION;
    return SUCCESS;
}

API const char* ncclGetErrorString(int result) {
    return result == SUCCESS ? "success" : "an error of the stand-in";
}

API const char* ncclGetLastError(void* handle) {
    const auto self = find(handle);
    return self ? self->last_error.c_str() : "no such communicator, or it was not made";
}

API int ncclGetUniqueId(Identity* identity) {
    const int file = memfd_create("lockstep-standin-nccl", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) {
        return SYSTEM_ERROR;
    }
    std::memset(identity, 0, sizeof *identity);
    std::snprintf(identity->path, sizeof identity->path, "/proc/%d/fd/%d", getpid(), file);
    return SUCCESS;
}

// The head of ncclConfig_t.
struct Config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

API int ncclCommInitRankConfig(void** handle, int ranks, Identity identity, int rank, const Config* config) {
    constexpr unsigned MAGIC = 0xcafebeef;
    const auto device_of = reinterpret_cast<int (*)(int*)>(driver_function("cuCtxGetDevice"));
    *handle = nullptr;
    if (driver_function("lockstep_standin_driver") == nullptr) {
        std::fprintf(stderr, "stand-in NCCL: works with the stand-in of libcuda alone\n");
        return SYSTEM_ERROR;
    }
    int device = 0;
    if (config->magic != MAGIC || rank < 0 || rank >= ranks || ranks > MAX_RANKS || device_of(&device) != 0) {
        return INVALID_ARGUMENT;
    }
    const char* const refuses = std::getenv("STANDIN_REFUSES_NCCL");
    if (refuses != nullptr && std::atoi(refuses) == device) {
        return SYSTEM_ERROR;
    }
    Shared* const shared = attach(identity.path);
    if (shared == nullptr) {
        return SYSTEM_ERROR;
    }
    int expected = 0, absent = 0;
    const bool first = shared->ranks.compare_exchange_strong(expected, ranks);
    if ((!first && expected != ranks) || !shared->slots[rank].present.compare_exchange_strong(absent, device + 1)) {
        return INVALID_ARGUMENT;
    }
    const auto self = std::make_shared<Communicator>();
    self->shared = shared;
    self->rank = rank;
    self->ranks = ranks;
    {
        const std::lock_guard lock(registry_mutex);
        registry[self.get()] = self;
    }
    *handle = self.get();
    if (config->blocking == 0) {
        std::thread([self] { gather(self); }).detach();
        return IN_PROGRESS;
    }
    gather(self);
    return self->state;
}

API int ncclCommGetAsyncError(void* handle, int* error) {
    const auto self = find(handle);
    if (!self) {
        return INVALID_ARGUMENT;
    }
    *error = self->state;
    if (self->state == SUCCESS && self->stream != nullptr && !self->connected) {
        const Slot* slots = self->shared->slots;
        self->connected = std::all_of(slots, slots + self->ranks, [](const Slot& slot) { return slot.connects.load(); });
        *error = self->connected ? SUCCESS : IN_PROGRESS;
    }
    return SUCCESS;
}

API int ncclAllReduce(const void* from, void* to, size_t count, int type, int operation, void* handle, void* stream) {
    const bool known = (operation == SUM || operation == MIN) && (type == U32 || type == U64 || type == F32 || type == BF16);
    return known ? enqueue(handle, stream, {Kind::AllReduce, type, operation, 0, count}, from, to) : INVALID_ARGUMENT;
}

API int ncclBroadcast(const void* from, void* to, size_t count, int type, int root, void* handle, void* stream) {
    return enqueue(handle, stream, {Kind::Broadcast, type, 0, root, count}, from, to);
}

API int ncclAllGather(const void* from, void* to, size_t count, int type, void* handle, void* stream) {
    return enqueue(handle, stream, {Kind::AllGather, type, 0, 0, count}, from, to);
}

API int ncclGroupStart() { return SUCCESS; }

API int ncclGroupEnd() { return SUCCESS; }

// Answers "in progress" until what is enqueued has run.
API int ncclCommFinalize(void* handle) {
    const auto self = find(handle);
    if (!self || self->state != SUCCESS) {
        return self ? self->state.load() : INVALID_ARGUMENT;
    }
    self->state = IN_PROGRESS;
    std::thread([self] {
        for (unsigned turns = 0; self->pending > 0 && !self->aborted; ++turns) {
            pause(turns);
        }
        self->state = SUCCESS;
    }).detach();
    return IN_PROGRESS;
}

API int ncclCommDestroy(void* handle) { return drop(handle); }

API int ncclCommAbort(void* handle) {
    if (const auto self = find(handle)) {
        self->aborted = true;
    }
    return drop(handle);
}
