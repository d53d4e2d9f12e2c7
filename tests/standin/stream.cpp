// Streams, events and captures. A capture takes work instead of the queue; a graph is that list, and a launch enqueues it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "standin.hpp"

namespace standin {
namespace {

thread_local unsigned captures_of_this_thread = 0;

std::string this_thread() {
    std::ostringstream text;
    text << std::this_thread::get_id();
    return text.str();
}

double now_ms() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double, std::milli>(now).count();
}

} // namespace

void say(const std::string& what) {
    std::fprintf(stderr, "stand-in device: %s\n", what.c_str());
}

long setting(const char* name, long otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::atol(text);
}

bool forbids_unsafe_calls() {
    return captures_of_this_thread > 0;
}

void Device::fail(const std::string& work, const Failure& found) {
    int none = SUCCESS;
    if (failure.compare_exchange_strong(none, found.result)) {
        say("device " + std::to_string(ordinal) + " fails in " + work + ": " + found.evidence);
    }
}

std::shared_ptr<Stream> Stream::make(Device& of) {
    const std::shared_ptr<Stream> made(new Stream(of));
    std::thread([made] { serve(made); }).detach();
    return made;
}

void Stream::serve(const std::shared_ptr<Stream>& stream) {
    std::unique_lock lock(stream->mutex);
    while (true) {
        stream->changed.wait(lock, [&] { return stream->closed || !stream->queue.empty(); });
        if (stream->queue.empty()) {
            return;
        }
        const Work work = std::move(stream->queue.front());
        stream->queue.pop_front();
        stream->busy = true;
        lock.unlock();
        if (work.after_failure || stream->device.failure == SUCCESS) {
            try {
                work.run();
            } catch (const Failure& failure) {
                stream->device.fail(work.name, failure);
            } catch (const std::runtime_error& stuck) {
                stream->device.fail(work.name, {LAUNCH_FAILED, stuck.what()});
            }
        }
        lock.lock();
        stream->busy = false;
        stream->changed.notify_all();
    }
}

Result Stream::submit(Work work) {
    const std::lock_guard lock(mutex);
    if (graph) {
        graph->works.push_back(std::move(work));
        return graph->invalidated ? CAPTURE_INVALIDATED : SUCCESS;
    }
    queue.push_back(std::move(work));
    changed.notify_all();
    return static_cast<Result>(device.failure.load());
}

Result Stream::submit_all(const std::vector<Work>& works) {
    const std::lock_guard lock(mutex);
    if (graph) {
        return invalidate();
    }
    queue.insert(queue.end(), works.begin(), works.end());
    changed.notify_all();
    return static_cast<Result>(device.failure.load());
}

Result Stream::synchronize() {
    std::unique_lock lock(mutex);
    if (graph) {
        return invalidate();
    }
    changed.wait(lock, [this] { return queue.empty() && !busy; });
    return static_cast<Result>(device.failure.load());
}

Result Stream::query() {
    const std::lock_guard lock(mutex);
    if (graph) {
        return invalidate();
    }
    const bool idle = queue.empty() && !busy;
    return device.failure != SUCCESS ? static_cast<Result>(device.failure.load()) : idle ? SUCCESS : NOT_READY;
}

void Stream::close() {
    const std::lock_guard lock(mutex);
    closed = true;
    changed.notify_all();
}

// The answer to a call that a capture does not allow; with the mutex held.
Result Stream::invalidate() {
    graph->invalidated = true;
    return CAPTURE_UNSUPPORTED;
}

Result Stream::record(const std::shared_ptr<Event>& event) {
    const std::scoped_lock lock(mutex, event->mutex);
    event->captured = graph;
    if (graph) {
        return SUCCESS;
    }
    const auto number = ++event->recorded;
    queue.push_back({"an event", [event, number] {
                         const std::lock_guard reached(event->mutex);
                         event->reached = number;
                         event->reached_at_ms = now_ms();
                         event->changed.notify_all();
                     }, true});
    changed.notify_all();
    return static_cast<Result>(device.failure.load());
}

Result Stream::wait(const std::shared_ptr<Event>& event) {
    const std::scoped_lock lock(mutex, event->mutex);
    if (graph != event->captured) {
        // The driver would let a stream join a capture that it waits for; Lockstep captures one stream.
        if (graph) {
            graph->invalidated = true;
        }
        return graph ? CAPTURE_ISOLATION : CAPTURED_EVENT;
    }
    if (graph) {
        return SUCCESS;
    }
    const auto number = event->recorded;
    queue.push_back({"a wait for an event", [event, number] {
                         std::unique_lock reached(event->mutex);
                         event->changed.wait(reached, [&] { return event->reached >= number; });
                     }, true});
    changed.notify_all();
    return static_cast<Result>(device.failure.load());
}

Result Stream::begin_capture(bool thread_bound) {
    const std::lock_guard lock(mutex);
    if (graph) {
        return ILLEGAL_STATE;
    }
    graph = std::make_shared<Graph>();
    if (thread_bound) {
        graph->thread_bound = this_thread();
        ++captures_of_this_thread;
    }
    return SUCCESS;
}

Result Stream::end_capture(std::shared_ptr<Graph>& captured) {
    const std::lock_guard lock(mutex);
    if (!graph) {
        return ILLEGAL_STATE;
    }
    if (!graph->thread_bound.empty()) {
        if (graph->thread_bound != this_thread()) {
            return CAPTURE_WRONG_THREAD;
        }
        --captures_of_this_thread;
    }
    captured = std::move(graph);
    graph.reset();
    return captured->invalidated ? CAPTURE_INVALIDATED : SUCCESS;
}

bool Stream::capturing() {
    const std::lock_guard lock(mutex);
    return graph != nullptr;
}

Result Event::query() {
    const std::lock_guard lock(mutex);
    return captured ? CAPTURED_EVENT : reached < recorded ? NOT_READY : SUCCESS;
}

Result Event::synchronize() {
    std::unique_lock lock(mutex);
    if (captured) {
        return CAPTURED_EVENT;
    }
    const auto number = recorded;
    changed.wait(lock, [&] { return reached >= number; });
    return SUCCESS;
}

} // namespace standin
