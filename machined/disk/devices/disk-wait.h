// Waits for a disk that appears late: disks on USB and on some controllers appear seconds after
// their drivers were loaded.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/string.h>
#include <kj/timer.h>

namespace talos::machined {

constexpr auto kDiskWait = 60 * kj::SECONDS;

// Resolves with true as soon as `isThere` does, with false after kDiskWait. `isThere` is called
// repeatedly, because the kernel reports a disk before it knows the disk's partitions. `report`
// gets a line if the call has to wait for `what`; it must outlive the promise.
kj::Promise<bool> awaitDisk(kj::Timer& timer, kj::String what,
                            kj::Function<kj::Promise<bool>()> isThere,
                            kj::Function<void(kj::StringPtr line)>& report);

}  // namespace talos::machined
