// Pauses and deadlines of networkd's loops.
#pragma once

#include <kj/time.h>

namespace talos::networkd {

// Pause after a change of the kernel, so that a storm of changes is read in batches; the first
// change is read at once.
constexpr kj::Duration kKernelPause = 20 * kj::MILLISECONDS;
// Deadline of one write to the store.
constexpr kj::Duration kPublishDeadline = 10 * kj::SECONDS;

}  // namespace talos::networkd
