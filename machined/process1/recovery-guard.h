// Ends a loop of brains that die of what they find: of a record that no check foresees, as of one
// that asks for more memory than the machine has.
//
// A brain that begins to take up what its predecessors left counts itself with process 1 (name
// "recovering") and takes the count back when it has done it, some milliseconds later. So whoever
// finds a count of kMostRecoveries knows that so many in a row ended in between, and leaves it.
// Five: those that are killed from outside, at whatever moment, do not come to that by chance.
#pragma once

#include "machined/process1/value-in-memory-file.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

constexpr unsigned kMostRecoveries = 5;

class RecoveryGuard {
 public:
  explicit RecoveryGuard(Process1& process1) : process1(process1), held(process1, "recovering") {}
  KJ_DISALLOW_COPY_AND_MOVE(RecoveryGuard);

  // Resolves when process 1 has the count; false: what is held under `names` was given up and
  // nobody finds it any more.
  kj::Promise<bool> begin(kj::ArrayPtr<const kj::StringPtr> names);
  kj::Promise<void> done() { return held.drop(); }

 private:
  Process1& process1;
  Held<rpc::HeldCount> held;
};

}  // namespace talos::machined
