// The files with the kernel's counters, as rpc/machine.capnp lists them: a fixed list, so that a
// client with the right to read counters cannot read other files.
//
// These functions block and are for the thread pool. They keep no state.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/machine.capnp.h"

namespace talos::machined {

struct CounterText {
  kj::String path;  // path in the kernel's /proc and /sys
  kj::String text;
};

// Reads the files of a counter below `proc` and `sys`. Throws InvalidArgument for a counter that is
// not in the list. A file of the list that is missing or that the kernel does not read fails the
// whole call, with two exceptions: a processor whose four frequency files cannot all be read is
// left out, because it may vanish at any time, and most virtual machines have no such files; and
// files of `kernel` that this kernel lacks are left out.
kj::Vector<CounterText> readCounters(kj::StringPtr proc, kj::StringPtr sys, rpc::Counter which);

}  // namespace talos::machined
