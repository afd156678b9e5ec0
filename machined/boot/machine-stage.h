// Holds the stage of the machine's life and its problems, for Machine.status() and for the
// controller that publishes them as a resource.
#pragma once

#include <kj/function.h>
#include <kj/string.h>
#include <kj/vector.h>

#include "machined/process1/process1.h"
#include "rpc/held.capnp.h"
#include "rpc/machine.capnp.h"

namespace talos::machined {

class MachineStatus {
 public:
  using Stage = rpc::Status::Stage;

  explicit MachineStatus(kj::Function<void()> changed) : changed(kj::mv(changed)) {}

  void set(Stage stage, kj::Vector<kj::String> problems = {});
  Stage stage() const { return current; }
  kj::ArrayPtr<const kj::String> problems() const { return stageProblems; }
  // Problems that do not depend on the stage.
  void setFailing(kj::Vector<kj::String> problems);
  kj::ArrayPtr<const kj::String> failing() const { return failures; }
  // Writes the stage, and problems of both kinds; `others`: further problems, of concurrent
  // activities.
  void fill(rpc::Status::Builder out, kj::ArrayPtr<const kj::String> others = nullptr) const;

 private:
  kj::Function<void()> changed;
  Stage current = Stage::BOOTING;
  kj::Vector<kj::String> stageProblems, failures;
};

kj::StringPtr nameOf(rpc::Status::Stage stage);

// The stage of the machine's life, so that a new brain continues where its predecessor died.
//
// Process 1 holds the stage ("progress", machined/process1/value-in-memory-file.h); each change
// replaces it whole. A change that process 1 did not receive before a crash has not happened: the
// running sequence is run again from its start, and its tasks are idempotent. An unreadable
// progress means a machine that has not started.

struct Progress {
  using Stage = rpc::HeldProgress::Stage;
  Stage stage = Stage::INITIALIZE;
  kj::Vector<kj::String> problems;  // FAILED
};

Progress takeProgress(Process1& process1);
kj::Promise<void> holdProgress(Process1& process1, const Progress& progress);

}  // namespace talos::machined
