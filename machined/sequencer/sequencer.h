// Sequences: ordered phases of named tasks that run in parallel, under one lock for the machine
// (spec boot-and-services.md §4.1-4.2).
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "machined/telemetry/events.h"

namespace talos::machined {

struct Task { kj::String name; kj::Function<kj::Promise<void>()> run; };
struct Phase { kj::String name; kj::Vector<Task> tasks; };
struct Sequence { kj::String name; kj::Vector<Phase> phases; };

enum class Start {
  kPlain,      // the lock is taken: Conflict, and an event with `locked`
  kTakeOver,   // cancels the running sequence between tasks, waits for the lock up to a minute
  kLockFree,
};

class Sequencer {
 public:
  // `log` gets one line per sequence, phase and task with durations: the console and the machined log.
  Sequencer(Events& events, kj::Timer& timer, const kj::MonotonicClock& clock, kj::Function<void(kj::StringPtr)> log);
  ~Sequencer() noexcept(false);

  // All tasks of a phase finish even when one fails; the first error ends the sequence and is returned.
  // Cancellation drops the promises of the running tasks.
  kj::Promise<void> run(Sequence sequence, Start how);

  kj::StringPtr currentSequence() const;     // "" when idle
  kj::StringPtr currentPhase() const;

 private:
  struct Impl;
  kj::Own<Impl> impl;
};

}  // namespace talos::machined
