// The stage of the machine's life, so that a new brain continues where its predecessor died.
//
// Process 1 holds the stage ("progress", machined/process1/value-in-memory-file.h); each change
// replaces it whole. A change that process 1 did not receive before a crash has not happened: the
// running sequence is run again from its start, and its tasks are idempotent. An unreadable
// progress means a machine that has not started.
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
