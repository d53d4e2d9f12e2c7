// A STAND-IN, NOT A DRIVER: what the tests load in place of libcuda, on machines without a GPU. Nothing of it is shipped.
//
//   standin_cuda.cpp, standin_streams.cpp
//                      the driver's functions, as far as Lockstep calls them; driver.hpp is what they share
//   stream.cpp         streams, which are threads; events; captured graphs
//   memory.cpp         device memory, which is this process's memory, watched
//   standin_nccl.cpp   a library of its own, libnccl: it sees the stand-in through the driver's functions alone
//
// A launch runs the kernel's own CUDA source, through the fibers of kernels/shim. What a device leaves undefined is made
// visible: fresh memory is 0xA5, and an access to what is freed or beyond an allocation fails the device, as on a GPU.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace standin {

using Address = unsigned long long; // a CUdeviceptr

// CUresult, as far as the stand-in answers it.
enum Result : int {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    NO_BINARY_FOR_GPU = 209,
    UNSUPPORTED_PTX_VERSION = 222,
    INVALID_HANDLE = 400,
    ILLEGAL_STATE = 401,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
    CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED = 901,
    CAPTURE_ISOLATION = 905,
    CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD = 908,
};

// Tells the person who reads the test's errors what the code of a Result cannot.
void say(const std::string& what);

// A number from the environment.
long setting(const char* name, long otherwise);

// An asynchronous failure, thrown by work on a stream.
struct Failure {
    Result result;
    std::string evidence;
};

// ---- memory.cpp

// Memory of `bytes` that are 0xA5, aligned to 256; 0 if the device has no more.
Address allocate(int device, size_t bytes);
// Frees; false if `start` is no live allocation's start.
bool release(Address start);
// Throws Failure unless the bytes lie in one live allocation.
void require(Address from, size_t bytes);
// Throws Failure if something was written around the allocation of `inside`, or it is freed.
void inspect(Address inside);
size_t free_bytes(int device);
size_t total_bytes();
// Runs work; throws Failure if it touches device memory that it may not.
void run_watched(const std::function<void()>& work);

// ---- stream.cpp

struct Device {
    explicit Device(int number) : ordinal(number) {}

    const int ordinal;
    std::atomic<int> failure{SUCCESS}; // the first; as on a GPU, it stays

    void fail(const std::string& work, const Failure& failure);
};

struct Work {
    std::string name;
    std::function<void()> run; // may run several times, if it is part of a graph
    bool after_failure = false;
};

struct Graph {
    std::vector<Work> works;
    bool invalidated = false;
    std::string thread_bound; // the id of the thread that must end it; empty if any may
};

class Event;

// Work in the order it was enqueued, on a thread of its own.
class Stream : public std::enable_shared_from_this<Stream> {
public:
    static std::shared_ptr<Stream> make(Device& of);

    // Enqueues, or adds to the graph that is being captured.
    Result submit(Work work);
    Result submit_all(const std::vector<Work>& works);
    Result synchronize();
    Result query();
    // Ends the thread once everything has run; does not wait for that.
    void close();

    Result record(const std::shared_ptr<Event>& event);
    Result wait(const std::shared_ptr<Event>& event);

    Result begin_capture(bool thread_bound);
    Result end_capture(std::shared_ptr<Graph>& graph);
    bool capturing();

    Device& device;

private:
    explicit Stream(Device& of) : device(of) {}
    static void serve(const std::shared_ptr<Stream>& stream);
    Result invalidate();

    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Work> queue;
    bool busy = false, closed = false;
    std::shared_ptr<Graph> graph; // that is being captured
};

// A place in a stream. Records are numbered; a wait is for the record that is the last when it is enqueued.
class Event {
public:
    explicit Event(bool is_timed) : timed(is_timed) {}
    Result query();
    Result synchronize();

    std::mutex mutex;
    std::condition_variable changed;
    unsigned long long recorded = 0, reached = 0;
    std::shared_ptr<Graph> captured; // the graph in whose capture it was last recorded
    const bool timed;
    double reached_at_ms = 0.0;
};

// Whether this thread is within a capture that forbids what might synchronise.
bool forbids_unsafe_calls();

} // namespace standin
