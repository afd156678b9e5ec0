// The control groups of the machine with what the kernel counts for each, read when they are asked
// for. They block (some files for each group): for the pool for reads. Nothing is kept; a group
// that goes while it is read is left out, or has no values.
#pragma once

#include <capnp/message.h>

#include "rpc/machine.capnp.h"

namespace talos::machined {

// A Machine.CgroupsResults. `root` is the tree of version 2, or the folder in which it is `unified`
// beside version 1; what version 2 does not count there, the memory, comes from version 1.
kj::Own<capnp::MallocMessageBuilder> readCgroups(kj::StringPtr root, size_t most);

// The texts of single files; what is not understood is 0. (A file that is not there is
// rpc::Cgroup::UNCOUNTED.) Pure.
int64_t parseCgroupLimit(kj::ArrayPtr<const char> text);  // "max" is -1
void parseCpuMax(kj::ArrayPtr<const char> text, rpc::Cgroup::Cpu::Builder out);
void parseIoStat(kj::ArrayPtr<const char> text, rpc::Cgroup::Io::Builder out);
void parsePressure(kj::ArrayPtr<const char> text, rpc::Cgroup::Pressure::Builder out);

}  // namespace talos::machined
