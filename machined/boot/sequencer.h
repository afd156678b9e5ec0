// Runs sequences: ordered phases of named tasks that run in parallel, under one lock for the
// machine.
//
// All tasks of a phase finish even if one fails; the first error ends the sequence. The list of
// phases is fixed before the first one runs. Nothing outlives the brain: tasks keep the progress of
// a sequence (machined/boot/machine-stage.h).
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/timer.h>
#include <kj/vector.h>

#include "rpc/machine.capnp.h"

namespace talos::machined {

struct Task {
  kj::String name;
  kj::Function<kj::Promise<void>()> run;
};
struct Phase {
  kj::String name;
  kj::Vector<Task> tasks;
};
struct Sequence {
  kj::String name;
  kj::Vector<Phase> phases;
};

enum class Start {
  kPlain,     // if the lock is taken: Conflict, and an event with `locked`
  kTakeOver,  // drops the running sequence, then takes the lock; the later of two wins
};

// Receives the steps of a sequencer, for the event ring, the console and the log.
class SequenceListener {
 public:
  virtual void sequence(kj::StringPtr name, rpc::Action action, kj::StringPtr error,
                        bool locked) = 0;
  virtual void phase(kj::StringPtr name, rpc::Action action) = 0;
  virtual void task(kj::StringPtr name, rpc::Action action) = 0;
  virtual void line(kj::StringPtr text) = 0;  // for the console, without newline
};

class Sequencer {
 public:
  // `clock` measures the durations in lines; unlike a timer's it advances within a turn of the
  // loop.
  Sequencer(SequenceListener& listener, kj::Timer& timer, const kj::MonotonicClock& clock);
  ~Sequencer() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Sequencer);

  // Rejects with the first error, whose kind stays and whose text names phase and task; with
  // FailedPrecondition if another sequence took over. Cancellation (a takeover, or dropping the
  // promise) drops the promises of the running tasks: their changes in the kernel stay, and nothing
  // waits for them.
  kj::Promise<void> run(Sequence sequence, Start how);

  kj::StringPtr currentSequence() const;  // "" when idle
  kj::StringPtr currentPhase() const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
