// For figures: the memory of a process.
#pragma once

#include <kj/debug.h>
#include <kj/string.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "common/base/file.h"

namespace talos::bench {

// Returns a field of the process's smaps_rollup in KiB, as "Pss". Throws if there is no such field.
inline uint64_t memoryKiB(pid_t pid, kj::StringPtr field) {
  auto text = readFile(kj::str("/proc/", pid, "/smaps_rollup"));
  auto name = kj::str('\n', field, ':');
  auto* line = strstr(text.cStr(), name.cStr());
  KJ_REQUIRE(line != nullptr, "a process without this field", pid, field);
  return strtoull(line + name.size(), nullptr, 10);
}

}  // namespace talos::bench
