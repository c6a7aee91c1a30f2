// How the machine of the Level Zero software driver orders operations, and how its workers run
// them. A wait may be enqueued before the signal that it waits for. What an operation comes after
// is therefore known only when all that has finished. For that reason the detector (order.hpp)
// learns of an operation when it begins.
#pragma once
#include "forms.hpp"
#include "level_zero_machine.hpp"

namespace software {

inline Ref<Op> Machine::submit(const Ref<Lane>& lane, Order& order, const Ref<const Work>& work,
                               const Ref<Run>& run, const std::vector<Ref<Op>>& first) {
  auto op = std::make_shared<Op>();
  op->work = work;
  op->lane = lane;
  op->run = run;
  op->points = work->points;
  op->number = ++serial_;
  if (Detector::on()) op->clock = detector.host();
  for (auto& range : work->ranges)
    if (range.allocation) range.allocation->in_use++;
  for (auto& event : work->waits) event->in_use++;
  if (work->cleared) work->cleared->in_use++;
  if (auto& event = work->signal) {
    event->in_use++;
    event->recorded = false;
    // Later waits for a counter-based event mean this signal.
    if (!event->pool) event->point = op->point = std::make_shared<Point>();
  }
  if (work->launched) work->launched->in_use++;
  for (auto& earlier : first) follow(op, earlier);
  if (order.in_order) {
    follow(op, order.last);
    order.last = op;
  } else {
    follow(op, order.barrier);
    if (work->type == Work::barrier) {
      // A barrier with events waits only for them. Every later operation waits for the barrier.
      if (!work->waits_for_events) {
        for (auto& earlier : order.alive.list) follow(op, earlier);
        op->clock.join(order.alive.dropped);
      }
      order.barrier = op;
    }
    order.alive.add(op);
  }
  lane->pending.add(op);
  if (op->missing == 0)
    look_at_events(op, lane->order.in_order ? 0 : now_ns() + features.linger_us * 1000);
  return op;
}

inline Ref<Op> Machine::submit_run(const Ref<Lane>& lane, const Ref<Run>& run,
                                   const std::vector<Ref<const Work>>& works, bool chained,
                                   const Ref<const Work>& before, const Ref<const Work>& behind,
                                   const Ref<Op>& previous) {
  ++*run->pending;
  run->of->in_use++;
  run->lane = lane.get();
  const bool graph = run->of->sort == Sort::graph || run->of->sort == Sort::executable;
  auto begin = submit(lane, lane->order, before, run, {previous});
  begin->begins = true;
  begin->clock.join(run->clock);
  Order own;
  own.in_order = chained;
  own.last = begin;
  // A list on a queue shares the queue's barriers, unless the queue or the list is in order.
  Order& order = graph || chained || lane->order.in_order ? own : lane->order;
  std::vector<Ref<Op>> ops;
  for (auto& work : works) {
    std::vector<Ref<Op>> first{begin};
    if (graph)
      for (uint32_t need : work->needs) first.push_back(ops[need]);
    ops.push_back(submit(lane, order, work, run, first));
    if (graph) ops.back()->node = int(ops.size()) - 1;
  }
  ops.push_back(begin);
  auto end = submit(lane, lane->order, behind, run, ops);
  end->ends = true;
  run->end = end;
  return end;
}

// Takes an operation to run, or returns null and the time when one is due. Of each lane the newest
// due operation runs first, so that every order that nothing forbids happens. Each lane runs one
// operation at a time, and the lanes take turns.
inline Ref<Op> Machine::take(uint64_t& next_due) {
  const uint64_t now = now_ns();
  next_due = ~uint64_t(0);
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const Ref<Lane> lane = lanes_[i];
    if (lane->running || lane->ready.empty()) continue;
    uint64_t due = ~uint64_t(0);
    for (size_t at = 0; at < lane->ready.size() && due > now; ++at)
      due = std::min(due, lane->ready[at]->due);
    if (due > now) {
      next_due = std::min(next_due, due);
      continue;
    }
    Ref<Op> op = lane->ready.back();
    lane->ready.pop_back();
    lanes_.erase(lanes_.begin() + long(i));
    if (lane->ready.empty())
      lane->listed = false;
    else
      lanes_.push_back(lane);
    return op;
  }
  return nullptr;
}

inline void Machine::work() {
  std::unique_lock held(lock);
  for (;;) {
    uint64_t next_due;
    const Ref<Op> op = take(next_due);
    if (!op) {
      idle_++;
      if (next_due == ~uint64_t(0))
        work_.wait(held);
      else
        work_.wait_for(held, std::chrono::nanoseconds(next_due - std::min(next_due, now_ns())));
      idle_--;
      continue;
    }
    execute(held, op);
  }
}

// Reports to the detector what an operation that begins now reads and writes.
inline void Machine::touch(Op& op) {
  const Work& work = *op.work;
  if (!Detector::on() || work.type < Work::copy) return;
  const char* const name = work.type == Work::kernel ? work.form->name
                           : work.type == Work::copy ? "a copy"
                           : work.type == Work::fill ? "a fill"
                                                     : "a timestamp";
  std::vector<Touch> touches;
  const bool kernel = work.type == Work::kernel;
  // Pageable memory has no allocation, and the detector ignores it.
  const uint16_t late = kernel ? told_late(name) : 0;
  for (size_t i = 0; i < work.ranges.size(); ++i) {
    const Range& range = work.ranges[i];
    if (!range.allocation || late >> i & 1 || (kernel && unseen(*work.form))) continue;
    touches.push_back(
        {range.address, range.bytes, kernel ? (work.form->writes >> i & 1) != 0 : i == 0});
  }
  if (late) {
    hotslot::KernelArgs at = work.args;
    for (size_t i = 0; i < work.ranges.size(); ++i) at.pointer[i] = work.ranges[i].at();
    for (auto& part : parts_of(name, at))
      touches.push_back(
          {work.ranges[size_t(part.pointer)].address + part.at, part.bytes, part.writes});
  }
  if (!touches.empty()) detector.step(op.clock, {name, op.lane->number, op.node}, touches);
}

inline void Machine::execute(std::unique_lock<std::mutex>& held, const Ref<Op>& op) {
  const Ref<Lane> keep_lane = op->lane;
  const Ref<const Work> keep_work = op->work;
  Lane& lane = *keep_lane;
  const Work& work = *keep_work;
  op->state = Op::running;
  lane.running = true;
  op->stamps.begin = now_ns();
  const char* failed = lane.error;
  if (!failed && op->failed) failed = "what it waited for failed";
  if (op->begins && !failed) {
    if (*op->run->active) {
      Calls::all().complain("execution",
                            "a list or graph runs while an earlier run of it is not over", true);
      failed = "it ran twice at the same time";
    } else {
      *op->run->active = op->run;
    }
  }
  if (!failed) touch(*op);
  if (!failed && work.type >= Work::copy) {
    for (auto& other : lanes_)
      if (!other->running && !other->ready.empty()) {
        call_a_hand();
        break;
      }
    held.unlock();
    failed = work.run();
    held.lock();
  }
  if (work.type == Work::reset && !failed) work.cleared->signalled = work.cleared->failed = false;
  if (failed && !lane.error) lane.error = failed;
  op->stamps.end = now_ns();
  finish(op);
  // Lanes and runs keep finished operations, which must not keep other objects alive.
  if (op->run && op->run->end == op) op->run->end.reset();
  op->run.reset(), op->lane.reset(), op->work.reset(), op->fence.reset();
}

inline void Machine::finish(const Ref<Op>& op) {
  Lane& lane = *op->lane;
  const Work& work = *op->work;
  op->state = Op::over;
  lane.running = false;
  lane.done.join(op->clock);
  const bool failed = lane.error != nullptr;
  const Stamps stamps{stamp(op->stamps.begin), stamp(op->stamps.end)};
  for (auto& range : work.ranges)
    if (range.allocation) range.allocation->in_use--;
  for (auto& event : work.waits) event->in_use--;
  if (work.cleared) work.cleared->in_use--;
  if (work.launched) work.launched->in_use--;
  if (op->ends) {
    Run& run = *op->run;
    if (*run.active == op->run) run.active->reset();
    run.clock = op->clock;
    --*run.pending;
    run.of->in_use--;
    run.of.reset();
  }
  for (auto& later : op->next) {
    later->clock.join(op->clock);
    if (--later->missing == 0) look_at_events(later, 0);
  }
  op->next.clear();
  if (op->point) *op->point = {true, failed, stamps, op->clock};
  if (auto& event = work.signal) {
    event->in_use--;
    if (event->pool) signal(*event, failed, stamps, op->clock);
  }
  if (op->fence)
    op->fence->signalled = true, op->fence->failed = failed, op->fence->clock = op->clock;
  if (op->point) event_changed();
  news.notify_all();
  if (!lane.ready.empty()) work_.notify_one();
}

}  // namespace software
