// The functions of libcuda about streams, events and graphs; and what all of its functions share.
#include "driver.hpp"

namespace standin {

Driver& driver() {
    static Driver& all = *[] {
        auto* made = new Driver;
        for (int ordinal = 0; ordinal < setting("STANDIN_DEVICES", 1); ++ordinal) {
            made->devices.push_back(std::make_shared<Device>(ordinal));
            made->null_streams.push_back(Stream::make(*made->devices.back()));
        }
        return made;
    }();
    return all;
}

thread_local Device* current = nullptr;

Result state() {
    return current == nullptr ? INVALID_CONTEXT : static_cast<Result>(current->failure.load());
}

std::shared_ptr<Stream> stream_of(void* handle) {
    return handle != nullptr || current == nullptr ? driver().streams.find(handle) : driver().null_streams[current->ordinal];
}

Result submit(void* handle, Work work) {
    const auto stream = stream_of(handle);
    return current == nullptr ? INVALID_CONTEXT : stream ? stream->submit(std::move(work)) : INVALID_HANDLE;
}

bool capturing(void* handle) {
    const auto stream = stream_of(handle);
    return stream && stream->capturing();
}

} // namespace standin

using namespace standin;

// ---- streams and events

API int cuStreamCreateWithPriority(void** stream, unsigned, int) {
    if (current == nullptr) {
        return INVALID_CONTEXT;
    }
    *stream = driver().streams.add(Stream::make(*current));
    return SUCCESS;
}

API int cuStreamCreate(void** stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

API int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return SUCCESS;
}

API int cuStreamDestroy_v2(void* stream) {
    const auto removed = driver().streams.remove(stream);
    if (removed) {
        removed->close();
    }
    return removed ? SUCCESS : INVALID_HANDLE;
}

API int cuStreamSynchronize(void* stream) {
    const auto found = stream_of(stream);
    return found ? found->synchronize() : INVALID_HANDLE;
}

API int cuStreamQuery(void* stream) {
    const auto found = stream_of(stream);
    return found ? found->query() : INVALID_HANDLE;
}

API int cuEventCreate(void** event, unsigned flags) {
    constexpr unsigned DISABLE_TIMING = 2;
    *event = driver().events.add(std::make_shared<Event>((flags & DISABLE_TIMING) == 0));
    return state();
}

API int cuEventDestroy_v2(void* event) { return driver().events.remove(event) ? SUCCESS : INVALID_HANDLE; }

API int cuEventRecord(void* event, void* stream) {
    const auto found = driver().events.find(event);
    const auto on = stream_of(stream);
    return found && on ? on->record(found) : INVALID_HANDLE;
}

API int cuStreamWaitEvent(void* stream, void* event, unsigned) {
    const auto found = driver().events.find(event);
    const auto on = stream_of(stream);
    return found && on ? on->wait(found) : INVALID_HANDLE;
}

API int cuEventQuery(void* event) {
    const auto found = driver().events.find(event);
    return !found ? INVALID_HANDLE : state() > SUCCESS && state() != INVALID_CONTEXT ? state() : found->query();
}

API int cuEventSynchronize(void* event) {
    const auto found = driver().events.find(event);
    return !found ? INVALID_HANDLE : forbids_unsafe_calls() ? CAPTURE_UNSUPPORTED : found->synchronize();
}

API int cuEventElapsedTime_v2(float* milliseconds, void* start, void* end) {
    const auto from = driver().events.find(start), to = driver().events.find(end);
    if (!from || !to || !from->timed || !to->timed) {
        return INVALID_HANDLE;
    }
    *milliseconds = static_cast<float>(to->reached_at_ms - from->reached_at_ms);
    return SUCCESS;
}

// ---- graphs

API int cuStreamBeginCapture_v2(void* stream, int mode) {
    constexpr int RELAXED = 2;
    const auto found = driver().streams.find(stream); // the null stream cannot be captured
    return found ? found->begin_capture(mode != RELAXED) : CAPTURE_UNSUPPORTED;
}

API int cuStreamEndCapture(void* stream, void** graph) {
    const auto found = driver().streams.find(stream);
    std::shared_ptr<Graph> captured;
    const Result result = found ? found->end_capture(captured) : INVALID_HANDLE;
    *graph = result == SUCCESS ? driver().graphs.add(captured) : nullptr;
    return result;
}

API int cuStreamIsCapturing(void* stream, int* status) {
    *status = capturing(stream) ? 1 : 0;
    return SUCCESS;
}

API int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
    const auto found = driver().graphs.find(graph);
    if (!found) {
        return INVALID_HANDLE;
    }
    if (current != nullptr && current->ordinal == setting("STANDIN_REFUSES_GRAPHS", -1)) {
        return NOT_SUPPORTED;
    }
    *executable = driver().executable.add(std::make_shared<Graph>(*found));
    return SUCCESS;
}

API int cuGraphLaunch(void* executable, void* stream) {
    const auto found = driver().executable.find(executable);
    const auto on = stream_of(stream);
    return found && on ? on->submit_all(found->works) : INVALID_HANDLE;
}

API int cuGraphUpload(void* executable, void*) { return driver().executable.find(executable) ? SUCCESS : INVALID_HANDLE; }

API int cuGraphExecDestroy(void* executable) { return driver().executable.remove(executable) ? SUCCESS : INVALID_HANDLE; }

API int cuGraphDestroy(void* graph) { return driver().graphs.remove(graph) ? SUCCESS : INVALID_HANDLE; }
