// ranks.node: the MPI thread of a process, for JavaScript. Each notice of the MPI thread becomes a
// call of one JavaScript function, in the thread that created the Ranks object.
#include <napi.h>

#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <optional>

#include "device/addon/napi.hpp"
#include "ranks/halo.hpp"

namespace hotslot {
namespace {

using ranks::Halo;
using ranks::Notice;

// A process has one MPI thread, because MPI can be initialized only once.
std::atomic<bool> taken{false};

// The MPI thread's halo jobs, by the numbers that JavaScript gave them. Only the MPI thread uses
// this list.
struct Halos {
  std::vector<std::pair<double, Halo*>> all;
  ranks::Mpi* mpi = nullptr;
  Halo* find(double job) const {
    for (auto& [number, halo] : all)
      if (number == job) return halo;
    return nullptr;
  }
};

class Ranks final {
 public:
  static constexpr const char* name = "Ranks";
  static constexpr const char* called = "this MPI";
  // new Ranks(libraries: string[], bell: Int32Array, notify(kind, job, a, b, c, bytes))
  explicit Ranks(Info info) : env_(info.Env()) {
    // Sets defaults, which the user's environment overrides.
    //
    // UCX and Open MPI would rewrite libc's mmap, munmap and brk while other threads of this
    // process may be running in these functions. Processes have crashed because of this. UCX would
    // also handle signals that belong to Node.
    //
    // With mpi_yield_when_idle, ranks that share a core yield to each other.
    //
    // Within a machine, Open MPI asks the receiver before it sends more than its eager limit, by
    // default 4 KiB. Both sides must poll for the answer, so the eager limit is raised.
    for (const auto& [name, value] : {std::pair{"UCX_MEM_MMAP_HOOK_MODE", "none"},
                                      {"UCX_MEM_MALLOC_HOOKS", "n"},
                                      {"UCX_ERROR_SIGNALS", ""},
                                      {"OMPI_MCA_memory", "^patcher"},
                                      {"OMPI_MCA_mpi_yield_when_idle", "1"},
                                      {"OMPI_MCA_btl_vader_eager_limit", "131072"}})
      setenv(name, value, 0);
    if (taken.exchange(true)) throw state_busy("MPI was opened in this process before");
    std::vector<std::string> names;
    const auto list = info[0].As<Napi::Array>();
    for (uint32_t i = 0; i < list.Length(); ++i) names.push_back(list.Get(i).As<Napi::String>());
    keep(info[1]);
    auto* const bell = reinterpret_cast<Bell*>(bytes_of(info[1], "the bell").data);
    notices_ = Notices::New(info.Env(), info[2].As<Napi::Function>(), "hotslot.ranks", 0, 1);
    thread_.emplace(std::move(names), bell, teller());
    napi_add_env_cleanup_hook(info.Env(), end, this);
  }
  ~Ranks() {
    napi_remove_env_cleanup_hook(env_, end, this);
    stop();
  }

  static void define(Napi::Env env, Napi::Object exports) {
    add_class<Ranks>(env, exports,
                     {{"hold", call_method<Ranks, &Ranks::hold>},
                      {"agree", call_method<Ranks, &Ranks::agree>},
                      {"halo", call_method<Ranks, &Ranks::halo>},
                      {"send", call_method<Ranks, &Ranks::send>},
                      {"left", call_method<Ranks, &Ranks::left>},
                      {"drain", call_method<Ranks, &Ranks::drain>},
                      {"close", call_method<Ranks, &Ranks::close>}});
  }

 private:
  static void tell(Napi::Env env, Napi::Function notify, std::nullptr_t*, Notice* notice) {
    const std::unique_ptr<Notice> posted(notice);
    if (!env) return;
    const auto bytes = Napi::Buffer<uint8_t>::Copy(env, posted->bytes.data(), posted->bytes.size());
    const auto number = [&](double value) { return Napi::Number::New(env, value); };
    notify.Call({number(posted->kind), number(posted->job), number(posted->numbers[0]),
                 number(posted->numbers[1]), number(posted->numbers[2]), bytes});
  }
  using Notices = Napi::TypedThreadSafeFunction<std::nullptr_t, Notice, tell>;
  ranks::Thread::Tell teller() {
    return [notices = notices_](Notice&& notice) mutable {
      auto* const posted = new Notice(std::move(notice));
      if (notices.NonBlockingCall(posted) != napi_ok) delete posted;
    };
  }

  // hold(bool): sets whether MPI keeps the process alive while nothing else does.
  void hold(Info info) {
    info[0].As<Napi::Boolean>() ? notices_.Ref(info.Env()) : notices_.Unref(info.Env());
  }

  // agree(token, bytes): sends the bytes to all processes. A notice `agreed` with this token has
  // the bytes of all processes.
  void agree(Info info) {
    const Bytes bytes = bytes_of(info[1], "the bytes");
    thread(info).agree(number(info, 0), {bytes.data, bytes.data + bytes.size});
  }

  // halo(job, {note, states, bells, halves, data, buffers, process, here}): creates the halo job
  // with this number. The values are those of HaloSetup.
  //
  // note, states, bells, halves and data are views. buffers is a Float64Array with reader, sender,
  // offset, stride and bytes of each buffer. process is an Int32Array.
  void halo(Info info) {
    const double job = number(info, 0);
    const auto options = info[1].As<Napi::Object>();
    ranks::HaloSetup setup{};
    const auto words = [&](const char* name) {
      keep(options.Get(name));
      return reinterpret_cast<int32_t*>(bytes_of(options.Get(name), name).data);
    };
    setup.note = words("note");
    setup.states = words("states");
    setup.bells = words("bells");
    setup.halves = words("halves");
    setup.data = reinterpret_cast<uint8_t*>(words("data"));
    const Bytes numbers = bytes_of(options.Get("buffers"), "buffers");
    const auto* at = reinterpret_cast<const double*>(numbers.data);
    for (const auto* end = at + numbers.size / 8; at != end; at += 5)
      setup.buffers.push_back(
          {int(at[0]), int(at[1]), size_t(at[2]), size_t(at[3]), size_t(at[4])});
    const Bytes process = bytes_of(options.Get("process"), "process");
    const auto* first = reinterpret_cast<const int32_t*>(process.data);
    setup.process.assign(first, first + process.size / 4);
    setup.here = int(number(options.Get("here")));
    // The MPI thread runs orders in sequence. So later orders for this job find it by its number.
    thread(info).add([halos = halos_, job, setup = std::move(setup), tell = teller()](
                         ranks::Mpi& mpi, const ranks::Comm& world) {
      auto made = std::make_unique<Halo>(mpi, world, job, setup, tell);
      halos->mpi = &mpi;
      halos->all.push_back({job, made.get()});
      return made;
    });
  }

  // send(job, bytes): sends at most mail_bytes bytes to every other process.
  void send(Info info) {
    const Bytes bytes = bytes_of(info[1], "the bytes");
    std::vector<uint8_t> copy(bytes.data, bytes.data + std::min(bytes.size, ranks::mail_bytes));
    thread(info).order([halos = halos_, job = number(info, 0), copy = std::move(copy)] {
      if (Halo* const found = halos->find(job)) found->send(*halos->mpi, copy);
    });
  }

  // left(job, rank, state, exchange): records for the job that a rank in another process has left
  // as `state`, after `exchange` exchanges.
  void left(Info info) {
    thread(info).order([halos = halos_, job = number(info, 0), rank = int(number(info, 1)),
                        state = int(number(info, 2)), exchange = int64_t(number(info, 3))] {
      if (Halo* const found = halos->find(job)) found->left(rank, state, exchange);
    });
  }

  void drain(Info info) { thread(info).drain(number(info, 0)); }
  void close(Info info) { thread(info).close(number(info, 0)); }

  ranks::Thread& thread(Info info) {
    if (!thread_) throw argument("this MPI is closed");
    return *thread_;
  }
  void keep(const Napi::Value& view) {
    views_.push_back(Napi::Persistent(view.As<Napi::TypedArray>()));
  }
  static void end(void* self) { static_cast<Ranks*>(self)->stop(); }
  void stop() {
    if (!thread_) return;
    thread_.reset();
    notices_.Abort();
  }

  Napi::Env env_;
  std::vector<Napi::Reference<Napi::TypedArray>> views_;
  Notices notices_;
  std::shared_ptr<Halos> halos_ = std::make_shared<Halos>();
  std::optional<ranks::Thread> thread_;
};

// lookUntil(words, index, seen, ms): waits until the word differs from `seen`, for at most `ms`
// milliseconds. Returns whether it differs. While it waits, the caller does the work of the MPI
// thread.
bool look_helping(Info info) {
  const Bytes words = bytes_of(info[0], "words");
  const size_t index = size_t(number(info, 1));
  const uint64_t ns = uint64_t(std::clamp(number(info, 3), 0.0, 1000.0) * 1e6);
  return index < words.size / 4 &&
         ranks::Thread::look_until(reinterpret_cast<int32_t*>(words.data) + index,
                                   info[2].As<Napi::Number>().Int32Value(), ns);
}

}  // namespace

static void init_addon(Napi::Env env, Napi::Object exports) {
  make_linkable(env, exports);
  Ranks::define(env, exports);
  static constexpr Exported looks{"lookUntil", look_helping};
  add_function(env, exports, looks);
  add_numbers(env, exports, "layout",
              {{"line", ranks::line},
               {"absent", ranks::absent},
               {"open", ranks::open},
               {"written", ranks::note_written},
               {"numbers", ranks::numbers}});
}
HOTSLOT_ADDON(init_addon)

}  // namespace hotslot
