// A wake-up for whoever waits for something new: no queue, no memory for each waiter beyond its
// promise. Whoever wakes looks for itself what there is, so any number of raises before it runs is
// one. What waits when the signal is destroyed is rejected.
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

  // At the next raise(): for any number of waiters, each of which begins to wait before it looks.
  kj::Promise<void> next() {
    KJ_IF_MAYBE (p, pending) {
      return p->promise.addBranch();
    }
    auto paf = kj::newPromiseAndFulfiller<void>();
    return pending.emplace(Pending{paf.promise.fork(), kj::mv(paf.fulfiller)}).promise.addBranch();
  }

  // The same, and at once when there was a raise() that no wait() has told of yet: for one waiter
  // that does other things in between, and drops what it waits for when something else is faster.
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
