// Calls on modules, kernels, captures and graphs.
#pragma once
#include "cuda_images.hpp"
#include "cuda_streams.hpp"
#include "forms.hpp"

namespace hotslot::software::op {

// ---- modules and kernels ------------------------------------------------------------------------

// Returns the entries of an image. Throws the status that says why the image cannot be loaded.
inline Entries read_image(const void* image) {
#ifdef HOTSLOT_SOFTWARE_HIP
  Hsaco object(image);
  demand(object.readable, status::invalid_image);
  demand(object.arch.empty() || object.arch == driver().arch, status::no_binary_for_gpu);
  return std::move(object.entries);
#else
  static const unsigned char elf[] = {0x7f, 'E', 'L', 'F'}, fat[] = {0x50, 0xed, 0x55, 0xba};
  if (memcmp(image, elf, 4) == 0 || memcmp(image, fat, 4) == 0)
    throw Refusal{status::no_binary_for_gpu};
  Ptx ptx(static_cast<const char*>(image));
  demand(ptx.version || !ptx.entries.empty() || ptx.target, status::invalid_image);
  demand(ptx.version && ptx.target, invalid_ptx);
  demand(ptx.version <= driver().ptx, status::unsupported_ptx_version);
  demand(ptx.target <= driver().cc, status::no_binary_for_gpu);
  return std::move(ptx.entries);
#endif
}

// The entries of a module. Functions are created from them when they are requested.
struct LoadedModule : Module {
  LoadedModule(Device& device, Entries&& read) : Module{device}, entries(std::move(read)) {}
  const Entries entries;
  std::set<std::string> loaded;
};

// Loads a kernel at its first use. Drivers before 12.4 load it when it is requested by name. Newer
// ones load it at its first launch or by cuFuncLoad.
inline void load(const Function& function) {
  auto& module = static_cast<LoadedModule&>(*function.module);
  if (module.loaded.insert(function.name).second) load(module.owner, "the kernel " + function.name);
}

inline Status module_load_data(cuda::Module* out, const void* image) {
  Device& device = current();
  unsafe();
  demand(out && image, status::invalid_value);
  load(device, "its module");
  take_time();
  *out = driver().modules.add(std::make_shared<LoadedModule>(device, read_image(image)));
  return 0;
}

inline Status module_unload(cuda::Module handle) {
  current();
  unsafe();
  // Unloading waits for all work: msBeside_moduleUnload of bench/results/h100/facts.jsonl.
  drain(driver().modules.get(handle)->owner);
  const Ref<Module> module = driver().modules.take(handle);
  module->live.store(false);
  driver().functions.remove_if([&](const Function& function) { return function.module == module; });
  return 0;
}

inline Status module_get_function(cuda::Function* out, cuda::Module handle, const char* name) {
  current();
  demand(out && name, status::invalid_value);
  const Ref<Module> module = driver().modules.get(handle);
  const Entries& entries = static_cast<LoadedModule&>(*module).entries;
  const auto found = entries.find(name);
  demand(found != entries.end(), status::not_found);
  Function function{module, name, found->second.parameters, form_of(name)};
  if (function.kernel) {
    // Every kernel of Hotslot takes pointers, then whole numbers, then reals.
    const std::string words(size_t(function.kernel->pointers + function.kernel->wholes), 'q');
    const auto with = [&](char real) {
      return words + std::string(size_t(function.kernel->reals), real);
    };
    if (!found->second.known) function.parameters = with(found->second.reals);
    // The image was compiled with other parameters than the host form has, so the kernel cannot be
    // launched.
    if (function.parameters != with('f') && function.parameters != with('d')) {
      desk().complaints.say(std::string("the image's ") + name + " takes (" + function.parameters +
                            "), not (" + with('f') + ")");
      function.kernel = nullptr;
    }
  }
  if (driver().version < 12040) load(function);
  *out = driver().functions.add(std::make_shared<Function>(std::move(function)));
  return 0;
}

inline Status func_load(cuda::Function handle) {
  current();
  unsafe();
  load(*driver().functions.get(handle));
  return 0;
}

// Enqueues a kernel that fails, like a kernel that finds invalid work. The stream's error is sticky
// from then on.
inline void enqueue_failure(Stream& stream, Status why) {
  asking(stream.fault, [&] {
    Launch launch;
    launch.kernel = find_kernel("fail");
    stream.host->launch(std::move(launch));
  });
  Capture* capture = stream.capturing();
  if (capture)
    capture->contents->illegal |= why == status::illegal_address;
  else
    stream.fault->status.store(why);
}

inline bool reachable(const Ref<Range>& range, const Device& device) {
  if (!range || foreign(*range, device)) return false;
  if (range->kind == Range::registered) return (range->flags & host_register_devicemap) != 0;
  return range->kind == Range::host || range->managed() || &range->owner == &device ||
         device.peers.count(&range->owner) > 0;
}

inline Status launch_kernel(cuda::Function handle, unsigned grid_x, unsigned grid_y,
                            unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                            unsigned shared_bytes, StreamHandle on, void** parameters,
                            void** extra) {
  Device& device = current();
  const Ref<Function> function = driver().functions.get(handle);
  const Ref<Stream> stream = stream_of(on);
  demand(&stream->owner == &device && &function->module->owner == &device, status::invalid_handle);
  demand(grid_x >= 1 && grid_y >= 1 && grid_z >= 1 && grid_x <= 0x7fffffff && grid_y <= 65535 &&
             grid_z <= 65535,
         status::invalid_value);
  demand(block_x >= 1 && block_y >= 1 && block_z >= 1 && block_x <= 1024 && block_y <= 1024 &&
             block_z <= 64,
         status::invalid_value);
  demand(uint64_t(block_x) * block_y * block_z <= 1024 && shared_bytes <= 48 << 10 && !extra,
         status::invalid_value);
  const Kernel* kernel = function->kernel;
  demand(kernel, invalid_device_function);
  demand(parameters || function->parameters.empty(), status::invalid_value);
  load(*function);
  take_place(stream, Engine::compute);

  Launch launch;
  launch.kernel = kernel;
  for (int i = 0; i < int(function->parameters.size()); ++i) {
    const void* value = parameters[i];
    demand(value, status::invalid_value);
    const int whole = i - kernel->pointers, real = whole - kernel->wholes;
    if (whole < 0)
      memcpy(&launch.args.pointer[i], value, 8);
    else if (real < 0)
      memcpy(&launch.args.whole[whole], value, 8);
    else if (function->parameters[size_t(i)] == 'd')
      memcpy(&launch.args.real[real], value, 8);
    else {
      float single;
      memcpy(&single, value, 4);
      launch.args.real[real] = double(single);
    }
  }
  Contents::Node node{'k', 0, kernel->name};
  Reach reach[max_pointers];
  if (const char* wrong = kernel->need(launch.args, reach)) {
    desk().complaints.say(std::string("a launch of ") + kernel->name + ": " + wrong);
    enqueue_failure(*stream, status::launch_failed);
    add_node(*stream, {'k', 0}, {});
    return 0;
  }
  // As on a GPU, the launch succeeds, and a later query reports the invalid address.
  constexpr Status misaligned_address = 716;
  Status fault = 0;
  std::vector<Ref<Range>> touched;
  for (int i = 0; i < kernel->pointers; ++i) {
    const auto at = reinterpret_cast<uintptr_t>(launch.args.pointer[i]);
    // A program's own kernel may touch everything up to the end of the range.
    if (brought(*kernel)) {
      const Ref<Range> around = range_around(at);
      reach[i].bytes = around ? around->end() - at : 1;
    }
    Ref<Range> range = reach[i].bytes ? range_around(at) : nullptr;
    if (reach[i].bytes && (!reachable(range, device) || reach[i].bytes > range->end() - at))
      fault = status::illegal_address;
    else if (reach[i].bytes && at % kernel->alignment(size_t(i), reach[i]) != 0)
      fault = misaligned_address;
    launch.spans.push_back(
        {view(stream, at, reach[i].bytes, fault ? nullptr : range), 0, reach[i].bytes});
    touched.push_back(std::move(range));
  }
  // Runs before the launch, because the kernel may report its bytes as soon as it runs.
  if (!fault && !unseen(*kernel)) {
    node.late = LateKernels::all().watch(launch, stream->capturing());
    const uint16_t late = told_late(kernel->name);
    for (int i = 0; i < kernel->pointers; ++i)
      if (!(late >> i & 1))
        node.touches.push_back({reinterpret_cast<uintptr_t>(launch.args.pointer[i]), reach[i].bytes,
                                (kernel->writes >> i & 1) != 0});
  }
  add_node(*stream, std::move(node), {});
  if (fault)
    enqueue_failure(*stream, fault);
  else
    asking(stream->fault, [&] { stream->host->launch(std::move(launch)); });
  if (Capture* capture = stream->capturing()) {
    capture->contents->modules.push_back(function->module);
    for (auto& range : touched)
      if (range) capture->contents->ranges.push_back(std::move(range));
  }
  return 0;
}

// ---- captures and graphs ------------------------------------------------------------------------

inline Status exchange_capture_mode(CaptureMode* mode) {
  demand(mode && *mode >= capture_global && *mode <= capture_relaxed, status::invalid_value);
  std::swap(*mode, thread_state().mode);
  return 0;
}

inline Status stream_begin_capture(StreamHandle handle, CaptureMode mode) {
  const Ref<Stream> stream = stream_of(handle);
  demand(mode >= capture_global && mode <= capture_relaxed, status::invalid_value);
  demand(!stream->capturing(), illegal_state);
  mark_before(*stream);
  asking(stream->fault, [&] { driver().relay.run([&] { stream->host->begin_capture(); }); });
  stream->capture = std::make_shared<Capture>(Capture{stream, calling_thread(), mode});
  stream->last_nodes.clear();
  driver().captures.push_back(stream->capture);
  return 0;
}

inline Status stream_is_capturing(StreamHandle handle, int* out) {
  const Ref<Stream> stream = stream_of(handle);
  demand(out, status::invalid_value);
  *out = stream->capturing() ? 1 : 0;
  return 0;
}

inline Status stream_end_capture(StreamHandle handle, GraphHandle* out) {
  const Ref<Stream> stream = stream_of(handle);
  demand(out, status::invalid_value);
  *out = nullptr;
  demand(stream->capturing(), illegal_state);
  const Ref<Capture> capture = stream->capture;
  const bool origin = capture->origin == stream;
  if (origin && capture->mode != capture_relaxed && capture->thread != calling_thread()) {
    // On an H100 the call returns an error, but it ends the capture.
    if (driver().card.captures_end_elsewhere)
      close_capture(capture), driver().relay.run([&] { stream->host->end_capture(); });
    return status::capture_wrong_thread;
  }
  // The stream that began the capture leaves it even if the call fails. On another stream, the CPU
  // device throws below.
  if (origin) close_capture(capture);
  Ref<hotslot::Graph> graph;
  driver().relay.run([&] { graph = stream->host->end_capture(); });
  *out = driver().graphs.add(
      std::make_shared<Graph>(Graph{stream->owner, std::move(graph), capture->contents}));
  return 0;
}

inline Status graph_destroy(GraphHandle handle) {
  driver().graphs.take(handle);
  return 0;
}

inline Status graph_get_nodes(GraphHandle handle, GraphNode* out, size_t* count) {
  const Ref<Graph>& graph = driver().graphs.get(handle);
  demand(count, status::invalid_value);
  const size_t nodes = graph->host->node_count();
  if (out)
    for (size_t i = 0; i < *count; ++i)
      out[i] = i < nodes ? reinterpret_cast<GraphNode>(reinterpret_cast<uintptr_t>(handle) + 1 + i)
                         : nullptr;
  *count = out ? std::min(*count, nodes) : nodes;
  return 0;
}

inline Status graph_instantiate(GraphExecHandle* out, GraphHandle handle,
                                unsigned long long flags) {
  const Ref<Graph>& graph = driver().graphs.get(handle);
  refuse_poisoned(graph->owner);
  demand(out && flags <= 15, status::invalid_value);
  *out = driver().execs.add(
      std::make_shared<Exec>(Exec{graph->owner, graph->host->instantiate(), graph->contents}));
  return 0;
}

inline Status graph_upload(GraphExecHandle handle, StreamHandle on) {
  const Ref<Stream> stream = stream_of(on);
  const Ref<Exec>& exec = driver().execs.get(handle);
  demand(&exec->owner == &stream->owner, status::invalid_handle);
  demand(!stream->capturing(), status::capture_unsupported);
  // No status exists for this mistake: the upload may wait for work that the capture holds back.
  for (const Ref<Capture>& open : driver().captures)
    if (open->thread == calling_thread())
      desk().complaints.say("a graph was uploaded by a thread that captures");
  return 0;
}

// Returns what the graph refers to and what no longer exists, or null. A GPU would read and write
// memory that now belongs to something else.
inline const char* dead(const Contents& contents) {
  for (auto& range : contents.ranges)
    if (!range->live.load())
      return range->kind == Range::registered ? "host memory that was unregistered"
                                              : "memory that was freed";
  for (auto& module : contents.modules)
    if (!module->live.load()) return "a module that was unloaded";
  return nullptr;
}

inline Status graph_launch(GraphExecHandle handle, StreamHandle on) {
  const Ref<Stream> stream = stream_of(on);
  const Ref<Exec> exec = driver().execs.get(handle);
  demand(&exec->owner == &stream->owner, status::invalid_handle);
  if (const char* what = dead(*exec->contents); what && !stream->capturing()) {
    enqueue_failure(*stream, status::illegal_address);
    desk().complaints.say(std::string("a launch of a graph that refers to ") + what);
    throw Refusal{status::illegal_address};
  }
  take_place(stream, Engine::compute, exec->contents->nodes.size());
  order_launch(*stream, *exec);
  asking(stream->fault, [&] { stream->host->replay(exec->host); });
  if (exec->contents->illegal) stream->fault->status.store(status::illegal_address);
  driver().flights.remove_if(done);
  Flight flight{stream->owner.host->create_event(false), exec->contents};
  try {
    stream->host->record(flight.done, false);
    driver().flights.push_back(std::move(flight));
  } catch (const Error&) {
    // The stream has failed and runs nothing more.
  }
  return 0;
}

// Results that say why an update was rejected.
enum UpdateResult : int {
  updated = 0,
  topology_changed = 2,
  node_type_changed = 3,
  parameters_changed = 5
};

inline UpdateResult difference(const Contents& now, const Contents& then) {
  if (now.nodes.size() != then.nodes.size()) return topology_changed;
  for (size_t i = 0; i < now.nodes.size(); ++i) {
    if (now.nodes[i].type != then.nodes[i].type) return node_type_changed;
    if (now.nodes[i].memories != then.nodes[i].memories) return parameters_changed;
  }
  return updated;
}

inline Status update(GraphExecHandle handle, GraphHandle from, UpdateResult& result) {
  const Ref<Exec>& exec = driver().execs.get(handle);
  const Ref<Graph>& graph = driver().graphs.get(from);
  demand(&exec->owner == &graph->owner, status::invalid_handle);
  refuse_poisoned(exec->owner);
  result = difference(*exec->contents, *graph->contents);
  if (result != updated) return status::graph_exec_update_failure;
  exec->host->update(graph->host);
  exec->contents = graph->contents;
  return 0;
}

inline Status graph_exec_update(GraphExecHandle handle, GraphHandle from, ExecUpdateResult* info) {
  demand(info, status::invalid_value);
  *info = {};
  UpdateResult result = updated;
  const Status answer = update(handle, from, result);
  info->result = result;
  return answer;
}

inline Status graph_exec_destroy(GraphExecHandle handle) {
  driver().execs.take(handle);
  return 0;
}

}  // namespace hotslot::software::op
