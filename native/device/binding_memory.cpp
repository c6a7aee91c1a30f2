// The core's face to JavaScript, second page: memory beyond plain allocations, and what belongs to a device.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "device/binding.hpp"
#include "device/pool.hpp"

namespace hotslot {
namespace {

Pinned<GraphPool> pool(double handle) { return {handle, Kind::pool, "graph pool"}; }

Napi::Value scratch(Info info) {
  return guard(info, [&] { return lender(info.Env()).make(device(info, 0)->scratch(whole(info, 1))); });
}

// ---- managed memory --------------------------------------------------------------------------------------------------

Napi::Value allocate_managed(Info info) {
  return guard(info, [&] { return lender(info.Env()).make(device(info, 0)->allocate_managed(whole(info, 1))); });
}

Span managed_span(Info info, size_t i) {
  Span range = span(number(info, i), whole(info, i + 1), whole(info, i + 2));
  if (!range.memory->managed) throw Error("ERR_HOTSLOT_ARGUMENT", "the tensor is not in managed memory: only those of a unified memory pool move");
  return range;
}

int place(Info info, size_t i, const Memory& memory, int least) {
  const double where = number(info, i);
  const int count = Core::instance().count(memory.family);
  if (!(where >= least && where < count) || where != double(int(where)))
    throw Error("ERR_HOTSLOT_RANGE", "device must be " + std::string(least < 0 ? "-1 (the CPU) or " : "") + "a whole number from 0 to " + std::to_string(count - 1) + ", for the " + memory.family +
                                         " devices there are; got " + info[i].ToString().Utf8Value());
  return int(where);
}

// prefetch(stream, memory, offset, bytes, device)
Napi::Value prefetch(Info info) {
  return guard(info, [&] {
    const Span range = managed_span(info, 1);
    const int where = place(info, 4, *range.memory, on_cpu);
    stream(info, 0)->prefetch(range, where);
  });
}

// advise(memory, offset, bytes, advice: 0 preferred location, 1 accessed by, device)
Napi::Value advise(Info info) {
  return guard(info, [&] {
    const Span range = managed_span(info, 0);
    const auto advice = Advice(info[3].As<Napi::Number>().Int32Value());
    const int where = place(info, 4, *range.memory, advice == Advice::accessed_by ? 0 : on_cpu);
    forbid_in_capture(range.memory->family, "memAdvise");
    range.memory->device.advise(range, advice, where);
  });
}

Napi::Value residency(Info info) {
  return guard(info, [&] {
    const Span range = managed_span(info, 0);
    forbid_in_capture(range.memory->family, "memRangeGetAttribute");
    const Residency found = range.memory->device.residency(range);
    auto out = Napi::Object::New(info.Env()), by = Napi::Object(Napi::Array::New(info.Env()));
    uint32_t n = 0;
    for (const int each : found.accessed_by) by.Set(n++, each);
    out.Set("location", found.location);
    out.Set("preferred", found.preferred);
    out.Set("accessedBy", by);
    return out;
  });
}

Napi::Value address(Info info) {
  return guard(info, [&] { return double(uintptr_t(memory(number(info, 0))->address)); });
}

Napi::Value device_count(Info info) {
  return guard(info, [&] { return Core::instance().count(info[0].As<Napi::String>().Utf8Value().c_str()); });
}

// ---- the probe of managed memory -------------------------------------------------------------------------------------

// See Probe::claim.
Napi::Value claim_probe(Info info) {
  return guard(info, [&] { return Core::instance().probe.claim(&lender(info.Env())); });
}
// publishProbe(outcome): of the thread that has claimed it. True: looked at, see answered() in src/addon.ts.
Napi::Value publish_probe(Info info) {
  return guard(info, [&] {
    Core::instance().probe.publish(&lender(info.Env()), info[0].As<Napi::String>().Utf8Value());
    return true;
  });
}
Napi::Value probe_outcome(Info info) {
  return guard(info, [&] { return Core::instance().probe.outcome(); });
}

// endWithParent(pid): this process is killed when the thread that started it ends; at once when that has happened already.
Napi::Value end_with_parent(Info info) {
  return guard(info, [&] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (double(getppid()) != number(info, 0)) raise(SIGKILL);
  });
}

// ---- what belongs to a device ----------------------------------------------------------------------------------------

Napi::Value shared_capture_stream(Info info) {
  return guard(info, [&] { return Core::instance().belonging(number(info, 0), capture_stream, [](Device& of) { return of.create_stream(0); }); });
}

// It failed: the next one who asks gets another.
Napi::Value drop_belonging(Info info) {
  return guard(info, [&] { Core::instance().drop_belonging(number(info, 0), number(info, 1)); });
}

// transferStream(source, target): copies from one to the other have a stream of their own, made on the source.
Napi::Value transfer_stream(Info info) {
  return guard(info, [&] {
    const auto target = device(info, 1);
    return Core::instance().belonging(number(info, 0), "to " + std::string(target->family) + ":" + std::to_string(target->index), [](Device& of) { return of.create_stream(0); });
  });
}

// Whether copies between two devices are one operation on either's streams.
Napi::Value reaches(Info info) {
  return guard(info, [&] { return device(info, 0)->reaches(*device(info, 1)); });
}

// Whether streams of one can wait for events of the other.
Napi::Value orders(Info info) {
  return guard(info, [&] { return device(info, 0)->orders(*device(info, 1)); });
}

// lendStream(device): a stream of the device's pool, this thread's until takeBackStream or its end.
Napi::Value lend_stream(Info info) {
  return guard(info, [&] { return lender(info.Env()).adopt(Core::instance().lend_stream(number(info, 0))); });
}
Napi::Value take_back_stream(Info info) {
  return guard(info, [&] {
    lender(info.Env()).forget(number(info, 1));
    Core::instance().take_back_stream(number(info, 0), number(info, 1));
  });
}

// deviceTable(device, bytes): a handle of this thread's for read-only device memory with these bytes.
Napi::Value device_table(Info info) {
  const Bytes bytes = bytes_of(info[1], "the table");
  return guard(info, [&] { return lender(info.Env()).make(Core::instance().table(number(info, 0), bytes.data, bytes.size)); });
}

Napi::Value caches(Info info) {
  return guard(info, [&] {
    const Core::Caches found = Core::instance().caches(number(info, 0));
    auto out = Napi::Object::New(info.Env());
    const auto set = [&](const char* name, const CacheCounts& counts) {
      auto entry = Napi::Object::New(info.Env());
      entry.Set("hits", double(counts.hits));
      entry.Set("misses", double(counts.misses));
      entry.Set("bytes", double(counts.bytes));
      out.Set(name, entry);
    };
    set("buffers", found.buffers);
    set("streams", found.streams);
    set("tables", found.tables);
    return out;
  });
}

Ref<GraphPool> new_pool(Info info) { return std::make_shared<GraphPool>(device(info, 0).ref()); }

Napi::Value shared_graph_pool(Info info) {
  return guard(info, [&] { return Core::instance().belonging(number(info, 0), graph_pool, [&](Device&) { return new_pool(info); }); });
}
Napi::Value create_graph_pool(Info info) {
  return guard(info, [&] { return lender(info.Env()).make(new_pool(info)); });
}
Napi::Value graph_pool_bytes(Info info) {
  return guard(info, [&] { return double(pool(number(info, 0))->bytes()); });
}

// enterCapture(device, pool or 0, ms): the capture stream's handle; this thread alone has it, and the pool, until leaveCapture.
Napi::Value enter_capture(Info info) {
  return guard(info, [&] {
    Ref<Object> with;
    if (number(info, 1) != 0) with = pool(number(info, 1)).ref();
    return Core::instance().enter_capture(number(info, 0), with, &lender(info.Env()), uint64_t(number(info, 2) * 1e6));
  });
}
Napi::Value leave_capture(Info info) {
  return guard(info, [&] { Core::instance().leave_capture(number(info, 0), &lender(info.Env())); });
}

// poolAllocate(pool, bytes): [handle of the block, offset in it]. The handle is the pool's.
Napi::Value pool_allocate(Info info) {
  return guard(info, [&] {
    const auto from = pool(number(info, 0));
    Core::instance().require_entered(*from, &lender(info.Env()));
    const GraphPool::Part part = from->allocate(whole(info, 1));
    auto out = Napi::Array::New(info.Env(), 2);
    out.Set(0u, part.block);
    out.Set(1u, double(part.offset));
    return out;
  });
}

}  // namespace

void add_memory_functions(Napi::Env env, Napi::Object exports) {
  const auto add = [&](const char* name, Napi::Value (*f)(Info)) { exports.Set(name, Napi::Function::New(env, f, name)); };
  add("scratch", scratch);
  add("allocateManaged", allocate_managed);
  add("prefetch", prefetch);
  add("advise", advise);
  add("residency", residency);
  add("address", address);
  add("deviceCount", device_count);
  add("claimProbe", claim_probe);
  add("publishProbe", publish_probe);
  add("probeOutcome", probe_outcome);
  add("endWithParent", end_with_parent);
  add("sharedCaptureStream", shared_capture_stream);
  add("dropBelonging", drop_belonging);
  add("transferStream", transfer_stream);
  add("lendStream", lend_stream);
  add("takeBackStream", take_back_stream);
  add("deviceTable", device_table);
  add("caches", caches);
  add("reaches", reaches);
  add("orders", orders);
  add("sharedGraphPool", shared_graph_pool);
  add("createGraphPool", create_graph_pool);
  add("graphPoolBytes", graph_pool_bytes);
  add("enterCapture", enter_capture);
  add("leaveCapture", leave_capture);
  add("poolAllocate", pool_allocate);
}

}  // namespace hotslot
