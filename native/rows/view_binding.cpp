// The functions of rows.node that views and priorities call. JavaScript has checked the arguments,
// and these functions check only what memory safety needs.
#include <napi.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "rows/arguments.hpp"
#include "rows/tree_kernels.hpp"
#include "rows/view_arguments.hpp"

namespace hotslot::rows {
namespace {

using ViewHandle = std::unique_ptr<View>;

std::vector<Column> checked_columns(const Bytes& numbers, double frames, const Lanes& lanes) {
  const auto* given = reinterpret_cast<const double*>(numbers.data);
  const size_t count = numbers.size / (column_numbers * 8);
  if (!sound_columns(given, count, frames, lanes)) throw range("rows addon: these are no columns");
  return columns_of(given, count);
}

// (lanes, rule, columns, memory of a tree?) → view. With a tree it draws by priorities.
Napi::Value open_view(Info info) {
  const Lanes& lanes = held<Lanes>(info, 0);
  const Bytes rule = require_bytes(info, 1, rule_numbers * 8), columns = require_bytes(info, 2, 0);
  const auto* numbers = reinterpret_cast<const double*>(rule.data);
  if (!sound_rule(numbers, lanes)) throw range("rows addon: this is no rule");
  auto view =
      std::make_unique<View>(lanes, rule_of(numbers), checked_columns(columns, numbers[5], lanes));
  const Bytes tree = bytes_if_any(info.Env(), info[3]);
  if (tree.data != nullptr) {
    const uint64_t leaves = lanes.lanes * lanes.per_lane;
    if (tree.size < tree_bytes(leaves, lanes.lanes))
      throw range("rows addon: the tree is too small");
    view->follow(std::make_unique<PriorityTree>(tree.data, leaves, lanes.lanes));
  }
  return hold(info, 0, std::move(view));
}

View& view(Info info) { return *held<ViewHandle>(info, 0); }

// (view, columns): replaces the columns
void set_columns(Info info) {
  const Bytes columns = require_bytes(info, 1, 0);
  const View& here = view(info);
  view(info).set_columns(checked_columns(columns, here.rule().frames, here.lanes()));
}

// (view, out?) → the number of drawable steps. Writes their ids to `out`, as many as fit.
double view_count(Info info) {
  View& here = view(info);
  here.look_around();
  const uint64_t count = here.drawable().count();
  const Bytes out = bytes_if_any(info.Env(), info[1]);
  auto* ids = reinterpret_cast<double*>(out.data);
  for (uint64_t i = 0; i < std::min<uint64_t>(count, out.size / 8); ++i) {
    const Drawable::Step step = here.drawable().at(i);
    ids[i] = double(step.place * here.lanes().lanes + step.lane);
  }
  return double(count);
}

// (view, seed, count, out, beta, normalize) → number of rows drawn again, or −1 if nothing can be
// drawn
double sample_view(Info info) {
  View& here = view(info);
  const Request request{whole(info, 2), require_bytes(info, 3, 0).data, number(info, 4),
                        static_cast<Weighing::Normalize>(u32(info, 5))};
  require_bytes(info, 3, here.batch_bytes(request.count));
  here.look_around();
  View::Result result = here.draw(request, u32(info, 1));
  if (result == View::Result::done) result = here.gather(0);
  const double again = result == View::Result::empty ? -1 : double(here.drawn_again());
  return again;
}

// (view, ids, goals?, count, out) → −1, or the index of the first row that cannot be made
double take_view(Info info) {
  const uint64_t count = whole(info, 3);
  const auto* ids = reinterpret_cast<const double*>(require_bytes(info, 1, count * 8).data);
  const Bytes goals = bytes_if_any(info.Env(), info[2]);
  if (goals.data != nullptr && goals.size < count * 8) throw range("rows addon: too few goals");
  const Request request{count, require_bytes(info, 4, 0).data, 0, Weighing::tree};
  require_bytes(info, 4, view(info).batch_bytes(count));
  const uint64_t taken = view(info).take(request, ids, reinterpret_cast<const double*>(goals.data));
  return taken == count ? -1 : double(taken);
}

// ---- priorities ---------------------------------------------------------------------------------

double tree_bytes_js(Info info) { return double(tree_bytes(whole(info, 0), whole(info, 1))); }

// (new memory, leaves, lanes, alpha, epsilon): initializes a tree
void format_tree(Info info) {
  const uint64_t leaves = whole(info, 1), lanes = whole(info, 2);
  PriorityTree::format(require_bytes(info, 0, tree_bytes(leaves, lanes)).data, leaves, lanes,
                       number(info, 3), number(info, 4));
}

// (view, ids, priorities: float64 or float32, count): sets the priorities of steps
void update_tree(Info info) {
  View& here = view(info);
  const uint64_t count = whole(info, 3);
  const auto* ids = reinterpret_cast<const double*>(require_bytes(info, 1, count * 8).data);
  const uint8_t* priorities = require_bytes(info, 2, count * 4).data;
  here.look_around();
  if (info[2].As<Napi::TypedArray>().TypedArrayType() == napi_float32_array) {
    here.tree()->update(here.drawable(), ids, reinterpret_cast<const float*>(priorities), count);
  } else {
    require_bytes(info, 2, count * 8);
    here.tree()->update(here.drawable(), ids, reinterpret_cast<const double*>(priorities), count);
  }
}

// (view, whether to take a snapshot first, out: leaves or undefined, facts: six float64): copies
// the leaves to `out`, and the tree's statistics to `facts`
void inspect_tree(Info info) {
  View& here = view(info);
  if (info[1].ToBoolean()) here.look_around();
  PriorityTree& tree = *here.tree();
  const TreeHeader& header = tree.header();
  if (!info[2].IsUndefined()) {
    auto* leaves = reinterpret_cast<double*>(require_bytes(info, 2, tree.leaves() * 8).data);
    for (uint64_t i = 0; i < tree.leaves(); ++i) leaves[i] = tree.leaf(i);
  }
  give(info, 3,
       {header.largest, tree.total() + 0.0, double(header.drawn_from), double(header.stale),
        double(header.non_finite), double(header.applied)});
}

// (memory, sequence): marks the updates of this and later sequences as not applied yet
void begin_updates(Info info) {
  reinterpret_cast<TreeHeader*>(require_bytes(info, 0, sizeof(TreeHeader)).data)->applied =
      whole(info, 1);
}

// (leaves, seed, count, beta, normalize, masses?, indices, probabilities, weights) → false if all
// leaves are zero
bool draw_leaves(Info info) {
  const Bytes given = require_bytes(info, 0, 8);
  const uint64_t leaves = given.size / 8, count = whole(info, 2);
  const auto* masses = reinterpret_cast<const double*>(bytes_if_any(info.Env(), info[5]).data);
  auto* indices = reinterpret_cast<uint32_t*>(require_bytes(info, 6, count * 4).data);
  auto* probabilities = reinterpret_cast<double*>(require_bytes(info, 7, count * 8).data);
  auto* weights = reinterpret_cast<double*>(require_bytes(info, 8, count * 8).data);
  std::vector<double> memory(tree_bytes(leaves, 1) / 8 + 8);
  void* aligned =
      reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) & ~uintptr_t{63});
  PriorityTree::format(aligned, leaves, 1, 1, 0);
  PriorityTree tree(aligned, leaves, 1);
  tree.set_all(reinterpret_cast<const double*>(given.data));
  Weighing how{static_cast<Weighing::Normalize>(u32(info, 4)), number(info, 3), tree.total(),
               tree.least(), double(tree.header().drawn_from)};
  if (!(how.total > 0)) return false;
  Generator generator(u32(info, 1));
  std::vector<double> mass(count);
  for (uint64_t i = 0; i < count; ++i)
    mass[i] = masses != nullptr ? masses[i] : generator.next_double() * how.total;
  std::vector<PriorityTree::Drawn> drawn(count);
  tree.find(mass.data(), count, drawn.data());
  const auto smaller = [](const auto& a, const auto& b) { return a.value < b.value; };
  if (how.normalize == Weighing::batch && count > 0)
    how.least = std::min_element(drawn.begin(), drawn.end(), smaller)->value;
  for (uint64_t from = 0; from < count; from += draws_at_once) {
    const uint64_t some = std::min(draws_at_once, count - from);
    double power[draws_at_once] = {};
    for (uint64_t i = 0; i < some; ++i) power[i] = ratio_of(how, drawn[from + i].value);
    tree_kernels().power(power, some, -how.beta);
    std::copy_n(power, some, weights + from);
  }
  for (uint64_t i = 0; i < count; ++i) {
    indices[i] = static_cast<uint32_t>(drawn[i].leaf);
    probabilities[i] = drawn[i].value / how.total;
  }
  return true;
}

}  // namespace

void export_views(Napi::Env env, Napi::Object exports) {
  static constexpr Exported all[] = {
      {"openView", open_view},         {"setColumns", set_columns}, {"viewCount", view_count},
      {"sampleView", sample_view},     {"takeView", take_view},     {"treeBytes", tree_bytes_js},
      {"formatTree", format_tree},     {"updateTree", update_tree}, {"inspectTree", inspect_tree},
      {"beginUpdates", begin_updates}, {"drawLeaves", draw_leaves},
  };
  add_functions(env, exports, all);
}

}  // namespace hotslot::rows
