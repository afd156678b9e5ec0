#include "common/base/disk-thread.h"

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
