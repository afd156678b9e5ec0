// Grows a mounted XFS to the size of its device. The kernel does that while the file system is in
// use, and completes or drops it after a power cut by the journal. Blocking.
#pragma once

#include <kj/string.h>

namespace talos::machined {

// A partition grows by this much at least; the kernel makes no last part of an XFS that is smaller.
constexpr uint64_t kWorthGrowing = 1u << 20;

// `mount`: the descriptor of the mount or of its top folder. Does nothing for less than
// kWorthGrowing.
void growXfs(int mount, uint64_t bytes);

uint64_t deviceSize(kj::StringPtr node);

}  // namespace talos::machined
