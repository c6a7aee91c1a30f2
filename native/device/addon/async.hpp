// Runs work on a thread of Node's pool, for callers that must not block. Returns a promise of the
// result.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "device/addon/napi.hpp"

namespace hotslot {

template <class R>
class Async final : public Napi::AsyncWorker {
 public:
  // Runs `work` on a thread of the pool and returns a promise. The promise resolves to the result
  // of `work`. If `work` throws an Error, the promise rejects with this error.
  static Napi::Value start(Info info, std::function<R()> work) {
    // This scope owns the object until it is queued. A queued object deletes itself after its work
    // is done.
    std::unique_ptr<Async> async(new Async(info.Env(), std::move(work)));
    const Napi::Value promise = async->deferred_.Promise();
    async->Queue();
    async.release();
    return promise;
  }
  void Execute() override {
    try {
      result_ = work_();
    } catch (const Error& error) {
      failed_.emplace(error);
    } catch (const std::bad_alloc&) {
      failed_.emplace(no_memory_);
    }
    work_ = nullptr;  // frees the captured objects here instead of in JavaScript's thread
  }
  void OnOK() override {
    if (!failed_) return deferred_.Resolve(Napi::Value::From(Env(), *result_));
    try {
      throw_js(Env(), view(*failed_));
    } catch (const Napi::Error& error) {
      deferred_.Reject(error.Value());
    }
  }
  // Called for any other error of the pool's thread.
  void OnError(const Napi::Error& error) override { deferred_.Reject(error.Value()); }

 private:
  Async(Napi::Env env, std::function<R()> work)
      : AsyncWorker(env), deferred_(Napi::Promise::Deferred::New(env)), work_(std::move(work)) {}
  Napi::Promise::Deferred deferred_;
  std::function<R()> work_;
  std::optional<R> result_;
  std::optional<Error> failed_;
  // Created in advance, because creating it allocates memory. Copying it allocates nothing.
  const Error no_memory_ = out_of_memory("out of memory on a thread of the pool");
};

}  // namespace hotslot
