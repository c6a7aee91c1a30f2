// Reports operations of the software drivers of CUDA and HIP to the detector (order.hpp). A stream
// is a queue that keeps its order. A record fixes what its event comes after.
#pragma once
#include "cuda_state.hpp"
#include "order_parts.hpp"

namespace hotslot::software {

inline Detector& detector() {
  static Detector* detector =
      new Detector([](const std::string& text) { desk().complaints.say(text); });
  return *detector;
}

// Kernels that report their bytes when they run. The last real argument of a launch is its number.
class LateKernels {
 public:
  static LateKernels& all() {
    static LateKernels* all = new LateKernels;
    return *all;
  }
  // Prepares a launch to report its bytes under the returned number. Returns 0 if the bytes are
  // known already.
  uint64_t watch(Launch& launch, bool captured) {
    if (!Detector::on() || !told_late(launch.kernel->name)) return 0;
    std::lock_guard guard(lock_);
    auto& form = forms_[launch.kernel];
    if (!form) {
      form = std::make_unique<Kernel>(*launch.kernel);
      form->run = run;
    }
    const uint64_t number = ++numbers_;
    launches_[number] = {launch.kernel, captured, {}};
    launch.kernel = form.get();
    launch.args.real[max_floats - 1] = double(number);
    return number;
  }
  void expect(uint64_t number, const StepRef& step) {
    std::lock_guard guard(lock_);
    launches_[number].steps.push_back(step);
  }

 private:
  struct One {
    const Kernel* kernel = nullptr;
    bool captured = false;
    std::deque<StepRef> steps;  // one for each replay, in order
  };
  static const char* run(const KernelArgs* args) {
    const One one = all().next(uint64_t(args->real[max_floats - 1]));
    if (!one.steps.empty()) {
      std::vector<Touch> touches;
      for (auto& part : parts_of(one.kernel->name, *args))
        touches.push_back(
            {uintptr_t(args->pointer[part.pointer]) + part.at, part.bytes, part.writes});
      detector().runs(one.steps.front(), touches);
    }
    return one.kernel->run(args);
  }
  One next(uint64_t number) {
    std::lock_guard guard(lock_);
    const auto found = launches_.find(number);
    One one{found->second.kernel, true, {}};
    if (!found->second.steps.empty()) {
      one.steps.push_back(found->second.steps.front());
      found->second.steps.pop_front();
    }
    if (!found->second.captured) launches_.erase(found);
    return one;
  }
  std::mutex lock_;
  uint64_t numbers_ = 0;
  std::map<const Kernel*, std::unique_ptr<Kernel>> forms_;
  std::map<uint64_t, One> launches_;
};

inline void step(Clock& clock, const Contents::Node& node, uint64_t queue, int index = -1) {
  if (node.touches.empty()) return;
  clock.join(detector().host());
  const StepRef made =
      detector().step(clock, {node.what, queue, index}, node.touches, node.late != 0);
  if (node.late) LateKernels::all().expect(node.late, made);
}

// Reports an operation next to the call that enqueues it. Outside a capture it is a step at once.
// In a capture it is a node, which becomes a step of each launch.
inline void add_node(Stream& stream, Contents::Node node,
                     std::initializer_list<Ref<Range>> ranges) {
  Capture* capture = stream.capturing();
  if (!capture) {
    if (Detector::on()) step(stream.clock(), node, stream.number);
    return;
  }
  auto& nodes = capture->contents->nodes;
  node.after = std::exchange(stream.last_nodes, {uint32_t(nodes.size())});
  nodes.push_back(std::move(node));
  for (auto& range : ranges)
    if (range) capture->contents->ranges.push_back(range);
}

// Reports a launch of a graph. It comes after earlier launches of the same graph on any stream.
inline void order_launch(Stream& stream, Exec& exec) {
  if (!Detector::on() || stream.capturing()) return;
  Clock begin = stream.clock(), end;
  begin.join(exec.clock);
  const auto& nodes = exec.contents->nodes;
  std::vector<Clock> behind(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    Clock& clock = behind[i] = begin;
    for (const uint32_t earlier : nodes[i].after) clock.join(behind[earlier]);
    step(clock, nodes[i], stream.number, int(i));
    if (nodes[i].event) nodes[i].event->clock = clock;
    end.join(clock);
  }
  stream.clock().join(end);
  exec.clock = stream.clock();
}

inline void seen(const Clock& clock) {
  if (Detector::on()) detector().seen(clock);
}
// Returns `ask()`: whether everything before `clock` is done. If so, the host knows that from now
// on.
template <class F>
bool looks(const Clock& clock, F&& ask) {
  const bool done = ask();
  if (done) seen(clock);
  return done;
}

}  // namespace hotslot::software
