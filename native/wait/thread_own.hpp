// An object of each thread, destroyed when the thread ends. made() throws if there is no memory for
// the object. A thread_local with a destructor cannot do this, because the C library ends the
// process if memory runs out.
#pragma once
#include <pthread.h>

#include <memory>
#include <new>

namespace hotslot {

template <class T>
class ThreadOwn {
 public:
  ThreadOwn() {
    if (pthread_key_create(&key_, [](void* own) { delete static_cast<T*>(own); }) != 0)
      throw std::bad_alloc();
  }
  ThreadOwn(const ThreadOwn&) = delete;
  // Returns the object of this thread, or null if made() has not created it.
  T* get() const { return static_cast<T*>(pthread_getspecific(key_)); }
  T& made() const {
    if (T* const known = get()) return *known;
    auto own = std::make_unique<T>();
    if (pthread_setspecific(key_, own.get()) != 0) throw std::bad_alloc();
    return *own.release();
  }

 private:
  pthread_key_t key_;
};

}  // namespace hotslot
