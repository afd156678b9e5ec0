// How fast networkd goes when the world does not.
#pragma once

#include <kj/time.h>

namespace talos::networkd {

// Bounds how often a storm of kernel changes makes it look; the first change is looked at at once.
constexpr kj::Duration kKernelPause = 20 * kj::MILLISECONDS;
// For one answer of the store.
constexpr kj::Duration kPublishDeadline = 10 * kj::SECONDS;

}  // namespace talos::networkd
