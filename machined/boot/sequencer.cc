#include "machined/boot/sequencer.h"

#include <kj/debug.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

constexpr auto kTakeOverTimeout = 1 * kj::MINUTES;

kj::String duration(kj::Duration d) {
  auto ms = d / kj::MILLISECONDS;
  if (ms < 1000) return kj::str(ms, " ms");
  auto fraction = ms % 1000 / 10;
  return kj::str(ms / 1000, ".", fraction < 10 ? "0" : "", fraction, " s");
}

kj::String count(size_t n, kj::StringPtr noun) {
  return kj::str(n, " ", noun, n == 1 ? "" : "s");
}

}  // namespace

struct Sequencer::Impl {
  SequenceListener& listener;
  kj::Timer& timer;
  const kj::MonotonicClock& clock;

  // The lock, and the means to take the lock from its holder.
  struct Holder {
    kj::String sequence, phase;
    kj::Own<kj::PromiseFulfiller<void>> evict;  // rejecting it ends the sequence
    kj::Own<kj::PromiseFulfiller<void>> releasedFulfiller;
    kj::ForkedPromise<void> released = nullptr;
  };
  kj::Maybe<kj::Own<Holder>> holder;

  Impl(SequenceListener& listener, kj::Timer& timer, const kj::MonotonicClock& clock)
      : listener(listener), timer(timer), clock(clock) {}

  Holder& take(kj::StringPtr name) {
    auto own = kj::heap<Holder>();
    auto& ref = *own;
    ref.sequence = kj::str(name);
    auto paf = kj::newPromiseAndFulfiller<void>();
    ref.releasedFulfiller = kj::mv(paf.fulfiller);
    ref.released = paf.promise.fork();
    holder = kj::mv(own);
    return ref;
  }
  void release(Holder& mine) {
    KJ_IF_MAYBE (h, holder) {
      if (h->get() != &mine) return;
      auto keep = kj::mv(*h);
      holder = nullptr;
      keep->releasedFulfiller->fulfill();
    }
  }

  kj::Promise<void> underLock(Sequence sequence) {
    auto& mine = take(sequence.name);
    KJ_DEFER(release(mine));
    auto evicted = kj::newPromiseAndFulfiller<void>();
    mine.evict = kj::mv(evicted.fulfiller);
    co_await execute(kj::mv(sequence), &mine).exclusiveJoin(kj::mv(evicted.promise));
  }

  kj::Promise<void> takeOver(Sequence sequence) {
    auto deadline = timer.now() + kTakeOverTimeout;
    for (;;) {
      Holder* other = nullptr;
      KJ_IF_MAYBE (h, holder) other = h->get();
      if (other == nullptr) break;
      if (timer.now() >= deadline) {
        fail(ErrorKind::kDeadlineExceeded,
             kj::str("sequence ", other->sequence, " did not end for ", sequence.name,
                     " within 1 minute"));
      }
      auto released = other->released.addBranch();
      listener.line(
          kj::str("sequence ", other->sequence, ": cancelled, ", sequence.name, " takes over"));
      other->evict->reject(error(
          ErrorKind::kFailedPrecondition,
          kj::str("sequence ", other->sequence, " was cancelled: ", sequence.name, " took over")));
      co_await released.exclusiveJoin(timer.atTime(deadline));
    }
    co_await underLock(kj::mv(sequence));
  }

  // --- running ---

  struct Outcome {
    kj::Maybe<kj::Exception> first;  // in time
  };

  kj::Promise<void> runTask(Task& task, size_t index, size_t total, Outcome& outcome) {
    auto label = kj::str("task ", task.name, " (", index + 1, "/", total, ")");
    auto begin = clock.now();
    listener.task(task.name, rpc::Action::START);
    listener.line(kj::str(label, ": starting"));
    kj::Maybe<kj::Exception> failure;
    co_await kj::evalLater([&]() { return task.run(); }).catch_([&](kj::Exception&& e) {
      failure = kj::mv(e);
    });
    auto took = duration(clock.now() - begin);
    KJ_IF_MAYBE (e, failure) {
      listener.line(kj::str(label, ": failed after ", took, ": ", messageOf(*e)));
      if (outcome.first == nullptr) {
        outcome.first = error(kindOf(*e), kj::str("task ", task.name, ": ", messageOf(*e)));
      }
    } else {
      listener.line(kj::str(label, ": done, ", took));
    }
    listener.task(task.name, rpc::Action::STOP);
  }

  kj::Promise<void> runPhase(Phase& phase, size_t index, size_t total) {
    auto label = kj::str("phase ", phase.name, " (", index + 1, "/", total, ")");
    auto begin = clock.now();
    listener.phase(phase.name, rpc::Action::START);
    listener.line(kj::str(label, ": ", count(phase.tasks.size(), "task")));
    Outcome outcome;
    kj::Vector<kj::Promise<void>> running;
    for (size_t i = 0; i < phase.tasks.size(); i++) {
      running.add(runTask(phase.tasks[i], i, phase.tasks.size(), outcome));
    }
    co_await kj::joinPromises(running.releaseAsArray());
    auto took = duration(clock.now() - begin);
    listener.line(kj::str(label, outcome.first == nullptr ? ": done, " : ": failed after ", took));
    listener.phase(phase.name, rpc::Action::STOP);
    KJ_IF_MAYBE (e, outcome.first) {
      fail(kindOf(*e), kj::str("phase ", phase.name, ": ", messageOf(*e)));
    }
  }

  kj::Promise<void> execute(Sequence sequence, Holder* mine) {
    auto begin = clock.now();
    auto total = sequence.phases.size();
    listener.sequence(sequence.name, rpc::Action::START, "", false);
    listener.line(kj::str("sequence ", sequence.name, ": ", count(total, "phase")));
    kj::Maybe<kj::Exception> failure;
    bool finished = false;
    KJ_DEFER({
      if (!finished) listener.sequence(sequence.name, rpc::Action::STOP, "", false);
    });
    for (size_t i = 0; i < total && failure == nullptr; i++) {
      if (mine != nullptr) mine->phase = kj::str(sequence.phases[i].name);
      co_await runPhase(sequence.phases[i], i, total).catch_([&](kj::Exception&& e) {
        failure = kj::mv(e);
      });
    }
    finished = true;
    listener.sequence(sequence.name, rpc::Action::STOP, "", false);
    auto took = duration(clock.now() - begin);
    KJ_IF_MAYBE (e, failure) {
      auto text = messageOf(*e);
      listener.line(kj::str("sequence ", sequence.name, ": failed after ", took, ": ", text));
      listener.sequence(sequence.name, rpc::Action::NOOP, text, false);
      kj::throwFatalException(kj::mv(*e));
    }
    listener.line(kj::str("sequence ", sequence.name, ": done, ", took));
  }
};

Sequencer::Sequencer(SequenceListener& listener, kj::Timer& timer, const kj::MonotonicClock& clock)
    : impl(kj::heap<Impl>(listener, timer, clock)) {}
Sequencer::~Sequencer() noexcept(false) = default;

kj::Promise<void> Sequencer::run(Sequence sequence, Start how) {
  switch (how) {
    case Start::kTakeOver:
      return impl->takeOver(kj::mv(sequence));
    case Start::kPlain:
      KJ_IF_MAYBE (h, impl->holder) {
        auto text = kj::str("locked: sequence ", (*h)->sequence, " is running");
        impl->listener.sequence(sequence.name, rpc::Action::NOOP, text, true);
        return error(ErrorKind::kConflict, text);
      }
      return impl->underLock(kj::mv(sequence));
  }
  KJ_UNREACHABLE;
}

kj::StringPtr Sequencer::currentSequence() const {
  KJ_IF_MAYBE (h, impl->holder) return (*h)->sequence;
  return "";
}
kj::StringPtr Sequencer::currentPhase() const {
  KJ_IF_MAYBE (h, impl->holder) return (*h)->phase;
  return "";
}

}  // namespace talos::machined
