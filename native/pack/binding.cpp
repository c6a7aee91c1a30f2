// pack.node: the native half of actors/pack.ts. It draws a tick's indices and gathers the tick's
// rows into a slot. One call takes about `slice_ns` at most, and a large batch takes several calls.
#include <napi.h>

#include <algorithm>
#include <memory>

#include "device/addon/napi.hpp"
#include "rows/rows.hpp"
#include "rows/sampler.hpp"
#include "rows/view_arguments.hpp"
#include "wait/bell.hpp"

namespace hotslot {
namespace {

// Maximum time that one call gathers, in nanoseconds. A large batch takes several calls, so a stop
// waits only for the current call.
constexpr uint64_t slice_ns = 20'000'000;

// Indices of the values that a finished pack() writes to the report, in the order of REPORTED in
// src/engine/pipeline/packer.ts.
enum Reported {
  snapshot_ptr,
  snapshot_size,
  pack_begin,
  pack_end,
  drawn_again,
  stale,
  largest,
  brought
};

// Returns whether `count` elements of `each` bytes fit in `room` bytes from offset `at` on. A
// tick's record may have any values, so the computation must not overflow.
bool fits(uint64_t at, uint64_t count, uint64_t each, uint64_t room) {
  return at <= room && count <= (room - at) / each;
}

class Packer final {
 public:
  static constexpr const char* name = "Packer";
  static constexpr const char* called = "this packer";
  // new Packer(buffer's bytes, slots' bytes, first row's offset in a slot, bytes between slots,
  // report: Float64Array(4))
  explicit Packer(Info info) {
    const Bytes buffer = bytes_of(info[0], "the replay buffer"),
                slots = bytes_of(info[1], "the slots"), report = bytes_of(info[4], "the report");
    source_ = rows::open(buffer.data, buffer.size);
    if (!source_.header) throw argument("the first argument is not a replay buffer's memory");
    if (report.size < (pack_end + 1) * sizeof(double))
      throw argument("the report needs four float64");
    slots_ = slots;
    first_ = whole(info, 2);
    stride_ = whole(info, 3);
    if (stride_ == 0 || first_ > stride_) throw range("there are no slots of ", stride_, " bytes");
    report_ = reinterpret_cast<double*>(report.data);
    for (size_t i : {0, 1, 4}) views_.push_back(Napi::Persistent(info[i].As<Napi::TypedArray>()));
  }

  static void define(Napi::Env env, Napi::Object exports) {
    add_class<Packer>(env, exports, {{"pack", call_method<Packer, &Packer::pack>}});
  }

 private:
  // pack(slot, seed, rows, least ptr): returns 0 until the buffer has rows and its ptr is at least
  // `least ptr`. Returns 1 when the rows are in the slot, and 2 if it must be called again. A
  // finished pack() has written snapshot ptr, snapshot size, begin and end (ms) to the report.
  int pack(Info info) {
    const uint64_t slot = whole(info, 0);
    const uint64_t seed = whole(info, 1);
    const uint64_t count = whole(info, 2);
    const double least = number(info, 3);
    if (slot >= slots_.size / stride_ || !fits(first_, count, source_.row_bytes, stride_))
      throw range("the batch does not fit the slot");
    // The first call drew indices for this slot and this number of rows.
    if (packing_ && (slot != slot_ || count != count_))
      throw argument("the batch under way is of another slot or size");
    const uint64_t at = slot * stride_ + first_;
    if (!packing_) {
      const rows::Snapshot now = rows::snapshot(source_);
      if (now.size == 0 || double(now.ptr) < least) return 0;
      report_[snapshot_ptr] = double(now.ptr);
      report_[snapshot_size] = double(now.size);
      report_[pack_begin] = double(now_ns()) / 1e6;
      if (indices_.size() < count) indices_.resize(count);
      rows::draw(seed, uint32_t(now.size), indices_.data(), count);
      job_ = {};
      slot_ = slot;
      count_ = count;
      packing_ = true;
    }
    const uint64_t bytes = count * source_.row_bytes;
    const auto result = rows::gather(source_, job_, indices_.data(), count, slots_.data + at,
                                     now_ns() + slice_ns, rows::should_stream(bytes));
    if (result == rows::GatherResult::More) return 2;
    packing_ = false;
    report_[pack_end] = double(now_ns()) / 1e6;
    return 1;
  }

  rows::Source source_;
  Bytes slots_{};
  uint64_t first_ = 0, stride_ = 0, slot_ = 0, count_ = 0;
  double* report_ = nullptr;
  std::vector<uint32_t> indices_;
  rows::GatherJob job_;
  bool packing_ = false;
  std::vector<Napi::Reference<Napi::TypedArray>> views_;
};

// Packs batches of a view. If the view has priorities, this object owns their tree. When it packs a
// slot's next batch, it first applies the priorities that the device returned for the slot's last
// batch.
class ViewPacker final {
 public:
  static constexpr const char* name = "ViewPacker";
  static constexpr const char* called = "this packer";
  // new ViewPacker({lanes, slots, firstRow, stride, report, rule, columns, tree, normalize, idsAt,
  // prioritiesAt, depth, kept}). lanes, slots and report are memory.
  //
  // In a slot, the offset of the first row is firstRow. The offset of the priorities that are
  // copied back is prioritiesAt. In a batch, the offset of the ids is idsAt.
  //
  // If a device keeps steps, kept is {mirror, freshAt, most}. A batch brings at most `most` steps
  // to the device, at its offset freshAt.
  explicit ViewPacker(Info info) {
    const auto given = info[0].As<Napi::Object>();
    const auto whole_of = [&](const char* key) { return whole(given.Get(key)); };
    const Bytes memory = bytes_of(given.Get("lanes"), "the trajectories"),
                report = bytes_of(given.Get("report"), "the report"),
                rule = bytes_of(given.Get("rule"), "the rule"),
                columns = bytes_of(given.Get("columns"), "the columns"),
                tree = bytes_if_any(info.Env(), given.Get("tree"));
    slots_ = bytes_of(given.Get("slots"), "the slots");
    const rows::Lanes lanes = rows::open_lanes(memory.data, memory.size);
    if (lanes.header == nullptr) throw argument("these lanes are not trajectories' memory");
    if (report.size < (brought + 1) * sizeof(double))
      throw argument("the report needs eight float64");
    if (rule.size < rows::rule_numbers * sizeof(double)) throw argument("the rule is too short");
    first_ = whole_of("firstRow");
    stride_ = whole_of("stride");
    if (stride_ == 0 || first_ > stride_) throw range("there are no slots of ", stride_, " bytes");
    report_ = reinterpret_cast<double*>(report.data);
    const auto *rule_numbers = reinterpret_cast<const double*>(rule.data),
               *column_numbers = reinterpret_cast<const double*>(columns.data);
    const size_t column_count = columns.size / (rows::column_numbers * sizeof(double));
    if (!rows::sound_rule(rule_numbers, lanes) ||
        !rows::sound_columns(column_numbers, column_count, rule_numbers[5], lanes))
      throw range("this is no view of these trajectories");
    view_ = std::make_unique<rows::View>(lanes, rows::rule_of(rule_numbers),
                                         rows::columns_of(column_numbers, column_count));
    const uint64_t leaves = lanes.lanes * lanes.per_lane;
    if (tree.data != nullptr) {
      if (tree.size < rows::tree_bytes(leaves, lanes.lanes)) throw range("the tree is too small");
      view_->follow(std::make_unique<rows::PriorityTree>(tree.data, leaves, lanes.lanes));
    }
    normalize_ = static_cast<rows::Weighing::Normalize>(whole_of("normalize"));
    ids_at_ = whole_of("idsAt");
    priorities_at_ = whole_of("prioritiesAt");
    depth_ = whole_of("depth");
    for (const char* key : {"lanes", "slots", "report"}) keep_alive(given.Get(key));
    if (tree.data != nullptr) keep_alive(given.Get("tree"));
    if (!given.Get("kept").IsObject()) return;
    const auto kept = given.Get("kept").As<Napi::Object>();
    const Bytes mirror = bytes_of(kept.Get("mirror"), "the mirror");
    const uint64_t most = most_ = whole(kept.Get("most"));
    fresh_at_ = whole(kept.Get("freshAt"));
    if (mirror.size < rows::Mirror::bytes(lanes)) throw range("the mirror is too small");
    if (most > leaves || !fits(fresh_at_, most, lanes.stride + 4, stride_ - first_))
      throw range("what a batch brings does not fit the slot");
    view_->keep_on_device(std::make_unique<rows::Mirror>(mirror.data, lanes, most));
    keep_alive(kept.Get("mirror"));
  }

  static void define(Napi::Env env, Napi::Object exports) {
    add_class<ViewPacker>(env, exports,
                          {{"pack", call_method<ViewPacker, &ViewPacker::pack>},
                           {"filled", call_method<ViewPacker, &ViewPacker::filled>}});
  }

 private:
  void keep_alive(const Napi::Value& memory) {
    views_.push_back(Napi::Persistent(memory.As<Napi::TypedArray>()));
  }

  // filled(): returns whether a step can be drawn now.
  bool filled(Info) {
    view_->look_around();
    return view_->tree() ? view_->tree()->total() > 0 : view_->drawable().count() > 0;
  }

  // pack(slot, seed, rows, least ptr, beta, sequence, places): returns 0 until the requested steps
  // exist. Returns 1 when the batch is in the slot, and 2 if it must be called again.
  //
  // If `places` is −1, it draws a new batch. Otherwise the slot has a batch that was drawn before,
  // and `places` is the number of places that this batch brought. The call then makes this batch
  // again, or draws a new one if it cannot draw these steps any more. The snapshot's ptr and size
  // count steps.
  int pack(Info info) {
    const uint64_t slot = whole(info, 0), count = whole(info, 2), sequence = whole(info, 5);
    if (slot >= slots_.size / stride_ || view_->batch_bytes(count) > stride_ - first_ ||
        !fits(ids_at_, count, sizeof(double), stride_ - first_) ||
        (view_->tree() && !fits(priorities_at_, count, sizeof(float), stride_)))
      throw range("the batch does not fit the slot");
    uint8_t* const half = slots_.data + slot * stride_;
    if (!packing_) {
      const double begin = double(now_ns()) / 1e6;
      const uint64_t ptr = rows::count_steps_ever(view_->lanes());
      if (double(ptr) < number(info, 3)) return 0;
      // Takes the snapshot and gives the largest priority to every step without a priority. Then
      // applies the priority update of the slot's earlier batch. One native call does both and
      // records it, so that a successor repeats neither.
      view_->look_around();
      take_up(half, sequence, count);
      const rows::Request request{count, half + first_, number(info, 4), normalize_};
      if (!(number(info, 6) >= 0 && as_before(request, whole(info, 6))) &&
          view_->draw(request, whole(info, 1)) == rows::View::Result::empty)
        return 0;
      if (view_->mirror()) view_->mirror()->begin(sequence, half + first_ + fresh_at_);
      report_[snapshot_ptr] = double(ptr);
      report_[snapshot_size] = double(view_->drawable().count());
      report_[pack_begin] = begin;
      report_[largest] = view_->tree() ? view_->tree()->header().largest : 0;
      packing_ = true;
    }
    const auto result = view_->gather(now_ns() + slice_ns);
    if (result == rows::View::Result::more) return 2;
    packing_ = false;
    if (result == rows::View::Result::empty) return 0;
    if (view_->mirror() && view_->mirror()->full()) return 2;
    report_[brought] = view_->mirror() ? double(view_->mirror()->end()) : 0;
    report_[pack_end] = double(now_ns()) / 1e6;
    report_[drawn_again] = double(view_->drawn_again());
    report_[stale] = stale_;
    stale_ = 0;
    return 1;
  }

  bool as_before(const rows::Request& request, uint64_t brought) {
    const uint64_t stride = view_->lanes().stride;
    if (brought > most_) return false;
    const auto* goals = static_cast<const uint32_t*>(nullptr);
    if (const rows::Column* column = view_->column(rows::Column::goals))
      goals = reinterpret_cast<const uint32_t*>(request.out + column->at);
    return view_->draw_as_before(
        request, reinterpret_cast<const double*>(request.out + ids_at_), goals,
        reinterpret_cast<const uint32_t*>(request.out + fresh_at_ + brought * stride), brought);
  }

  // Applies the priorities of the slot's earlier batch, whose sequence is `sequence` − `depth_`.
  // The tree records which sequences were applied, so each one is applied once, in order.
  void take_up(const uint8_t* half, uint64_t sequence, uint64_t count) {
    rows::PriorityTree* tree = view_->tree();
    if (tree == nullptr || sequence < depth_ || tree->header().applied > sequence - depth_) return;
    const uint64_t stale = tree->header().stale;
    tree->update(view_->drawable(), reinterpret_cast<const double*>(half + first_ + ids_at_),
                 reinterpret_cast<const float*>(half + priorities_at_), count);
    tree->header().applied = sequence - depth_ + 1;
    stale_ += double(tree->header().stale - stale);
  }

  Bytes slots_{};
  uint64_t first_ = 0, stride_ = 0, ids_at_ = 0, priorities_at_ = 0, depth_ = 0, fresh_at_ = 0,
           most_ = 0;
  double* report_ = nullptr;
  double stale_ = 0;
  std::unique_ptr<rows::View> view_;
  rows::Weighing::Normalize normalize_ = rows::Weighing::tree;
  bool packing_ = false;
  std::vector<Napi::Reference<Napi::TypedArray>> views_;
};

}  // namespace

static void init_addon(Napi::Env env, Napi::Object exports) {
  make_linkable(env, exports);
  Packer::define(env, exports);
  ViewPacker::define(env, exports);
}
HOTSLOT_ADDON(init_addon)

}  // namespace hotslot
