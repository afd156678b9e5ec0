// Ends a loop of brains that die of a record: one that no check foresees, for example because it
// needs more memory than the machine has.
//
// A brain that begins to restore its predecessors' state increments a count that process 1 holds
// (name "recovering"), and clears it when it is done, some milliseconds later. So a brain that
// finds a count of kMostRecoveries knows that so many in a row ended in between, and gives up the
// records. Five: brains that are killed from outside, at any moment, do not reach this by chance.
#pragma once

#include "machined/process1/value-in-memory-file.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

constexpr unsigned kMostRecoveries = 5;

class RecoveryGuard {
 public:
  explicit RecoveryGuard(Process1& process1) : process1(process1), held(process1, "recovering") {}
  KJ_DISALLOW_COPY_AND_MOVE(RecoveryGuard);

  // Resolves when process 1 has the count; false if the records under `names` were given up and
  // cannot be found any more.
  kj::Promise<bool> begin(kj::ArrayPtr<const kj::StringPtr> names);
  kj::Promise<void> done() { return held.drop(); }

 private:
  Process1& process1;
  Held<rpc::HeldCount> held;
};

}  // namespace talos::machined
