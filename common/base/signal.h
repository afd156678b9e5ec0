// A wake-up shared by all who wait for "something new": no queue, no memory for each waiter beyond
// its promise. Whoever wakes looks for itself what there is, so any number of raises before it runs
// is one.
#pragma once

#include <kj/async.h>

namespace talos::machined {

class Signal {
 public:
  // Resolves at the next raise(). Rejects when the signal is destroyed first.
  kj::Promise<void> wait() {
    KJ_IF_MAYBE (p, pending) {
      return p->promise.addBranch();
    }
    auto paf = kj::newPromiseAndFulfiller<void>();
    return pending.emplace(Pending{paf.promise.fork(), kj::mv(paf.fulfiller)}).promise.addBranch();
  }

  void raise() {
    KJ_IF_MAYBE (p, pending) {
      p->fulfiller->fulfill();
      pending = nullptr;
    }
  }

 private:
  struct Pending {
    kj::ForkedPromise<void> promise;
    kj::Own<kj::PromiseFulfiller<void>> fulfiller;
  };
  kj::Maybe<Pending> pending;
};

}  // namespace talos::machined
