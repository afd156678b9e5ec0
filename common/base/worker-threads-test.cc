#include "common/base/worker-threads.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

namespace talos {
namespace {

// Shared with the threads, which may still use it when the test has seen it happen.
struct Event {
  std::shared_ptr<std::promise<void>> promise = std::make_shared<std::promise<void>>();
  std::shared_future<void> future = promise->get_future().share();
  void happen() const { promise->set_value(); }
  void wait() const { future.wait(); }
};

// Catches: work that overtakes other work, as that on files must not; two threads where one was
// requested.
TEST(WorkerThreads, OneThreadKeepsTheOrder) {
  std::vector<int> order;  // without a lock: one thread
  Event done;
  WorkerThreads threads("a test");
  for (int i = 0; i < 100; ++i) {
    threads.start(1);
    threads.add([&order, i]() { order.push_back(i); });
  }
  threads.add([done]() { done.happen(); });
  done.wait();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

// Catches: work that waits for a thread that hangs although another was started.
TEST(WorkerThreads, AnotherThreadTakesTheWork) {
  Event gate, begun, done;
  WorkerThreads threads("a test");
  threads.start(1);
  threads.add([gate, begun]() {
    begun.happen();
    gate.wait();
  });
  begun.wait();
  threads.start(2);
  threads.add([done]() { done.happen(); });
  done.wait();
  gate.happen();
}

// Catches: a program that cannot exit because a thread hangs; work that begins after the end.
TEST(WorkerThreads, TheEndWaitsForNothing) {
  Event gate, begun;
  auto later = std::make_shared<bool>(false);
  {
    WorkerThreads threads("a test");
    threads.start(1);
    threads.add([gate, begun]() {
      begun.happen();
      gate.wait();
    });
    threads.add([later]() { *later = true; });
    begun.wait();
  }
  gate.happen();
  while (later.use_count() > 1) std::this_thread::yield();  // until the thread ends
  EXPECT_FALSE(*later);
}

}  // namespace
}  // namespace talos
