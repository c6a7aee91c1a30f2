// The parts of `raw_cuda facts INDEX SECONDS [PART…]`: how this driver behaves where its documents leave it open, and
// what that decides for Hotslot. A line of JSON per fact; a process per part, ended after so many seconds.
//
// loading        secondsOfContext secondsOfModuleLoad     long when warm too: kernels must be kept by Hotslot itself
//                usFirstReplay100 …AfterUpload            apart: instantiate() should upload
//                bytesPerExec10 …Replayed …Destroyed      how many execs a card holds; whether destroying gives back
// firsts         msBeside_ msUntilDone_first…             near 100: openDevice makes it once, before there is work, for
//                                                         behind a latch it would never come
// waiting        msBeside_memFree freeHost hostUnregister near 100: freed only when nothing is queued (retired.hpp)
//                msBeside_memAlloc hostAlloc allocManaged near 100: memory is taken from what is kept, not asked for
//                msBeside_hostRegister memAdvise prefetch near 100: not in the thread that enqueues
//                msBeside_moduleLoad graphInstantiate     near 100: never beside a running pipeline
//                  execUpdate execDestroy
//                msBeside_copyFromPageable copyToPageable near 100: no pageable memory in the pipeline
//                msWhileAnotherFrees_…                    near 80: a free keeps all threads out, not its own alone
// products       msBeside_cublasCreate sgemmFirst         near 100: cuBLAS starts at openDevice; shapes are warmed
//                  sgemmTransposed sgemmLarge               before a capture
//                inCapture_ endCapture_sgemmNewShape      not 0: a shape must have run before it is captured
// synchronizing  usOfMemsetAndSynchronize …Asking         far apart: allocate() asks a while before it sleeps
// marks          usOfEventMadeRecordedDestroyed…          far above usOfEventRecord…: marks keep their events
//                usOfStreamQuery… ContextGet ExchangeMode a poll makes four such calls
// events         eventQueryAfterGraphLaunch SecondLaunch  not 600: the stream behind an event is asked first
//                waiterQueryAfter…                        0: who waits for an event of a graph waits for nothing
// registering    registerOverlapping registerSamePageApart what counts as taken: bytes (712, 0) or pages (712, 712)
// capturing      inCapture_ endCapture_…                  which calls need the relaxed mode (900, 901)
//                unjoined_… destroyed_…                   not 0: endCapture and close must free the side streams
// managed        smallAddressesApart                      below 65536, and the other preferred or prefetched too: sizes
//                preferredOf… prefetchedOf…                 are rounded up to what moves as one
//                msOfPrefetch_…                           near msUntilPrefetched_…: the call does the work itself
// holding        streamsHeldBesideAFreeOne …BehindThem    below 31 with 32 connections: streams have to be shared out
// losing         trap lostStatuses                        a number that loses_context() does not know; 0: it goes on
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
