// The control groups of the machine with the kernel's counters of each, read for each call. The
// functions block (some files for each group): they are for the pool for reads. Keeps no state; a
// group that vanishes while it is read is left out, or has no values.
#pragma once

#include <capnp/message.h>

#include "rpc/machine.capnp.h"

namespace talos::machined {

// Returns a Machine.CgroupsResults. `root` is the tree of version 2, or the folder that has
// `unified` beside version 1; then the memory, which version 2 does not count there, comes from
// version 1.
kj::Own<capnp::MallocMessageBuilder> readCgroups(kj::StringPtr root, size_t most);

// Parse the texts of single files; text that is not understood is 0. (A missing file is
// rpc::Cgroup::UNCOUNTED.) Pure.
int64_t parseCgroupLimit(kj::ArrayPtr<const char> text);  // "max" is -1
void parseCpuMax(kj::ArrayPtr<const char> text, rpc::Cgroup::Cpu::Builder out);
void parseIoStat(kj::ArrayPtr<const char> text, rpc::Cgroup::Io::Builder out);
void parsePressure(kj::ArrayPtr<const char> text, rpc::Cgroup::Pressure::Builder out);

}  // namespace talos::machined
