// The file by which a node in a container knows how much memory it may use, as lines of
// /proc/meminfo: the kernel's own are those of the host. Whoever starts the container writes it;
// without a limit there is none.
#pragma once

#include <kj/string.h>

namespace talos {

constexpr kj::StringPtr kMemoryOfContainer = "/run/.meminfo"_kj;

}  // namespace talos
