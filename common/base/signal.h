// An event that coroutines wait for: no queue, and no memory for each waiter beyond its promise. A
// waiter must find out itself what has changed, so any number of raises before it runs count as
// one. Promises that still wait when the signal is destroyed are rejected.
#pragma once

#include <kj/async.h>

namespace talos {

class Signal {
 public:
  void raise() {
    raised = true;
    KJ_IF_MAYBE (p, pending) {
      p->fulfiller->fulfill();
      pending = nullptr;
    }
  }

  // Resolves at the next raise(), for any number of waiters. A waiter must call it before it checks
  // the state.
  kj::Promise<void> next() {
    KJ_IF_MAYBE (p, pending) {
      return p->promise.addBranch();
    }
    auto paf = kj::newPromiseAndFulfiller<void>();
    return pending.emplace(Pending{paf.promise.fork(), kj::mv(paf.fulfiller)}).promise.addBranch();
  }

  // Does the same, but resolves at once if raise() was called since the last wait(): for a single
  // waiter that does other work in between, and drops the promise when something else is faster.
  kj::Promise<void> wait() {
    if (raised) {
      raised = false;
      return kj::READY_NOW;
    }
    return next().then([this] { raised = false; });
  }

 private:
  struct Pending {
    kj::ForkedPromise<void> promise;
    kj::Own<kj::PromiseFulfiller<void>> fulfiller;
  };
  kj::Maybe<Pending> pending;
  bool raised = false;
};

}  // namespace talos
