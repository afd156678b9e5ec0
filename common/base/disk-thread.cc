#include "common/base/disk-thread.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "common/base/error.h"

namespace talos {

kj::Promise<void> DiskQueue::run(kj::Function<void()> work) {
  auto paf = kj::newPromiseAndCrossThreadFulfiller<void>();
  add([work = kj::mv(work), done = kj::mv(paf.fulfiller)]() mutable {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { work(); })) {
      done->reject(kj::mv(*e));
    } else {
      done->fulfill();
    }
  });
  return kj::mv(paf.promise);
}

// --- the thread

struct DiskThread::Shared {
  std::mutex mutex;
  std::condition_variable news;
  std::deque<kj::Function<void()>> works;
  bool ends = false;

  void serve() {
    for (;;) {
      std::unique_lock lock(mutex);
      news.wait(lock, [this]() { return ends || !works.empty(); });
      if (ends) return;
      auto work = kj::mv(works.front());
      works.pop_front();
      lock.unlock();
      work();
    }
  }
};

DiskThread::DiskThread() : shared(std::make_shared<Shared>()) {}

DiskThread::~DiskThread() noexcept(false) {
  std::unique_lock lock(shared->mutex);
  shared->ends = true;
  shared->news.notify_one();
}

void DiskThread::add(kj::Function<void()> work) {
  if (!started) {
    try {
      std::thread([shared = shared]() { shared->serve(); }).detach();
    } catch (const std::system_error& e) {
      fail(ErrorKind::kUnavailable, kj::str("cannot start a thread for the disk: ", e.what()));
    }
    started = true;
  }
  std::unique_lock lock(shared->mutex);
  shared->works.push_back(kj::mv(work));
  shared->news.notify_one();
}

// --- files

struct QueuedFile::State final : public kj::AtomicRefcounted {
  explicit State(kj::Function<kj::AutoCloseFd()> open) : open(kj::mv(open)) {}

  // Only the queue uses these fields, one item of work at a time.
  kj::Function<kj::AutoCloseFd()> open;
  kj::AutoCloseFd fd;
};

QueuedFile::QueuedFile(DiskQueue& queue, kj::Function<kj::AutoCloseFd()> open)
    : queue(&queue), state(kj::atomicRefcounted<State>(kj::mv(open))) {}

QueuedFile::QueuedFile(QueuedFile&& other) noexcept = default;

QueuedFile::~QueuedFile() noexcept(false) {
  if (state.get() != nullptr) queue->add([state = kj::mv(state)]() {});
}

kj::Promise<void> QueuedFile::use(kj::Function<void(int fd)> work) {
  return queue->run([state = kj::atomicAddRef(*state), work = kj::mv(work)]() mutable {
    if (state->fd.get() < 0) state->fd = state->open();
    work(state->fd.get());
  });
}

}  // namespace talos
