// Calls the CUDA driver without Hotslot. Each command but facts prints one JSON object.
// raw_cuda calls INDEX ROUNDS: microseconds of the calling thread per driver call, as medians over
// bursts.
// raw_cuda copy INDEX ROUNDS BYTES: milliseconds of a host-to-device copy on the device's clock,
// from memory that the driver allocated and from memory that it registered.
// raw_cuda facts INDEX SECONDS [PART…]: how the driver behaves, see cuda_facts.hpp.
// raw_cuda keep INDEX SECONDS: keeps a context open. Otherwise the driver may start anew for every
// other process.
// raw_cuda spin INDEX SECONDS: keeps the GPU busy, so that others can read its clocks and link
// speed under load.
#include "raw_cuda.hpp"

#include <unistd.h>

#include <cstring>

namespace raw {
namespace {

// Limits of a burst: its calls, and the kernels that they launch. A queue has about a thousand
// entries, so the caller never waits for the device.
constexpr int max_calls = 200, max_nodes = 500;

template <class F>
double per_call(const Rig& rig, int rounds, F&& act, int burst = max_calls) {
  std::vector<double> times;
  for (int round = -3; round < rounds; ++round) {
    const double begin = now_us();
    for (int i = 0; i < burst; ++i) act();
    if (round >= 0) times.push_back((now_us() - begin) / burst);
    rig.synchronize();
  }
  return median(times);
}

void calls(const Rig& rig, int rounds, Json& json) {
  const auto& call = rig.call;
  DevicePtr y = rig.allocate(4), x = rig.allocate(4);
  long long n = 1;
  float alpha = 1, beta = 1;
  void* arguments[] = {&y, &x, &n, &alpha, &beta};
  const Function axpby = rig.function("axpby");
  const auto launch = [&] { rig.must(rig.launch(axpby, arguments, rig.stream), "cuLaunchKernel"); };
  json.number("launch", per_call(rig, rounds, launch));
  for (const int nodes : {1, 100}) {
    GraphHandle graph = nullptr;
    GraphExecHandle exec = nullptr;
    rig.must(call.stream_begin_capture(rig.stream, capture_thread_local), "cuStreamBeginCapture");
    for (int i = 0; i < nodes; ++i) launch();
    rig.must(call.stream_end_capture(rig.stream, &graph), "cuStreamEndCapture");
    rig.must(call.graph_instantiate(&exec, graph, 0), "cuGraphInstantiateWithFlags");
    const int burst = std::min(max_calls, max_nodes / nodes);
    const auto replay = [&] { rig.must(call.graph_launch(exec, rig.stream), "cuGraphLaunch"); };
    json.number(("replay" + std::to_string(nodes)).c_str(), per_call(rig, rounds, replay, burst));
    json.number(("burst" + std::to_string(nodes)).c_str(), burst);
    rig.must(call.graph_exec_destroy(exec), "cuGraphExecDestroy");
    rig.must(call.graph_destroy(graph), "cuGraphDestroy");
  }
  for (const bool timing : {false, true}) {
    const EventHandle event = rig.new_event(timing ? event_default : event_disable_timing);
    const char* names[] = {timing ? "recordTiming" : "record", timing ? "queryTiming" : "query"};
    json.number(names[0], per_call(rig, rounds, [&] {
                  rig.must(call.event_record(event, rig.stream), "cuEventRecord");
                }));
    json.number(names[1],
                per_call(rig, rounds, [&] { rig.must(call.event_query(event), "cuEventQuery"); }));
    rig.must(call.event_destroy(event), "cuEventDestroy");
  }
}

void copy(const Rig& rig, int rounds, size_t bytes, Json& json) {
  const auto& call = rig.call;
  const DevicePtr target = rig.allocate(bytes);
  void *allocated = nullptr, *registered = nullptr;
  rig.must(call.mem_host_alloc(&allocated, bytes, 0), "cuMemHostAlloc");
  if (posix_memalign(&registered, 4096, (bytes + 4095) / 4096 * 4096) != 0) fail("no memory");
  for (void* source : {allocated, registered})
    for (size_t i = 0; i < bytes; ++i)
      static_cast<unsigned char*>(source)[i] = static_cast<unsigned char>(i * 31);
  rig.must(
      call.mem_host_register(registered, bytes, host_register_portable | host_register_devicemap),
      "cuMemHostRegister");
  const EventHandle begin = rig.new_event(event_default), end = rig.new_event(event_default);
  std::vector<double> times[2];
  for (int round = -3; round < rounds; ++round) {
    for (const int which : {0, 1}) {
      float ms = 0;
      rig.must(call.event_record(begin, rig.stream), "cuEventRecord");
      rig.must(call.memcpy_htod_async(target, which ? registered : allocated, bytes, rig.stream),
               "cuMemcpyHtoDAsync");
      rig.must(call.event_record(end, rig.stream), "cuEventRecord");
      rig.synchronize();
      rig.must(call.event_elapsed_time(&ms, begin, end), "cuEventElapsedTime");
      if (round >= 0) times[which].push_back(double(ms));
    }
  }
  json.number("allocatedMs", median(times[0])).number("registeredMs", median(times[1]));
  rig.must(call.mem_host_unregister(registered), "cuMemHostUnregister");
  rig.must(call.mem_free_host(allocated), "cuMemFreeHost");
}

}  // namespace

int facts(int index, unsigned seconds, const std::vector<std::string>& chosen);  // cuda_facts.cpp

}  // namespace raw

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  const auto number = [&](int i) { return argc > i ? std::atoll(argv[i]) : 0; };
  const int index = int(number(2)), rounds = std::max(1, int(number(3)));
  if (what != "calls" && what != "copy" && what != "facts" && what != "keep" && what != "spin")
    raw::fail(
        "calls INDEX ROUNDS, copy INDEX ROUNDS BYTES, facts INDEX SECONDS [PART…], keep or spin "
        "INDEX SECONDS");
  if (what == "copy" && number(4) <= 0) raw::fail("copy needs a number of bytes");
  if (what == "facts")
    return raw::facts(index, unsigned(number(3)), {argv + std::min(argc, 4), argv + argc}) == 0 ? 0
                                                                                                : 1;
  // `keep` loads no kernels. The driver shall compile them in the first process that is timed.
  const raw::Rig rig{index, what != "keep"};
  raw::Json json;
  json.text("device", rig.name).number("cuda", rig.version);
  if (what == "keep" || what == "spin") {
    json.number("pid", getpid()).print();
    std::fflush(stdout);
    if (what == "keep")
      sleep(unsigned(rounds));
    else
      rig.warm_up(rounds);
    return 0;
  }
  rig.warm_up(0.5);
  if (what == "calls")
    raw::calls(rig, rounds, json);
  else
    raw::copy(rig, rounds, size_t(number(4)), json);
  json.print();
}
