// File that tells a node in a container how much memory it may use, as lines of /proc/meminfo: the
// kernel's /proc/meminfo is the host's. The program that starts the container writes the file;
// without a limit the file does not exist.
#pragma once

#include <kj/string.h>

namespace talos {

constexpr kj::StringPtr kMemoryOfContainer = "/run/.meminfo"_kj;

}  // namespace talos
