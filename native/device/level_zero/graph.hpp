// Level Zero's graphs: captured work in the form in which the driver runs it.
#pragma once
#include "device/level_zero/queue.hpp"

namespace hotslot::level_zero {

// A capture in the driver's form: a recorded graph, or a closed list with the events that its runs
// signal.
struct GraphRun {
  explicit GraphRun(XpuDevice& device) : device(device) {}
  ~GraphRun();
  GraphRun(const GraphRun&) = delete;
  XpuDevice& device;
  ListHandle list = nullptr;
  GraphHandle graph = nullptr;
  ExecutableHandle executable = nullptr;
  std::unique_ptr<Gate> go, end;               // of a list that runs on a queue next to the stream
  std::vector<std::shared_ptr<Gate>> records;  // in the order of its program's events
  std::vector<Ref<Point>> relays;  // of its latest run: passed before the events are reset
  std::weak_ptr<Queue> queue;      // a list stays with the queue it first ran on
  bool assigned = false, broken = false;
};

// An instantiated graph. Only its runs change, and the exec's lock guards them.
struct Program {
  Program(XpuDevice& device, Ref<Capture> capture);
  XpuDevice& device;
  const Ref<Capture> capture;  // holds the memory that nodes touch
  const std::vector<Memory*> lent;
  std::vector<Ref<Event>> events;  // recorded by every replay
  std::vector<Ref<GraphRun>> runs;
  Ref<GraphRun> run_for(const Ref<Queue>& queue);

 private:
  Ref<GraphRun> build() const;
  void fill_list(GraphRun& run) const;
  bool record_graph(GraphRun& run) const;
};

class XpuGraph final : public Graph {
 public:
  XpuGraph(XpuDevice& device, Ref<Capture> capture)
      : Graph(device, std::move(capture)), device(device) {}
  Ref<Exec> instantiate() override;
  XpuDevice& device;
};

class XpuExec final : public Exec {
 public:
  explicit XpuExec(Ref<Program> program) : Exec(program->device), program_(std::move(program)) {}
  ~XpuExec() override;
  // Enqueues a run. Returns the events it records and their new points.
  std::vector<std::pair<Ref<Event>, Ref<Point>>> enqueue(const Ref<Queue>& queue);

 protected:
  bool do_update(const Ref<Graph>& graph) override;

 private:
  std::mutex lock_;
  Ref<Program> program_;
  Ref<Point> last_;  // after the latest run: runs are one at a time on all streams
  Retired::Reservation place_;
};

}  // namespace hotslot::level_zero
