// `talosctl crashdump`: prints the last lines of every log of some nodes, for a cluster that does
// not come up. For a node that does not answer it prints the end of its console, if its file is
// known.
#pragma once

#include <kj/function.h>

#include "talosctl/report/capture.h"

namespace talos::talosctl {

struct DumpedNode {
  kj::String name;     // as in --nodes
  kj::String console;  // path; empty: unknown
};

// Writes node by node, in this order; each has 30 s. Never rejects. Returns the number of nodes
// that answered.
kj::Promise<size_t> writeCrashDump(Invocation& call, const Access& access,
                                   kj::ArrayPtr<const DumpedNode> nodes,
                                   kj::Function<void(kj::StringPtr text)> write);

// Returns the last `count` lines of a text.
kj::ArrayPtr<const char> lastLines(kj::ArrayPtr<const char> text, size_t count);

}  // namespace talos::talosctl
