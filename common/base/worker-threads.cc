#include "common/base/worker-threads.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "common/base/error.h"

namespace talos {

// Lives as long as one of the threads.
struct WorkerThreads::Queue {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<kj::Function<void()>> works;
  bool over = false;

  void serve() {
    for (;;) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this]() { return over || !works.empty(); });
      if (over) return;
      auto work = kj::mv(works.front());
      works.pop_front();
      lock.unlock();
      work();
    }
  }
};

WorkerThreads::WorkerThreads(kj::StringPtr purpose)
    : purpose(kj::str(purpose)), queue(std::make_shared<Queue>()) {}

WorkerThreads::~WorkerThreads() noexcept(false) {
  std::unique_lock lock(queue->mutex);
  queue->over = true;
  queue->changed.notify_all();
}

void WorkerThreads::start(unsigned count) {
  for (; started < count; ++started) {
    try {
      std::thread([queue = queue]() { queue->serve(); }).detach();
    } catch (const std::system_error& e) {
      if (started > 0) return;  // one of the existing threads takes the work
      fail(ErrorKind::kUnavailable, kj::str("cannot start a thread for ", purpose, ": ", e.what()));
    }
  }
}

void WorkerThreads::add(kj::Function<void()> work) {
  std::unique_lock lock(queue->mutex);
  queue->works.push_back(kj::mv(work));
  queue->changed.notify_one();
}

}  // namespace talos
