// device.node: the core's face to JavaScript. Everything is a flat function over handles; src/device/ makes objects of them.
#include "device/binding.hpp"
#include "device/pool.hpp"
#include "device/release.hpp"

namespace hotslot {
namespace {

// Closing waits this long for another thread's pins.
constexpr uint64_t close_ns = 2'000'000'000;
// A wait on the thread pool is given back after this long, so that leaving a thread is never held up.
constexpr uint64_t wait_slice_ns = 40'000'000;

Napi::Value list_devices(Info info) {
  return guard(info, [&] {
    auto list = Napi::Array::New(info.Env());
    uint32_t n = 0;
    for (auto& facts : Core::instance().list()) {
      auto entry = Napi::Object::New(info.Env());
      entry.Set("name", facts.name);
      entry.Set("family", facts.family);
      entry.Set("available", facts.available);
      if (!facts.reason.empty()) entry.Set("reason", facts.reason);
      if (!facts.description.empty()) entry.Set("description", facts.description);
      list.Set(n++, entry);
    }
    return list;
  });
}

Napi::Value open_device(Info info) {
  return guard(info, [&] {
    const OpenDevice& open = Core::instance().open(info[0].As<Napi::String>().Utf8Value());
    lender(info.Env()).opened(open.handle);
    auto out = Napi::Object::New(info.Env());
    out.Set("handle", open.handle);
    out.Set("family", open.device->family);
    out.Set("index", open.device->index);
    out.Set("stream", open.stream);
    return out;
  });
}

// The device goes on; what belongs to it goes when nobody has it open.
Napi::Value close_device(Info info) {
  return guard(info, [&] { lender(info.Env()).closed(number(info, 0)); });
}

Napi::Value device_traits(Info info) {
  return guard(info, [&] {
    const DeviceTraits traits = device(info, 0)->traits();
    auto out = Napi::Object::New(info.Env());
    out.Set("description", traits.description);
    out.Set("timingEvents", traits.timing_events);
    out.Set("graphEvents", traits.graph_events);
    out.Set("rings", traits.rings);
    out.Set("noManaged", traits.no_managed);
    out.Set("movesPages", traits.moves_pages);
    out.Set("submitter", traits.submitter);
    out.Set("matrixProducts", traits.matrix_products);
    return out;
  });
}

Napi::Value memory_info(Info info) {
  return guard(info, [&] {
    const MemoryInfo facts = device(info, 0)->memory_info();
    auto out = Napi::Object::New(info.Env());
    out.Set("total", double(facts.total));
    out.Set("free", double(facts.free));
    return out;
  });
}

Napi::Value create_stream(Info info) {
  return guard(info, [&] { return lender(info.Env()).make(device(info, 0)->create_stream(info[1].As<Napi::Number>().Int32Value())); });
}
Napi::Value create_event(Info info) {
  return guard(info, [&] { return lender(info.Env()).make(device(info, 0)->create_event(info[1].As<Napi::Boolean>().Value())); });
}
Napi::Value allocate(Info info) {
  return guard(info, [&] { return lender(info.Env()).make(device(info, 0)->allocate(whole(info, 1))); });
}

Napi::Value register_host(Info info) {
  const Bytes bytes = bytes_of(info[1], "the view to register");
  return guard(info, [&] { return lender(info.Env()).lend(info[1].As<Napi::TypedArray>(), device(info, 0)->register_host(bytes.data, bytes.size, info[2].ToBoolean().Value())); });
}

// How the driver reaches it: 0 pageable, 1 registered, 2 imported.
Napi::Value host_kind(Info info) {
  return guard(info, [&] { return int(memory(number(info, 0))->host_kind); });
}

// True when it was open. Memory stays until queued work that touches it is done.
Napi::Value close(Info info) {
  return guard(info, [&] {
    const bool open = handles().remove(number(info, 0), close_ns) != nullptr;
    lender(info.Env()).forget(number(info, 0));
    lender(info.Env()).sweep();
    return open;
  });
}

Napi::Value record(Info info) {
  return guard(info, [&] { stream(info, 0)->record(event(info, 1).ref(), info[2].ToBoolean().Value()); });
}
Napi::Value wait(Info info) {
  return guard(info, [&] { stream(info, 0)->wait(event(info, 1).ref(), info[2].ToBoolean().Value()); });
}
// copy(stream, to, toOffset, from, fromOffset, bytes)
Napi::Value copy(Info info) {
  return guard(info, [&] {
    const uint64_t bytes = whole(info, 5);
    stream(info, 0)->copy(span(number(info, 1), whole(info, 2), bytes), span(number(info, 3), whole(info, 4), bytes));
  });
}
// fill(stream, to, offset, bytes, pattern: Uint8Array of 1, 2, 4 or 8 bytes)
Napi::Value fill(Info info) {
  const Bytes pattern = bytes_of(info[4], "the pattern");
  return guard(info, [&] { stream(info, 0)->fill(span(number(info, 1), whole(info, 2), whole(info, 3)), pattern.data, pattern.size); });
}

std::string kernel_names() {
  std::string names;
  for (auto& kernel : all_kernels()) names += std::string(" ") + kernel.name;
  return names;
}

}  // namespace

void check_launch(const Launch& call) {
  const Kernel& kernel = *call.kernel;
  const auto which = [&](size_t i) { return std::string("kernel '") + kernel.name + "': tensor " + std::to_string(i); };
  uint64_t need[max_pointers]{};
  if (const char* wrong = kernel.need(call.args, need)) throw Error("ERR_HOTSLOT_RANGE", std::string("kernel '") + kernel.name + "': " + wrong);
  for (size_t i = 0; i < call.spans.size(); ++i) {
    const Span& span = call.spans[i];
    if (span.bytes < need[i]) throw Error("ERR_HOTSLOT_RANGE", which(i) + " covers " + std::to_string(span.bytes) + " bytes, " + std::to_string(need[i]) + " are needed");
    if (!kernel.aligned(int(i), uintptr_t(span.address())))
      throw Error("ERR_HOTSLOT_RANGE", which(i) + " begins at byte " + std::to_string(span.offset) + ", it must be a multiple of " + std::to_string(kernel.widths[i]));
  }
}

namespace {

// launch(stream, kernel name, [handle, offset, bytes, element type, …], [whole…], [real…]); types as Kernel::types has them
Napi::Value launch(Info info) {
  return guard(info, [&] {
    const std::string name = info[1].As<Napi::String>();
    const Kernel* kernel = find_kernel(name.c_str());
    if (!kernel) throw Error("ERR_HOTSLOT_ARGUMENT", "there is no kernel '" + name + "'; there are:" + kernel_names());
    auto spans = info[2].As<Napi::Array>(), wholes = info[3].As<Napi::Array>(), reals = info[4].As<Napi::Array>();
    const auto differ = [&](const char* what, uint32_t got, int want) {
      if (got != uint32_t(want))
        throw Error("ERR_HOTSLOT_ARGUMENT", "kernel '" + name + "' takes " + std::to_string(want) + " " + what + ", got " + std::to_string(got));
    };
    differ("tensors", spans.Length() / 4, kernel->pointers);
    differ("whole numbers", wholes.Length(), kernel->wholes);
    differ("reals", reals.Length(), kernel->reals);
    Launch call;
    call.kernel = kernel;
    for (uint32_t i = 0; i < wholes.Length(); ++i) call.args.whole[i] = wholes.Get(i).As<Napi::Number>().Int64Value();
    for (uint32_t i = 0; i < reals.Length(); ++i) call.args.real[i] = reals.Get(i).As<Napi::Number>().DoubleValue();
    const auto field = [&](uint32_t i) { return spans.Get(i).As<Napi::Number>().DoubleValue(); };
    for (uint32_t i = 0; i < spans.Length(); i += 4) {
      const char type = kernel->types[i / 4];
      if (type && type != char(field(i + 3)))
        throw Error("ERR_HOTSLOT_ARGUMENT", "kernel '" + name + "': tensor " + std::to_string(i / 4) + " must be " + (type == 'f' ? "float32" : "int32"));
      call.spans.push_back(span(field(i), uint64_t(field(i + 1)), uint64_t(field(i + 2))));
    }
    check_launch(call);
    stream(info, 0)->launch(std::move(call));
  });
}

Napi::Value replay(Info info) {
  return guard(info, [&] {
    Pinned<Exec> exec(number(info, 1), Kind::exec, "graph");
    Replays::replay(*stream(info, 0), exec.ref());
  });
}
Napi::Value stream_query(Info info) {
  return guard(info, [&] { return stream(info, 0)->query(); });
}
Napi::Value event_query(Info info) {
  return guard(info, [&] { return event(info, 0)->query(); });
}
Napi::Value elapsed_ms(Info info) {
  return guard(info, [&] { return event(info, 1)->elapsed_ms(*event(info, 0)); });
}
Napi::Value begin_capture(Info info) {
  return guard(info, [&] { stream(info, 0)->begin_capture(); });
}
Napi::Value end_capture(Info info) {
  return guard(info, [&] { return lender(info.Env()).make(stream(info, 0)->end_capture()); });
}
Napi::Value capturing(Info info) {
  return guard(info, [&] { return stream(info, 0)->capturing(); });
}
// Whether this thread has a capture open, on whatever stream: it may only enqueue work then.
Napi::Value captures_here(Info info) { return Napi::Boolean::New(info.Env(), thread_captures()); }
Napi::Value instantiate(Info info) {
  return guard(info, [&] {
    Pinned<Graph> graph(number(info, 0), Kind::graph, "graph");
    return lender(info.Env()).make(Replays::instantiate(*graph));
  });
}
// True: taken in place, false: made anew.
Napi::Value update(Info info) {
  return guard(info, [&] {
    Pinned<Exec> exec(number(info, 0), Kind::exec, "graph");
    Pinned<Graph> graph(number(info, 1), Kind::graph, "graph");
    return Replays::update(*exec, graph.ref());
  });
}
Napi::Value node_count(Info info) {
  return guard(info, [&] {
    Pinned<Graph> graph(number(info, 0), Kind::graph, "graph");
    return double(graph->node_count());
  });
}

// Blocks this thread for at most `ms`, helping the device meanwhile; true when the event is done.
Napi::Value wait_event(Info info) {
  return guard(info, [&] { return device(info, 0)->wait_event(*event(info, 1), uint64_t(number(info, 2) * 1e6)); });
}

// The same on a thread of Node's pool, for threads that must not block; resolves to true when done.
class EventWait final : public Napi::AsyncWorker {
 public:
  EventWait(Info info)
      : AsyncWorker(info.Env()), deferred(Napi::Promise::Deferred::New(info.Env())), device_(device(info, 0).ref()), event_(event(info, 1).ref()) {}
  void Execute() override {
    try {
      done_ = device_->wait_event(*event_, wait_slice_ns);
    } catch (const Error& error) {
      failed_ = std::make_unique<Error>(error);
    }
  }
  void OnOK() override {
    if (!failed_) return deferred.Resolve(Napi::Boolean::New(Env(), done_));
    try {
      throw_js(Env(), hotslot_error{failed_->code, failed_->what(), failed_->family, failed_->call, failed_->status_name, failed_->advice, failed_->status});
    } catch (const Napi::Error& error) {
      deferred.Reject(error.Value());
    }
  }
  // Anything else that went wrong on the pool's thread.
  void OnError(const Napi::Error& error) override { deferred.Reject(error.Value()); }
  Napi::Promise::Deferred deferred;

 private:
  Ref<Device> device_;
  Ref<Event> event_;
  std::unique_ptr<Error> failed_;
  bool done_ = false;
};

Napi::Value wait_event_async(Info info) {
  return guard(info, [&]() -> Napi::Value {
    auto* worker = new EventWait(info);
    worker->Queue();
    return worker->deferred.Promise();
  });
}

// write(stream, memory, offset, bytes): the bytes are copied before this returns, the transfer follows in stream order.
Napi::Value write(Info info) {
  const Bytes bytes = bytes_of(info[3], "the values");
  return guard(info, [&] {
    Span to = span(number(info, 1), whole(info, 2), bytes.size);
    Ref<Memory> staging = to.memory->device.allocate_host(bytes.size);
    memcpy(staging->address, bytes.data, bytes.size);
    stream(info, 0)->copy(to, Span{std::move(staging), 0, bytes.size});
  });
}

// read(stream, memory, offset, bytes): handles of a staging copy; copyOut it when the stream has come this far.
Napi::Value read(Info info) {
  return guard(info, [&] {
    Span from = span(number(info, 1), whole(info, 2), whole(info, 3));
    Ref<Memory> staging = from.memory->device.allocate_host(from.bytes);
    stream(info, 0)->copy(Span{staging, 0, from.bytes}, from);
    return lender(info.Env()).make(staging);
  });
}
Napi::Value copy_out(Info info) {
  const Bytes to = bytes_of(info[1], "the target");
  return guard(info, [&] {
    Span from = span(number(info, 0), 0, to.size);
    memcpy(to.data, from.address(), to.size);
  });
}

Napi::Value kernels(Info info) {
  auto list = Napi::Array::New(info.Env());
  uint32_t n = 0;
  for (auto& kernel : all_kernels()) list.Set(n++, kernel.name);
  return list;
}

// What could not be given back since the last time, in words.
Napi::Value release_failures(Info info) {
  auto list = Napi::Array::New(info.Env());
  uint32_t n = 0;
  for (auto& text : ReleaseFailures::instance().take()) list.Set(n++, text);
  return list;
}

// Open handles and pins of a kind; leak tests read it.
Napi::Value handle_count(Info info) {
  const auto counts = handles().count(Kind(info[0].As<Napi::Number>().Int32Value()));
  auto out = Napi::Object::New(info.Env());
  out.Set("open", counts.entries);
  out.Set("pinned", counts.pinned);
  return out;
}

Napi::Value wake_native(Info info) {
  const Bytes words = bytes_of(info[0], "the bell");
  const size_t index = size_t(whole(info, 1));
  if (index < words.size / 4) futex_wake(reinterpret_cast<int32_t*>(words.data) + index, 1);
  return info.Env().Undefined();
}

// watchThread(words, index, before, from, to): the word goes from `before` to `from`, and from there to `to` when this thread's
// environment ends, however it ends; a thread that said goodbye has another word there then, which stays. In one call, for a
// thread can be terminated between two of them. Answers what the word was.
struct Watch {
  int32_t* word;
  int32_t from, to;
  Napi::Reference<Napi::TypedArray> words;
};
Napi::Value watch_thread(Info info) {
  const Bytes words = bytes_of(info[0], "the thread's words");
  const size_t index = size_t(whole(info, 1));
  if (index >= words.size / 4) throw_js(info.Env(), "ERR_HOTSLOT_RANGE", "the thread's word lies outside its view");
  const auto state = [&](size_t i) { return info[i].As<Napi::Number>().Int32Value(); };
  int32_t* const word = reinterpret_cast<int32_t*>(words.data) + index;
  int32_t was = state(2);
  if (!word_at(word).compare_exchange_strong(was, state(3))) return Napi::Number::New(info.Env(), was);
  auto* watch = new Watch{word, state(3), state(4), Napi::Persistent(info[0].As<Napi::TypedArray>())};
  // The reference keeps the memory until the hook ran.
  info.Env().AddCleanupHook([watch] {
    int32_t expected = watch->from;
    word_at(watch->word).compare_exchange_strong(expected, watch->to);
    delete watch;
  });
  return Napi::Number::New(info.Env(), was);
}

Napi::Value now_ms(Info info) { return Napi::Number::New(info.Env(), double(now_ns()) / 1e6); }

Napi::Object init(Napi::Env env, Napi::Object exports) {
  env.SetInstanceData<Instance>(new Lender);
  const auto add = [&](const char* name, Napi::Value (*f)(Info)) { exports.Set(name, Napi::Function::New(env, f, name)); };
  exports.Set("link", Napi::Function::New(env, link, "link"));
  exports.Set("table", Napi::External<hotslot_api>::New(env, const_cast<hotslot_api*>(api_table())));
  exports.Set("gemmProvider", gemm_provider());
  add("listDevices", list_devices);
  add("openDevice", open_device);
  add("closeDevice", close_device);
  add("deviceTraits", device_traits);
  add("memoryInfo", memory_info);
  add("createStream", create_stream);
  add("createEvent", create_event);
  add("allocate", allocate);
  add("registerHost", register_host);
  add("hostKind", host_kind);
  add("close", close);
  add("record", record);
  add("wait", wait);
  add("copy", copy);
  add("fill", fill);
  add("launch", launch);
  add("replay", replay);
  add("streamQuery", stream_query);
  add("eventQuery", event_query);
  add("elapsedMs", elapsed_ms);
  add("beginCapture", begin_capture);
  add("endCapture", end_capture);
  add("capturing", capturing);
  add("threadCaptures", captures_here);
  add("instantiate", instantiate);
  add("update", update);
  add("nodeCount", node_count);
  add("waitEvent", wait_event);
  add("waitEventAsync", wait_event_async);
  add("write", write);
  add("read", read);
  add("copyOut", copy_out);
  add("kernels", kernels);
  add("releaseFailures", release_failures);
  add("handleCount", handle_count);
  add("wakeNative", wake_native);
  add("watchThread", watch_thread);
  add("nowMs", now_ms);
  add_memory_functions(env, exports);
  add_halo_functions(env, exports);
  return exports;
}

}  // namespace
}  // namespace hotslot

static Napi::Object init_addon(Napi::Env env, Napi::Object exports) { return hotslot::init(env, exports); }
NODE_API_MODULE(device, init_addon)
