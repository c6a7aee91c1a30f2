// The driver of CUDA, and of ROCm. ROCm runs the same code with another table of functions
// (hip/find.cpp).
#pragma once
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "device/core/library.hpp"
#include "device/core/own_thread.hpp"
#include "device/cuda/abi.hpp"
#include "device/gpu/give_back.hpp"
#include "device/gpu/retired.hpp"
#include "kernels/images.hpp"

namespace hotslot::cuda {

class CudaDevice;

// Returns whether the status means that the device's context is lost.
constexpr bool loses_context(Status status) {
  switch (status) {
    case 214:  // uncorrectable ECC error
    case 220:  // uncorrectable NVLink error
    case 226:  // contained error
    case status::illegal_address:
    case status::launch_timeout:
    case 709:  // the primary context was reset
    case 710:  // assertion in a kernel
    case 721:  // tensor memory of a kernel was not released
    case 810:  // the client of a shared context was ended
      return true;
    default:
      return status >= 714 && status <= 719;
  }
}

// Returns advice for a CUDA status that concerns the machine's setup, and null for any other
// status.
const char* setup_advice(Status status);

// An opened driver with its devices. It is NVIDIA's driver, or AMD's HIP runtime in the same table.
// A process has at most one object for each, and never closes it.
struct Driver {
  const char* family;
  const char* submitter;
  const char* context_lost;  // advice for an error after which the context is lost
  Table call;
  Library library;
  int version = 0;
  // Images of the kernels. The device loads the first one that the driver accepts.
  std::vector<KernelImage> images;
  // Whether threads may query events while any thread captures. If not, no thread queries during a
  // capture.
  bool polls_in_capture = true;
  // Whether the driver ends a broken capture although its call to end the capture returns an error.
  // If false, the capture may stay open after such an error.
  bool ends_broken_captures = true;
  std::string version_text;

  std::atomic<int> open_captures{0};
  std::vector<Ref<CudaDevice>> devices;  // opened and never removed; guarded by `lock`
  std::mutex lock;
  Retired retired{[this] { return marks(); }, [this] { return idle(); }};
  Unreturned unreturned;

  [[noreturn]] void refuse(const char* call_name, Status status,
                           const std::string& detail = "") const;
  template <class... P, class... A>
  void check(const Call<Status(P...)>& entry, A... arguments) const {
    if (const Status status = entry(arguments...); status != status::success)
      refuse(entry.name, status);
  }
  bool may_poll() const { return polls_in_capture || open_captures.load() == 0; }
  // Returns marks after all work that is enqueued so far on the family's streams. Also frees closed
  // streams that are idle.
  Marks marks();
  // Returns whether all work that is enqueued so far on the family's streams is done. It only
  // queries, and enqueues nothing.
  bool idle();
  // Frees retired resources that no work touches any more, including closed streams.
  void sweep() {
    Marks unused;
    if (Retired::may_sweep() && has_closed_streams()) retired.mark(unused);
    retired.sweep();
  }
  // Sweeps, and tries again to free the objects that the driver failed to free before.
  void tidy() {
    sweep();
    if (Retired::may_sweep()) unreturned.offer_again();
  }
  bool has_closed_streams();

  // prefetch() enqueues a move of managed memory, and advise() passes advice about it. `where` is a
  // device's index, or on_cpu. Both use the newest signature of the function that this driver has.
  void prefetch(DevicePtr at, size_t bytes, int where, StreamHandle stream) const;
  void advise(DevicePtr at, size_t bytes, MemoryAdvice advice, int where) const;
  DeviceId id_of(int where) const;
};

// The current context and capture mode of the calling thread. In a thread that runs only Hotslot's
// code, no other code changes them. So Hotslot stores them here instead of asking the driver each
// time.
struct OwnThreadState {
  const Driver* driver = nullptr;
  Context context = nullptr;
  // Number of Enter objects that exist in this thread.
  int depth = 0;
  // The driver whose capture mode is permanently relaxed in this thread.
  const Driver* relaxed = nullptr;
};
// Returns the state, or null in a thread that also runs other code.
inline OwnThreadState* own_thread_state() {
  static thread_local OwnThreadState state;
  return is_own_thread ? &state : nullptr;
}

// Makes the device's context current in a scope. The end of the scope restores the context of
// another library or of an enclosing scope. If the thread had no context before, ours stays
// current.
class Enter {
 public:
  Enter(const Driver& driver, Context context) : driver_(&driver), own_(own_thread_state()) {
    if (own_ != nullptr) {
      const OwnThreadState outer = *own_;
      if (outer.driver != &driver || outer.context != context) {
        driver.check(driver.call.context_set_current, context);
        own_->driver = &driver;
        own_->context = context;
        if (outer.depth > 0) driver_ = outer.driver, before_ = outer.context, changed_ = true;
      }
      ++own_->depth;
      return;
    }
    if (driver.call.context_get_current(&before_) == status::success && before_ == context) return;
    driver.check(driver.call.context_set_current, context);
    changed_ = before_ != nullptr;
  }
  ~Enter() {
    if (own_ != nullptr) --own_->depth;
    if (!changed_) return;
    driver_->call.context_set_current(before_);
    if (own_ != nullptr) own_->driver = driver_, own_->context = before_;
  }
  Enter(const Enter&) = delete;

 private:
  const Driver* driver_;
  OwnThreadState* const own_;
  Context before_ = nullptr;
  bool changed_ = false;
};

// Relaxes the thread's capture mode in a scope. While another library captures in CUDA's global
// mode, a thread must be in relaxed mode to query or allocate. In any other mode, the query or
// allocation would break the library's capture.
//
// Relaxing is safe because our own rules reject invalid calls first. The end of the scope restores
// the mode, unless the thread runs only our code.
class RelaxedCaptureMode {
 public:
  explicit RelaxedCaptureMode(const Driver& driver) : driver_(driver) {
    OwnThreadState* const own = own_thread_state();
    if (own != nullptr && own->relaxed == &driver) return;
    const bool relaxed = driver.call.exchange_capture_mode(&mode_) == status::success;
    if (own == nullptr)
      changed_ = relaxed;
    else if (relaxed)
      own->relaxed = &driver;
  }
  ~RelaxedCaptureMode() {
    if (changed_) driver_.call.exchange_capture_mode(&mode_);
  }
  RelaxedCaptureMode(const RelaxedCaptureMode&) = delete;

 private:
  const Driver& driver_;
  CaptureMode mode_ = capture_relaxed;
  bool changed_ = false;
};

}  // namespace hotslot::cuda
