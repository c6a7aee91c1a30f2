// Level Zero's graphs: captured work in the form in which the driver runs it.
#pragma once
#include "device/level_zero/queue.hpp"

namespace hotslot::level_zero {

// A capture in the driver's form: either a recorded graph, or a closed list and the events that the
// list's runs signal.
struct GraphRun {
  explicit GraphRun(XpuDevice& device) : device(device) {}
  ~GraphRun();
  GraphRun(const GraphRun&) = delete;
  XpuDevice& device;
  ListHandle list = nullptr;
  GraphHandle graph = nullptr;
  ExecutableHandle executable = nullptr;
  std::unique_ptr<Gate> go, end;               // of a list that cannot be appended; see replay()
  std::vector<std::shared_ptr<Gate>> records;  // in the order of its program's events
  std::vector<Ref<Point>> relays;  // of the latest run; they pass before the events are reset
  std::weak_ptr<Queue> queue;      // the first queue that used the list; no other uses it
  bool assigned = false, broken = false;
};

// An instantiated graph. Only `runs` changes, and the exec's lock guards it.
struct Program {
  Program(XpuDevice& device, Ref<Capture> capture);
  XpuDevice& device;
  const Ref<Capture> capture;  // keeps the memory alive that nodes touch
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
  // Enqueues a run. Returns the events that the run records, with their new points.
  std::vector<std::pair<Ref<Event>, Ref<Point>>> enqueue(const Ref<Queue>& queue);

 protected:
  bool do_update(const Ref<Graph>& graph) override;

 private:
  std::mutex lock_;
  Ref<Program> program_;
  Ref<Point> last_;  // after the latest run; the next run waits for it, on any stream
  Retired::Reservation place_;
};

}  // namespace hotslot::level_zero
