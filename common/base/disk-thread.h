// A thread for work on the disk, which may take seconds if the disk is slow: the event loop, and so
// the health checks and the votes of the cluster, continue meanwhile.
//
// Work runs in the order in which it was added, one item at a time. An item must own everything
// that it uses, because it runs to its end even if its caller has dropped the promise. When the
// process exits, work that hangs is abandoned. libuv's pool cannot replace this thread: it has
// several threads and no order, and the programs that write files with it have no loop of libuv.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/io.h>
#include <kj/memory.h>

#include "common/base/worker-threads.h"

namespace talos {

class DiskQueue {
 public:
  virtual ~DiskQueue() noexcept(false) = default;

  // The work must not throw; it is destroyed on the thread where it ran.
  virtual void add(kj::Function<void()> work) = 0;

  // Rejects with the exception that the work throws.
  kj::Promise<void> run(kj::Function<void()> work);
};

// A queue with one thread, which starts with the first work. Throws Unavailable if it cannot start.
class DiskThread final : public DiskQueue {
 public:
  void add(kj::Function<void()> work) override {
    threads.start(1);
    threads.add(kj::mv(work));
  }

 private:
  WorkerThreads threads{"the disk"};
};

// A file that only the queue opens, uses and closes: even the last close of a large unlinked file
// takes time.
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
  kj::Own<State> state;  // null after a move
};

}  // namespace talos
