// The stage of the machine's life, so that a new brain continues where the old one died.
//
// Process 1 holds it ("progress", machined/process1/value-in-memory-file.h), and it is replaced
// whole at each change. A change that a crash precedes has not happened: the running sequence is
// run again from its start, and its tasks are idempotent. A progress that cannot be read means a
// machine that has not started.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/process1/process1.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

struct Progress {
  using Stage = rpc::HeldProgress::Stage;
  Stage stage = Stage::INITIALIZE;
  kj::Vector<kj::String> problems;  // FAILED
};

Progress takeProgress(Process1& process1);
kj::Promise<void> holdProgress(Process1& process1, const Progress& progress);

}  // namespace talos::machined
