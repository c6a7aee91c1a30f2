// The parts of `raw_cuda facts INDEX SECONDS [PART…]`: how this driver behaves where its documents leave it open, and
// what that decides for Hotslot. A line of JSON per fact; a process per part, ended after so many seconds.
//
//   part            tells                                               decides
//   loading         seconds of context and kernels; what a graph's      whether a device is made ready before work;
//   whether
//                   first replay, its upload and its memory cost        graphs are uploaded; how many execs a GPU holds
//   firsts          whether a process's first fill, copy, kernel or     whether these are made once before there is
//   work:
//                   replay waits for another stream                     beside a latch such a wait would never end
//   waiting         ms that calls keep their thread beside a busy       which calls may be made while work is queued;
//   which
//                   stream, and beside a thread that frees              wait until nothing is (retired.hpp)
//   products        the same of cuBLAS's start and of new shapes        whether products are warmed before a capture
//   synchronizing   µs of a wait that sleeps and of one that asks       whether allocate() asks a while before it
//   sleeps marks           µs of queries, events and modes                     whether events are kept for marks events
//   whether a replay takes an event back at once        whether an event's answer is enough, or the
//                                                                       stream behind it has to be asked too
//   registering     what registration takes and refuses                 how lent host memory is counted
//   capturing       what a capture bars, and what it leaves behind      which calls change the capture mode; what
//                                                                       endCapture and close() have to clean up
//   managed         where small managed memory lies, what moves with    how far sizes are rounded up; whether a
//   prefetch
//                   it, what a prefetch costs its caller                belongs into a thread of its own
//   holding         how many streams can be held                        how many connections a process asks for
//   losing          the status of every call after a trap               which statuses mean that the device is lost
#pragma once
#include <sys/mman.h>

#include "raw_cuda.hpp"

namespace raw {

void loading(const Rig&, Json&), firsts(const Rig&, Json&), waiting(const Rig&, Json&), products(const Rig&, Json&);
void synchronizing(const Rig&, Json&), marks(const Rig&, Json&), events(const Rig&, Json&), holding(const Rig&, Json&);
void registering(const Rig&, Json&), capturing(const Rig&, Json&), managed(const Rig&, Json&),
    losing(const Rig&, Json&);

constexpr unsigned as_hotslot_registers = host_register_portable | host_register_devicemap;

inline void* pages(size_t count) {
  void* at = mmap(nullptr, count * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (at == MAP_FAILED) fail("no memory");
  return at;
}

// The time of a call beside a stream that is busy for 100 ms: one that does not wait takes next to none. And what it
// answered, when that was no success.
constexpr long long busy_us = 100'000;
template <class F>
void beside_work(const Rig& rig, StreamHandle busy, Json& json, const std::string& what, F&& act) {
  rig.occupy(busy, busy_us);
  const double begin = now_us();
  const Status got = act();
  json.number(("msBeside_" + what).c_str(), (now_us() - begin) / 1000);
  if (got != status::success) json.number(("status_" + what).c_str(), got);
  rig.must(rig.call.stream_synchronize(busy), "cuStreamSynchronize");
}

// A graph of so many small kernels on one element, instantiated as Hotslot does it.
struct SmallGraph {
  const Rig& rig;
  GraphHandle graph = nullptr;
  SmallGraph(const Rig& on, DevicePtr y, DevicePtr x, int nodes) : rig(on) {
    long long n = 1;
    float alpha = 1, beta = 1;
    void* arguments[] = {&y, &x, &n, &alpha, &beta};
    const Function axpby = rig.function("axpby");
    rig.must(rig.call.stream_begin_capture(rig.stream, capture_thread_local), "cuStreamBeginCapture");
    for (int i = 0; i < nodes; ++i) rig.must(rig.launch(axpby, arguments, rig.stream), "cuLaunchKernel");
    rig.must(rig.call.stream_end_capture(rig.stream, &graph), "cuStreamEndCapture");
  }
  ~SmallGraph() { rig.call.graph_destroy(graph); }
  GraphExecHandle instantiate() const {
    GraphExecHandle made = nullptr;
    rig.must(rig.call.graph_instantiate(&made, graph, 0), "cuGraphInstantiateWithFlags");
    return made;
  }
};

// Managed memory through whichever signature the driver has; `to` is a device or device_cpu.
inline Status prefetch(const Rig& rig, DevicePtr at, size_t bytes, DeviceId to, StreamHandle on) {
  const Location place{to == device_cpu ? location_host : location_device, to == device_cpu ? 0 : to};
  if (rig.call.mem_prefetch) return rig.call.mem_prefetch(at, bytes, place, 0, on);
  return rig.call.mem_prefetch_v1 ? rig.call.mem_prefetch_v1(at, bytes, to, on) : Status(status::not_supported);
}
inline Status prefer(const Rig& rig, DevicePtr at, size_t bytes, DeviceId to) {
  const Location place{to == device_cpu ? location_host : location_device, to == device_cpu ? 0 : to};
  if (rig.call.mem_advise) return rig.call.mem_advise(at, bytes, advise_preferred_location, place);
  return rig.call.mem_advise_v1 ? rig.call.mem_advise_v1(at, bytes, advise_preferred_location, to)
                                : Status(status::not_supported);
}
inline bool has_managed(const Rig& rig) {
  int there = 0;
  return rig.call.mem_alloc_managed &&
         rig.call.device_get_attribute(&there, attribute_managed_memory, rig.device) == status::success && there;
}

}  // namespace raw
