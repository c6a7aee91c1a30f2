// pack.node: the native half of actors/pack.ts. Draws a tick's indices and gathers its rows into a slot, in slices.
#include <napi.h>

#include <algorithm>

#include "device/addon/napi.hpp"
#include "rows/rows.hpp"
#include "rows/sampler.hpp"
#include "wait/bell.hpp"

namespace hotslot {
namespace {

// A call gathers for about this long, so that stopping never waits for a large batch.
constexpr uint64_t slice_ns = 20'000'000;

class Packer final : public Napi::ObjectWrap<Packer> {
 public:
  // new Packer(buffer's bytes, slots' bytes, first row's offset in a slot, bytes between slots, report:
  // Float64Array(4))
  explicit Packer(Info info) : ObjectWrap(info) {
    const Bytes buffer = bytes_of(info[0], "the replay buffer"), slots = bytes_of(info[1], "the slots"),
                report = bytes_of(info[4], "the report");
    source_ = rows::open(buffer.data, buffer.size);
    if (!source_.header) throw_js(info.Env(), argument("the first argument is not a replay buffer's memory"));
    if (report.size < 4 * sizeof(double)) throw_js(info.Env(), argument("the report needs four float64"));
    slots_ = slots;
    first_ = whole(info, 2);
    stride_ = whole(info, 3);
    report_ = reinterpret_cast<double*>(report.data);
    for (size_t i : {0, 1, 4}) views_.push_back(Napi::Persistent(info[i].As<Napi::TypedArray>()));
  }

  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "Packer", {InstanceMethod("pack", &Packer::pack)});
  }

 private:
  // pack(slot, seed, rows, least ptr): 0 until the buffer holds what is asked, 1 when the rows lie in the slot, 2 to be
  // called again. The report receives snapshot ptr, snapshot size, begin and end (ms).
  Napi::Value pack(Info info) {
    const uint64_t slot = whole(info, 0);
    const uint64_t seed = whole(info, 1);
    const uint64_t count = whole(info, 2);
    const double least = number(info, 3);
    const uint64_t at = slot * stride_ + first_;
    if (at + count * source_.row_bytes > slots_.size || count * source_.row_bytes > stride_ - first_)
      throw_js(info.Env(), range("the batch does not fit the slot"));
    if (!packing_) {
      const rows::Snapshot now = rows::snapshot(source_);
      if (now.size == 0 || double(now.ptr) < least) return Napi::Number::New(info.Env(), 0);
      report_[0] = double(now.ptr);
      report_[1] = double(now.size);
      report_[2] = double(now_ns()) / 1e6;
      if (indices_.size() < count) indices_.resize(count);
      rows::draw(seed, uint32_t(now.size), indices_.data(), count);
      job_ = {};
      packing_ = true;
    }
    const uint64_t bytes = count * source_.row_bytes;
    const auto result = rows::gather(source_, job_, indices_.data(), count, slots_.data + at, now_ns() + slice_ns,
                                     rows::should_stream(bytes));
    if (result == rows::GatherResult::More) return Napi::Number::New(info.Env(), 2);
    packing_ = false;
    report_[3] = double(now_ns()) / 1e6;
    return Napi::Number::New(info.Env(), 1);
  }

  rows::Source source_;
  Bytes slots_{};
  uint64_t first_ = 0, stride_ = 0;
  double* report_ = nullptr;
  std::vector<uint32_t> indices_;
  rows::GatherJob job_;
  bool packing_ = false;
  std::vector<Napi::Reference<Napi::TypedArray>> views_;
};

}  // namespace

static Napi::Object init_addon(Napi::Env env, Napi::Object exports) {
  make_linkable(env, exports);
  exports.Set("Packer", Packer::define(env));
  return exports;
}
NODE_API_MODULE(pack, init_addon)

}  // namespace hotslot
