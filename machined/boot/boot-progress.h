// How far the machine has come, so that a new brain goes on where the old one died.
//
// Process 1 holds it ("progress", machined/process1/value-in-memory-file.h), and it is replaced
// whole at each change. What a crash comes before has not happened: the sequence that was running
// is run again from its start, and its tasks are made for that. An unreadable one is a machine that
// has not begun.
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
