// The last kernel messages of a boot that ended in a crash, where the firmware keeps them (pstore).
// Blocking.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

constexpr kj::StringPtr kPstoreFolder = "/sys/fs/pstore"_kj;

struct KernelCrashLog {
  kj::String text;               // without the secrets of the command line
  bool panic = false;            // true for a panic, false for a warning
  kj::Vector<kj::String> files;  // for forget()
};
// Mounts the machine's pstore if the kernel has it. Empty text if there are no messages.
KernelCrashLog readKernelCrashLog(kj::StringPtr folder);
// Called when the messages are safe: the firmware has room for a few.
void forget(const KernelCrashLog& crash);

}  // namespace talos::machined
