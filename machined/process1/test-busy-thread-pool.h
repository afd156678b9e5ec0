// For tests: a thread pool that is busy.
#pragma once

#include <future>

#include "machined/process1/uv-loop.h"

namespace talos::machined {

// Keeps the pool's threads busy until it is released.
class HeldPool {
 public:
  static constexpr int kThreads = 4;  // of libuv's pool

  explicit HeldPool(UvLoop& uv, int threads = kThreads) {
    auto gate = open.get_future().share();
    for (int i = 0; i < threads; ++i) jobs.add(uv.blocking([gate]() { gate.wait(); }));
  }
  ~HeldPool() noexcept(false) { open.set_value(); }
  KJ_DISALLOW_COPY_AND_MOVE(HeldPool);

 private:
  std::promise<void> open;
  kj::Vector<kj::Promise<void>> jobs;
};

}  // namespace talos::machined
