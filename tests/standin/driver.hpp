// What the functions of libcuda share: the objects behind their handles, and the calling thread's context.
#pragma once

#include "entry.hpp"
#include "standin.hpp"

#define API extern "C" __attribute__((visibility("default")))

namespace standin {

// Objects behind handles; a handle that was never given, or whose object was destroyed, is noticed.
template <class Type> class Handles {
public:
    void* add(std::shared_ptr<Type> object) {
        const std::lock_guard lock(mutex);
        void* handle = object.get();
        objects[handle] = std::move(object);
        return handle;
    }
    std::shared_ptr<Type> find(void* handle) {
        const std::lock_guard lock(mutex);
        const auto found = objects.find(handle);
        return found == objects.end() ? nullptr : found->second;
    }
    std::vector<std::shared_ptr<Type>> all() {
        const std::lock_guard lock(mutex);
        std::vector<std::shared_ptr<Type>> result;
        for (const auto& [handle, object] : objects) {
            result.push_back(object);
        }
        return result;
    }
    std::shared_ptr<Type> remove(void* handle) {
        const std::shared_ptr<Type> object = find(handle);
        const std::lock_guard lock(mutex);
        objects.erase(handle);
        return object;
    }

private:
    std::mutex mutex;
    std::map<void*, std::shared_ptr<Type>> objects;
};

struct Module {
    std::string ptx;
};

struct Function {
    const Entry& entry;
};

// Never destroyed: threads of streams may outlive main.
struct Driver {
    std::vector<std::shared_ptr<Device>> devices;
    std::vector<std::shared_ptr<Stream>> null_streams;
    Handles<Stream> streams;
    Handles<Event> events;
    Handles<Module> modules;
    Handles<Function> functions;
    Handles<Graph> graphs;     // captured
    Handles<Graph> executable; // instantiated
    std::mutex pinned_mutex;
    std::map<Address, size_t> pinned;
    std::mutex one_kernel; // the shim's fibers know one launch at a time
};

Driver& driver();

// The calling thread's context, which is a device.
extern thread_local Device* current;

// Whether the calling thread has a context, and its device has not failed.
Result state();

// The stream of a handle; null is the device's null stream.
std::shared_ptr<Stream> stream_of(void* handle);

// Enqueues work on the stream of a handle.
Result submit(void* handle, Work work);

bool capturing(void* handle);

} // namespace standin
