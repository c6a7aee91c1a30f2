// Functions for JavaScript: streams, events, and the work enqueued on them.
#include "device/addon/arguments.hpp"
#include "device/addon/async.hpp"

namespace hotslot {
namespace {

// Time limit for one wait on a thread of Node's pool. JavaScript repeats the wait. A longer wait
// would delay the end of a JavaScript thread, which waits for its work in the pool.
constexpr uint64_t wait_slice_ns = 40'000'000;

double create_stream(Info info) {
  return own(info).make(device(info, 0)->create_stream(info[1].As<Napi::Number>().Int32Value()));
}
double create_event(Info info) {
  return own(info).make(device(info, 0)->create_event(info[1].As<Napi::Boolean>().Value()));
}
bool record(Info info) {
  stream(info, 0)->record(event(info, 1).ref(), info[2].ToBoolean().Value());
  return true;
}
void wait(Info info) { stream(info, 0)->wait(event(info, 1).ref(), info[2].ToBoolean().Value()); }

// copy(stream, to, toOffset, from, fromOffset, bytes): enqueues a copy. Returns true, see
// answered() in src/base/addon.ts.
bool copy(Info info) {
  const uint64_t bytes = whole(info, 5);
  stream(info, 0)->copy(span(number(info, 1), whole(info, 2), bytes),
                        span(number(info, 3), whole(info, 4), bytes));
  return true;
}

// fill(stream, to, offset, bytes, pattern): enqueues a fill. `pattern` is a Uint8Array of 1, 2, 4
// or 8 bytes.
void fill(Info info) {
  const Bytes pattern = bytes_of(info[4], "the pattern");
  stream(info, 0)->fill(span(number(info, 1), whole(info, 2), whole(info, 3)), pattern.data,
                        pattern.size);
}

// openGuard(stream, word, offset, every): guards the work that this thread enqueues on the stream
// until closeGuard(). See Stream::open_guard().
void open_guard(Info info) {
  stream(info, 0)->open_guard(span(number(info, 1), whole(info, 2), 4), int64_t(number(info, 3)));
}
void close_guard(Info) { OwnGuard::close(); }

bool stream_query(Info info) { return stream(info, 0)->query(); }
bool event_query(Info info) { return event(info, 0)->query(); }
double elapsed_ms(Info info) { return event(info, 1)->elapsed_ms(*event(info, 0)); }

// ---- waiting ------------------------------------------------------------------------------------

// waitEvent(device, event, ms): blocks this thread for at most `ms`, and runs queued work of the
// device meanwhile. Returns true if the event is done.
bool wait_event(Info info) {
  return device(info, 0)->wait_event(*event(info, 1), uint64_t(number(info, 2) * 1e6));
}

// waitEventAsync(device, event): waits on a thread of Node's pool. The promise resolves to true if
// the event is done, and to false after `wait_slice_ns`.
Napi::Value wait_event_async(Info info) {
  return Async<bool>::start(info, [on = device(info, 0).ref(), awaited = event(info, 1).ref()] {
    return on->wait_event(*awaited, wait_slice_ns);
  });
}

}  // namespace

void add_stream_functions(Napi::Env env, Napi::Object exports) {
  static constexpr Exported streams[] = {
      {"createStream", create_stream},
      {"record", record},
      {"wait", wait},
      {"copy", copy},
      {"fill", fill},
      {"openGuard", open_guard},
      {"closeGuard", close_guard},
      {"streamQuery", stream_query},
  };
  static constexpr Exported events[] = {
      {"createEvent", create_event},
      {"eventQuery", event_query},
      {"elapsedMs", elapsed_ms},
      {"waitEvent", wait_event},
      {"waitEventAsync", wait_event_async},
  };
  add_functions(env, add_group(env, exports, "streams"), streams);
  add_functions(env, add_group(env, exports, "events"), events);
}

}  // namespace hotslot
