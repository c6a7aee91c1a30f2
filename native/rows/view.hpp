// Makes batches of a view: draws steps, and copies the places that the view needs around each step
// into columns. One thread owns the view, and idle cores may help it.
//
// A writer *overtakes* a row if it may have overwritten one of the row's places before the place
// was copied.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <vector>

#include "rows/copy.hpp"
#include "rows/drawable.hpp"
#include "rows/generator.hpp"
#include "rows/mirror.hpp"
#include "rows/priority_tree.hpp"

namespace hotslot::rows {

// One column of a batch, numbered as in src/store/views/columns.ts.
struct Column {
  enum Kind : uint32_t {
    now,        // a field of the step itself, or of each step of a window
    next,       // the observation after the last step
    achieved,   // observations after each step of a transition
    rewards,    // float32
    discounts,  // float32
    terminated,
    truncated,
    steps,          // int32
    ids,            // float64
    weights,        // float32
    weights_wide,   // float64
    probabilities,  // float64
    mask,           // float32
    learn,          // float32
    relabelled,
    priorities,  // float32, each with the bits PriorityTree::unwritten
    goals,       // for a device: indices of the goals of relabeled rows
  };
  Kind kind;
  // For a field: its offset in a place, its bytes, and its number of frames (1: not stacked).
  // `zero`: whether frames before the episode are zero. `observation`: whether it is an
  // observation, of which a window has one more than steps.
  uint32_t offset = 0, bytes = 0, frames = 1;
  bool zero = false, observation = false;
  // Offset + 1 of the field of achieved goals that replaces this field in relabeled rows, or 0 for
  // none.
  uint32_t goal = 0;
  // Its offset in the batch, in bytes.
  uint64_t at = 0;
};

// Options of one batch.
struct Request {
  uint64_t count = 0;
  uint8_t* out = nullptr;
  double beta = 0;
  Weighing::Normalize normalize = Weighing::tree;
};

class View {
 public:
  enum class Result { done, more, empty };

  View(const Lanes& lanes, const ViewRule& rule, std::vector<Column> columns);

  // Makes a device keep the places from now on. A field's column then stores the indices at which
  // the device finds the field's bytes, instead of the bytes.
  void keep_on_device(std::unique_ptr<Mirror> mirror) { mirror_ = std::move(mirror); }
  Mirror* mirror() { return mirror_.get(); }
  // Makes the view draw by the priorities of this tree from now on.
  void follow(std::unique_ptr<PriorityTree> tree) { tree_ = std::move(tree); }
  PriorityTree* tree() { return tree_.get(); }
  void set_columns(std::vector<Column> columns);
  // Returns the first column of a kind, or null.
  const Column* column(Column::Kind kind) const;
  // Returns the bytes from a batch's start to the end of its last column. Returns 2⁶⁴ − 1 if that
  // number overflows.
  uint64_t batch_bytes(uint64_t count) const;
  const Drawable& drawable() const { return drawable_; }
  const Lanes& lanes() const { return lanes_; }
  const ViewRule& rule() const { return rule_; }

  // Takes a new snapshot of the drawable steps.
  void look_around();
  // Draws a batch from the snapshot. Returns `empty` if no step is drawable or, with a tree, if all
  // priorities are zero. Call gather() afterwards, until it returns `done`.
  Result draw(const Request& request, uint64_t seed);
  // Draws again a batch that was drawn before and is still in the slot. `ids` are the ids of its
  // steps. `goals` is its column of goal indices, or null. `brought` has the indices of the `some`
  // places that the batch brings to the device. The weights stay as they are in the slot.
  //
  // Returns false if one of the batch's steps is no longer drawable, or if an index is invalid.
  // Otherwise call gather() afterwards, which returns `empty` if a step was overwritten meanwhile.
  bool draw_as_before(const Request& request, const double* ids, const uint32_t* goals,
                      const uint32_t* brought, uint64_t some);
  // Makes the rows of the drawn batch. If a writer overtakes a row, draws another step for this
  // row. Returns `done` when all rows are whole, or `empty` if a row cannot be drawn again. Returns
  // `more` at `deadline_ns` (CLOCK_MONOTONIC, 0: none). Then call it again.
  //
  // For a large batch, idle cores help, each with its own block of rows. Lanes-4 is checked for
  // each block separately.
  Result gather(uint64_t deadline_ns);
  // Makes a batch of the steps `ids`. `goals` is null, or has an id per row: of the step whose
  // achieved goal becomes the row's goal (−1: the row's own goal). Returns `count` if all rows are
  // whole. Otherwise returns the first row that is not drawable, was overtaken, or has a goal that
  // the rule does not allow.
  uint64_t take(const Request& request, const double* ids, const double* goals);

  // Returns how many rows of the last batch were drawn again.
  uint64_t drawn_again() const { return drawn_again_; }

 private:
  using Row = Drawable::Step;
  // A row's leaf, and the tree's total, minimum and count of nonzero leaves, when the row was
  // drawn.
  struct Chance {
    double value, total, least, drawn_from;
  };
  // The places of a row, as its notes show: [first, first + steps) and the observation after them.
  // `before` places of padding come before `first`. `start` is the first place of the episode, and
  // `lowest` is the lowest place that is read.
  struct Extent {
    uint64_t first, start, lowest;
    uint32_t steps, before;
    // Only for transitions.
    float reward;
    uint8_t terminated, truncated;
  };

  void begin(const Request& request);
  bool draw_rows(uint64_t from, uint64_t to);
  void draw_uniformly(uint64_t from, uint64_t to);
  void draw_by_priority(uint64_t from, uint64_t to);
  Row row_of(uint64_t drawn) const;
  void draw_goals(uint64_t from, uint64_t to);
  // The state of one thread that makes the rows [from, to).
  struct Block {
    uint64_t from = 0, to = 0;
    std::vector<Extent> extents;
    std::vector<Note> notes;
    std::vector<uint32_t> indices;
    // Rows that a writer overtook.
    std::vector<uint64_t> lost;
    const Extent& extent(uint64_t i) const { return extents[i - from]; }
  };
  void make_room(uint64_t blocks);
  bool make_rows(Block& block, uint64_t from, uint64_t to, bool stream) const;
  bool find_rows(Block& block) const;
  void find_row(uint64_t i, const Extent& extent) const;
  bool make_again(uint64_t i);
  void fetch_notes(const Row& row) const;
  void look(const Row& row, uint64_t i, Extent& extent, std::vector<Note>& notes) const;
  void sum_up(const Note* notes, Extent& extent) const;
  void write_window(const Note* notes, const Extent& extent, uint64_t i) const;
  void write_column(const Column& column, const Block& block) const;
  template <typename Each>
  void each_place(const Column& column, const Row& row, const Extent& extent, Each&& each) const;
  // Returns the properties of a column that determine from which places of the lane a row's values
  // are copied. Adjacent columns with equal properties use one list of places.
  auto places_by(const Column& column) const {
    const bool window = rule_.edges != ViewRule::transitions;
    return std::make_tuple(column.kind, column.frames, window && column.observation);
  }
  void list_places(const Column& column, Block& block) const;
  void copy_column(const Column& column, const Block& block, bool stream) const;
  void mend_column(const Column& column, const Block& block) const;
  void weigh();
  uint64_t goal_of(uint64_t i) const { return rule_.relabel == ViewRule::own ? 0 : goals_[i]; }
  uint64_t places_of(const Column& column) const;
  uint64_t row_bytes(const Column& column) const;
  uint64_t rows_per_block() const;
  uint32_t index(const Row& row, uint64_t place) const;
  template <typename T>
  void put(const Column& column, uint64_t i, uint64_t per_row, uint64_t at, T value) const {
    std::memcpy(request_.out + column.at + (i * per_row + at) * sizeof(T), &value, sizeof(T));
  }

  Lanes lanes_;
  ViewRule rule_;
  std::vector<Column> columns_;
  Drawable drawable_;
  std::unique_ptr<PriorityTree> tree_;
  std::unique_ptr<Mirror> mirror_;
  Request request_;
  Generator generator_;
  std::vector<Row> rows_;
  // For hindsight, per row: the place of the new goal, which is the place after the step that
  // achieved the goal. 0 means the row's own goal.
  std::vector<uint64_t> goals_;
  std::vector<Chance> chances_;
  std::vector<Block> blocks_;
  // Element k is gamma^k, rounded once.
  std::vector<float> powers_;
  std::vector<uint32_t> ordinals_;
  uint64_t next_row_ = 0, drawn_again_ = 0;
  // Whether the batch was started by draw_as_before().
  bool as_before_ = false;
};

}  // namespace hotslot::rows
