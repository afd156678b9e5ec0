// A thread for work on the disk, which may take seconds when the disk is slow: the event loop goes
// on meanwhile, and with it the health checks and the votes of the cluster.
//
// Work runs in the order in which it was given, one piece at a time. It owns all that it uses,
// because it runs to its end even if nobody waits for it any more. When the process exits, work
// that hangs is left behind.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/io.h>
#include <kj/memory.h>

#include <memory>

namespace talos {

class DiskQueue {
 public:
  virtual ~DiskQueue() noexcept(false) = default;

  // The work must not throw, and is destroyed where it has run.
  virtual void add(kj::Function<void()> work) = 0;

  // Throws what the work throws.
  kj::Promise<void> run(kj::Function<void()> work);
};

// The thread starts with the first work. Unavailable if it cannot.
class DiskThread final : public DiskQueue {
 public:
  DiskThread();
  ~DiskThread() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(DiskThread);

  void add(kj::Function<void()> work) override;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared;
  bool started = false;
};

// A file that is opened, used and closed by the queue alone: even the last close of a large file
// without a name takes its time.
class QueuedFile {
 public:
  // `open` is called before the first use.
  QueuedFile(DiskQueue& queue, kj::Function<kj::AutoCloseFd()> open);
  QueuedFile(QueuedFile&& other) noexcept;
  ~QueuedFile() noexcept(false);
  KJ_DISALLOW_COPY(QueuedFile);

  kj::Promise<void> use(kj::Function<void(int fd)> work);

 private:
  struct State;
  DiskQueue* queue;
  kj::Own<State> state;  // none: moved from
};

}  // namespace talos
