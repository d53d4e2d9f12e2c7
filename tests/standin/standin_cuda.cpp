// The functions of libcuda about devices, memory, modules and launches, on the stand-in of standin.hpp. A function that
// cudarc looks for and that is nowhere makes cudarc panic with its name, so what is missing shows at once.
//
// Set by the environment: STANDIN_DEVICES (1 if unset), STANDIN_MEMORY_MIB of each device (4096).
// Other than on a GPU: kernels run one at a time in a process; a capture stays on one stream and takes neither
// allocations nor copies of pageable memory; the null stream does not wait for the others.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver.hpp"
#include "fiber_shim.hpp"

using namespace standin;

namespace {

constexpr int DRIVER_VERSION = 13000;
constexpr int CAPABILITY = 90; // sm_90
constexpr int NEWEST_ISA = 90; // PTX 9.0, of CUDA 13.0
constexpr unsigned MAX_THREADS = 1024, MAX_SHARED_BYTES = 48 << 10;

bool pinned(const void* host, size_t bytes) {
    const std::lock_guard lock(driver().pinned_mutex);
    const auto address = reinterpret_cast<Address>(host);
    const auto after = driver().pinned.upper_bound(address);
    if (after == driver().pinned.begin()) {
        return false;
    }
    const auto& [start, size] = *std::prev(after);
    return address - start <= size && bytes <= size - (address - start);
}

// The number after a directive, without its dot: 90 for both ".version 9.0" and ".target sm_90".
int directive(const std::string& ptx, const std::string& name) {
    const size_t place = ptx.find(name);
    int number = 0;
    for (size_t next = place == std::string::npos ? ptx.size() : place + name.size(); next < ptx.size(); ++next) {
        if (ptx[next] == '.') {
            continue;
        }
        if (ptx[next] < '0' || ptx[next] > '9') {
            break;
        }
        number = 10 * number + ptx[next] - '0';
    }
    return number;
}

// A launch's own copy of its arguments.
struct Arguments {
    std::vector<std::vector<unsigned char>> values;

    Arguments(const Entry& entry, void** given) {
        for (const Parameter& parameter : entry.parameters) {
            const auto* bytes = static_cast<unsigned char*>(*given++);
            values.emplace_back(bytes, bytes + parameter.bytes);
        }
    }
    void inspect_buffers(const Entry& entry) const {
        for (size_t place = 0; place < values.size(); ++place) {
            if (entry.parameters[place].buffer) {
                Address address = 0;
                std::memcpy(&address, values[place].data(), sizeof address);
                inspect(address);
            }
        }
    }
};

void run_kernel(const Entry& entry, const fiber::Grid& grid, Arguments& arguments) {
    std::vector<void*> pointers;
    for (auto& value : arguments.values) {
        pointers.push_back(value.data());
    }
    arguments.inspect_buffers(entry);
    {
        const std::lock_guard lock(driver().one_kernel);
        run_watched([&] { fiber::launch(grid, entry.call, pointers.data()); });
    }
    arguments.inspect_buffers(entry);
}

void copy(void* to, const void* from, size_t bytes) {
    run_watched([=] { std::memcpy(to, from, bytes); });
}

void* host(Address address) {
    return reinterpret_cast<void*>(address);
}

} // namespace

// Tells the stand-in of NCCL that device memory is this process's.
API int lockstep_standin_driver() { return 1; }

// ---- the driver and its devices

API int cuInit(unsigned) { return SUCCESS; }

API int cuDriverGetVersion(int* version) {
    *version = static_cast<int>(setting("STANDIN_DRIVER", DRIVER_VERSION));
    return SUCCESS;
}

API int cuGetErrorName(int error, const char** name) {
    static std::map<int, std::string>& names = *new std::map<int, std::string>;
    static std::mutex& mutex = *new std::mutex;
    const std::lock_guard lock(mutex);
    *name = names.emplace(error, "stand-in CUresult " + std::to_string(error)).first->second.c_str();
    return SUCCESS;
}

API int cuGetErrorString(int error, const char** text) { return cuGetErrorName(error, text); }

API int cuDeviceGetCount(int* count) {
    *count = static_cast<int>(driver().devices.size());
    return SUCCESS;
}

API int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return ordinal >= 0 && static_cast<size_t>(ordinal) < driver().devices.size() ? SUCCESS : INVALID_DEVICE;
}

API int cuDeviceGetName(char* name, int bytes, int) {
    std::snprintf(name, static_cast<size_t>(bytes), "Lockstep stand-in (no GPU)");
    return SUCCESS;
}

API int cuDeviceTotalMem_v2(size_t* bytes, int) {
    *bytes = total_bytes();
    return SUCCESS;
}

API int cuDeviceGetAttribute(int* value, int attribute, int) {
    // Threads of a block, its shared memory, multiprocessors, capability (major, minor), memory pools.
    static const std::map<int, int>& known = *new std::map<int, int>{
        {1, MAX_THREADS}, {8, MAX_SHARED_BYTES}, {16, 1}, {75, CAPABILITY / 10}, {76, CAPABILITY % 10}, {115, 1}};
    const auto found = known.find(attribute);
    if (found == known.end()) {
        say("attribute " + std::to_string(attribute) + " is not known");
        return INVALID_VALUE;
    }
    *value = found->second;
    return SUCCESS;
}

// ---- contexts: the primary one of each device, whose handle is the device

API int cuDevicePrimaryCtxRetain(void** context, int device) {
    *context = driver().devices.at(static_cast<size_t>(device)).get();
    return SUCCESS;
}

API int cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }

API int cuCtxSetCurrent(void* context) {
    current = static_cast<Device*>(context);
    return SUCCESS;
}

API int cuCtxGetCurrent(void** context) {
    *context = current;
    return SUCCESS;
}

API int cuCtxGetDevice(int* device) {
    *device = current == nullptr ? -1 : current->ordinal;
    return current == nullptr ? INVALID_CONTEXT : SUCCESS;
}

API int cuCtxSynchronize() {
    if (current == nullptr || forbids_unsafe_calls()) {
        return current == nullptr ? INVALID_CONTEXT : CAPTURE_UNSUPPORTED;
    }
    auto streams = driver().streams.all();
    streams.push_back(driver().null_streams[current->ordinal]);
    for (const auto& stream : streams) {
        if (&stream->device == current && stream->synchronize() == CAPTURE_UNSUPPORTED) {
            return CAPTURE_UNSUPPORTED;
        }
    }
    return state();
}

// ---- memory

API int cuMemAllocAsync(Address* address, size_t bytes, void* stream) {
    if (const Result result = state(); result != SUCCESS || bytes == 0) {
        return result != SUCCESS ? result : INVALID_VALUE;
    }
    if (capturing(stream) || forbids_unsafe_calls()) {
        return CAPTURE_UNSUPPORTED;
    }
    *address = allocate(current->ordinal, bytes);
    return *address == 0 ? OUT_OF_MEMORY : SUCCESS;
}

API int cuMemAlloc_v2(Address* address, size_t bytes) { return cuMemAllocAsync(address, bytes, nullptr); }

API int cuMemFreeAsync(Address address, void* stream) {
    return submit(stream, {"a free", [address] {
                               if (!release(address)) {
                                   throw Failure{INVALID_VALUE, "memory is freed that is not allocated"};
                               }
                           }});
}

API int cuMemFree_v2(Address address) { return release(address) ? SUCCESS : INVALID_VALUE; }

API int cuMemGetInfo_v2(size_t* available, size_t* total) {
    *total = total_bytes();
    *available = current == nullptr ? 0 : free_bytes(current->ordinal);
    return state();
}

API int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
    *memory = std::malloc(bytes);
    const std::lock_guard lock(driver().pinned_mutex);
    driver().pinned[reinterpret_cast<Address>(*memory)] = bytes;
    return *memory == nullptr ? OUT_OF_MEMORY : SUCCESS;
}

API int cuMemFreeHost(void* memory) {
    const std::lock_guard lock(driver().pinned_mutex);
    const bool known = driver().pinned.erase(reinterpret_cast<Address>(memory)) == 1;
    if (known) {
        std::free(memory);
    }
    return known ? SUCCESS : INVALID_VALUE;
}

// ---- copies: pinned memory is read and written when the stream gets there, pageable memory before the call returns, and more
// of it than the driver takes over at once only when the stream has got there

API int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
    if (pinned(from, bytes)) {
        return submit(stream, {"a copy to the device", [=] {
                                   require(to, bytes);
                                   copy(host(to), from, bytes);
                               }});
    }
    if (capturing(stream)) {
        return CAPTURE_UNSUPPORTED;
    }
    constexpr size_t AT_ONCE = 64 << 10;
    if (bytes > AT_ONCE) {
        if (const Result result = stream_of(stream) ? stream_of(stream)->synchronize() : INVALID_HANDLE; result != SUCCESS) {
            return result;
        }
    }
    const auto* start = static_cast<const unsigned char*>(from);
    auto staged = std::make_shared<std::vector<unsigned char>>(start, start + bytes);
    return submit(stream, {"a copy to the device", [=] {
                               require(to, bytes);
                               copy(host(to), staged->data(), bytes);
                           }});
}

API int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
    const bool at_once = !pinned(to, bytes);
    if (at_once && capturing(stream)) {
        return CAPTURE_UNSUPPORTED;
    }
    const Result result = submit(stream, {"a copy from the device", [=] {
                                              require(from, bytes);
                                              copy(to, host(from), bytes);
                                          }});
    return result == SUCCESS && at_once ? stream_of(stream)->synchronize() : result;
}

API int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
    return submit(stream, {"a copy on the device", [=] {
                               require(from, bytes);
                               require(to, bytes);
                               copy(host(to), host(from), bytes);
                           }});
}

API int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void* stream) {
    return submit(stream, {"a fill", [=] {
                               require(to, bytes);
                               run_watched([=] { std::memset(host(to), value, bytes); });
                           }});
}

// ---- modules and launches

API int cuModuleLoadData(void** module, const void* image) {
    const std::string ptx = static_cast<const char*>(image);
    const int isa = directive(ptx, ".version "), target = directive(ptx, ".target sm_");
    if (isa == 0 || target == 0) {
        return INVALID_IMAGE;
    }
    if (isa > NEWEST_ISA || target > CAPABILITY) {
        return isa > NEWEST_ISA ? UNSUPPORTED_PTX_VERSION : NO_BINARY_FOR_GPU;
    }
    *module = driver().modules.add(std::make_shared<Module>(Module{ptx}));
    return state();
}

API int cuModuleUnload(void* module) { return driver().modules.remove(module) ? SUCCESS : INVALID_HANDLE; }

// The entry must be in the module's PTX, and in the sources that the stand-in was made of.
API int cuModuleGetFunction(void** function, void* module, const char* name) {
    const auto found = driver().modules.find(module);
    if (!found) {
        return INVALID_HANDLE;
    }
    const auto named = [name](const Entry& entry) { return std::strcmp(entry.name, name) == 0; };
    const auto entry = std::find_if(entries().begin(), entries().end(), named);
    if (found->ptx.find(".entry " + std::string(name) + "(") == std::string::npos || entry == entries().end()) {
        return NOT_FOUND;
    }
    *function = driver().functions.add(std::make_shared<Function>(Function{*entry}));
    return SUCCESS;
}

API int cuLaunchKernel(void* function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                       unsigned threads_y, unsigned threads_z, unsigned shared_bytes, void* stream, void** given, void**) {
    const auto found = driver().functions.find(function);
    if (!found) {
        return INVALID_HANDLE;
    }
    const unsigned long long threads = 1ull * threads_x * threads_y * threads_z;
    const bool empty = blocks_x == 0 || blocks_y == 0 || blocks_z == 0 || threads == 0;
    if (empty || threads > MAX_THREADS || blocks_y > 65535 || blocks_z > 65535 || shared_bytes > MAX_SHARED_BYTES) {
        return INVALID_VALUE;
    }
    const fiber::Grid grid{{blocks_x, blocks_y, blocks_z}, {threads_x, threads_y, threads_z}, shared_bytes, 0};
    const Arguments arguments(found->entry, given);
    return submit(stream, {found->entry.name, [found, grid, arguments] {
                               Arguments own = arguments;
                               run_kernel(found->entry, grid, own);
                           }});
}

API int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
    return submit(stream, {"a host function", [=] { function(data); }});
}
