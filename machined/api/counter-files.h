// The files in which the kernel counts, as rpc/machine.capnp lists them: a fixed list, so that who
// may read them may read no other file by it.
//
// These functions block and are for the thread pool. Nothing is kept.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/machine.capnp.h"

namespace talos::machined {

struct CounterText {
  kj::String path;  // as the kernel's own /proc and /sys have it
  kj::String text;
};

// `proc` and `sys`: where those are. InvalidArgument for one that is not in the list. A file of the
// list that is not there or that the kernel does not read fails the whole, but of a processor's
// frequency: a processor whose four files cannot all be read is left out, because it may go at any
// time, and a virtual machine mostly governs none; and of `kernel` those that this kernel lacks.
kj::Vector<CounterText> readCounters(kj::StringPtr proc, kj::StringPtr sys, rpc::Counter which);

}  // namespace talos::machined
