// Threads that take work from one queue, so that the event loop continues while the work blocks.
//
// The threads begin work in the order in which it was added, one item on each thread. They live as
// long as this object. At its end it does not wait: work that has begun runs to its end on its
// thread, so a thread that hangs keeps no program from exiting. Work that has not begun is dropped.
#pragma once

#include <kj/function.h>
#include <kj/string.h>

#include <memory>

namespace talos {

class WorkerThreads {
 public:
  // `purpose`: for the error ("reads").
  explicit WorkerThreads(kj::StringPtr purpose);
  ~WorkerThreads() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(WorkerThreads);

  // Starts threads until there are `count`. Throws Unavailable if no thread runs and none can be
  // started.
  void start(unsigned count);

  // The work must not throw; it is destroyed on the thread where it ran.
  void add(kj::Function<void()> work);

 private:
  struct Queue;
  kj::String purpose;
  std::shared_ptr<Queue> queue;
  unsigned started = 0;
};

}  // namespace talos
