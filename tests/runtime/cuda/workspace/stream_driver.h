// stream_driver.h: a driver with streams, captures, graphs and events, none of which runs anything.
// Owns: device memory that is the host's and counted; numbers of streams; captures that a test begins and ends; user
// objects with their references; events that a test finishes.
// Never: launches.
// Threads: one test at a time has it; what threads of a test share is atomic or under a mutex.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/cuda/driver/driver.h"

namespace gqa::test {

struct FakeObject {
  void* data;
  CUhostFn destroy;
  unsigned references;
};
struct FakeGraph {
  std::vector<FakeObject*> objects;
};
struct FakeEvent {
  std::atomic<bool> done{true};  // one that was never recorded is
};
struct FakeCapture {
  std::uint64_t id;
  FakeGraph* graph;
};

// What the driver did and does; a fixture makes it anew.
struct StreamDriver {
  static inline StreamDriver* now = nullptr;
  static inline thread_local unsigned long long thread_stream = 0;  // the number of CU_STREAM_PER_THREAD here

  std::mutex mutex;
  std::map<CUdeviceptr, std::size_t> sizes;  // of device memory
  std::map<CUstream, FakeCapture> captures;
  std::vector<CUstream> zeroed;  // streams that a memset was queued on
  std::atomic<std::int64_t> calls{0};
  std::atomic<int> allocations{0}, modes{0};
  std::atomic<bool> finished{true};  // events are done as soon as they are recorded
  std::size_t held_bytes = 0, most_bytes = 0;
  std::atomic<int> events{0};
  CUresult allocation = CUDA_SUCCESS, retention = CUDA_SUCCESS, recording = CUDA_SUCCESS;
  std::map<CUstream, unsigned long long> numbers;  // where they are not the handle's own

  StreamDriver() { now = this; }
  ~StreamDriver() { now = nullptr; }
  StreamDriver(const StreamDriver&) = delete;
  StreamDriver& operator=(const StreamDriver&) = delete;

  FakeGraph* begin(CUstream stream, std::uint64_t id, FakeGraph* joined = nullptr) {
    FakeGraph* const graph = joined != nullptr ? joined : new FakeGraph;
    captures[stream] = {id, graph};
    return graph;
  }
  void end(CUstream stream) { captures.erase(stream); }
  // What instantiating does: another owner of every reference.
  static FakeGraph* cloned(const FakeGraph& graph) {
    for (FakeObject* object : graph.objects) ++object->references;
    return new FakeGraph(graph);
  }
  static void destroy(FakeGraph* graph) {
    for (FakeObject* object : graph->objects) release(object);
    delete graph;
  }
  static void release(FakeObject* object) {
    if (--object->references > 0) return;
    object->destroy(object->data);
    delete object;
  }
  static Driver driver() {
    Driver d;
    add_memory(&d);
    add_streams(&d);
    add_graphs(&d);
    add_events(&d);
    return d;
  }

 private:
  static void add_memory(Driver* driver);
  static void add_streams(Driver* driver);
  static void add_graphs(Driver* driver);
  static void add_events(Driver* driver);
};

inline void StreamDriver::add_memory(Driver* driver) {
  Driver& d = *driver;
  d.cuMemAlloc = [](CUdeviceptr* address, std::size_t bytes) {
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;  // as the real one
    if (now->allocation != CUDA_SUCCESS) return now->allocation;
    void* const memory = std::malloc(bytes);
    std::memset(memory, 0xcd, bytes);
    *address = reinterpret_cast<CUdeviceptr>(memory);
    const std::lock_guard lock(now->mutex);
    now->sizes[*address] = bytes;
    now->held_bytes += bytes;
    now->most_bytes = std::max(now->most_bytes, now->held_bytes);
    ++now->allocations;
    return CUDA_SUCCESS;
  };
  d.cuMemFree = [](CUdeviceptr address) {
    const std::lock_guard lock(now->mutex);
    now->held_bytes -= now->sizes.at(address);
    now->sizes.erase(address);
    std::free(reinterpret_cast<void*>(address));
    return CUDA_SUCCESS;
  };
  d.cuMemsetD8Async = [](CUdeviceptr address, unsigned char value, std::size_t count, CUstream) {
    std::memset(reinterpret_cast<void*>(address), value, count);
    return CUDA_SUCCESS;
  };
  d.cuMemsetD32Async = [](CUdeviceptr address, unsigned value, std::size_t count, CUstream stream) {
    std::fill_n(reinterpret_cast<unsigned*>(address), count, value);
    const std::lock_guard lock(now->mutex);
    now->zeroed.push_back(stream);
    return CUDA_SUCCESS;
  };
  d.cuMemcpyDtoHAsync = [](void* to, CUdeviceptr from, std::size_t bytes, CUstream) {
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return CUDA_SUCCESS;
  };
}

inline void StreamDriver::add_streams(Driver* driver) {
  Driver& d = *driver;
  d.cuStreamSynchronize = [](CUstream) { return CUDA_SUCCESS; };
  d.cuStreamGetCaptureInfo = [](CUstream stream, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph,
                                const CUgraphNode**, std::size_t*) {
    ++now->calls;
    const auto found = now->captures.find(stream);
    const bool captured = found != now->captures.end();
    *status = captured ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
    if (captured) *id = found->second.id;
    if (captured && graph != nullptr) *graph = reinterpret_cast<CUgraph>(found->second.graph);
    return CUDA_SUCCESS;
  };
  d.cuStreamGetId = [](CUstream stream, unsigned long long* id) {
    ++now->calls;
    if (now->captures.count(stream) > 0) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // as the real one
    const auto found = now->numbers.find(stream);
    *id = stream == CU_STREAM_PER_THREAD ? thread_stream
          : found != now->numbers.end()  ? found->second
                                         : reinterpret_cast<std::uintptr_t>(stream);
    return CUDA_SUCCESS;
  };
  d.cuThreadExchangeStreamCaptureMode = [](CUstreamCaptureMode*) {
    ++now->modes;
    return CUDA_SUCCESS;
  };
}

inline void StreamDriver::add_graphs(Driver* driver) {
  Driver& d = *driver;
  d.cuUserObjectCreate = [](CUuserObject* object, void* data, CUhostFn destroy, unsigned references, unsigned flags) {
    if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
    *object = reinterpret_cast<CUuserObject>(new FakeObject{data, destroy, references});
    return CUDA_SUCCESS;
  };
  d.cuUserObjectRelease = [](CUuserObject object, unsigned) {
    release(reinterpret_cast<FakeObject*>(object));
    return CUDA_SUCCESS;
  };
  d.cuGraphRetainUserObject = [](CUgraph graph, CUuserObject object, unsigned count, unsigned flags) {
    if (now->retention != CUDA_SUCCESS) return now->retention;
    auto* const retained = reinterpret_cast<FakeObject*>(object);
    if (flags != CU_GRAPH_USER_OBJECT_MOVE) retained->references += count;
    reinterpret_cast<FakeGraph*>(graph)->objects.push_back(retained);
    return CUDA_SUCCESS;
  };
}

inline void StreamDriver::add_events(Driver* driver) {
  Driver& d = *driver;
  d.cuEventCreate = [](CUevent* event, unsigned) {
    *event = reinterpret_cast<CUevent>(new FakeEvent);
    ++now->events;
    return CUDA_SUCCESS;
  };
  d.cuEventDestroy = [](CUevent event) {
    delete reinterpret_cast<FakeEvent*>(event);
    --now->events;
    return CUDA_SUCCESS;
  };
  d.cuEventRecord = [](CUevent event, CUstream) {
    ++now->calls;
    if (now->recording == CUDA_SUCCESS) reinterpret_cast<FakeEvent*>(event)->done = now->finished.load();
    return now->recording;
  };
  d.cuEventQuery = [](CUevent event) {
    return reinterpret_cast<FakeEvent*>(event)->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
  };
  d.cuGetErrorName = d.cuGetErrorString = [](CUresult, const char** text) {
    *text = "refused by the test";
    return CUDA_SUCCESS;
  };
}

}  // namespace gqa::test
