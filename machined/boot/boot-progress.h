// How far the machine has come, so that a new brain goes on where the old one died.
//
// A few lines of text in a memory file that process 1 holds ("progress"), replaced whole at each
// change. What a crash comes before has not happened: the sequence that was running is run again
// from its start, and its tasks are made for that. An unreadable file is a machine that has not
// begun.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/process1/process1.h"

namespace talos::machined {

struct Progress {
  enum class Stage { kInitialize, kBoot, kRunning, kFailed, kGoingDown };
  Stage stage = Stage::kInitialize;
  unsigned command = 0;             // kGoingDown: the reboot(2) command at its end
  kj::Vector<kj::String> problems;  // kFailed

  kj::String toText() const;
  static Progress fromText(kj::ArrayPtr<const char> text);
};

Progress takeProgress(Process1& process1);
kj::Promise<void> holdProgress(Process1& process1, const Progress& progress);

}  // namespace talos::machined
