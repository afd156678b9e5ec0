// The wait for a disk that comes late: those on USB and of some controllers appear seconds after
// their drivers were loaded.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/string.h>
#include <kj/timer.h>

namespace talos::machined {

constexpr auto kDiskWait = 60 * kj::SECONDS;

// True as soon as `isThere` says so, which is asked again and again, for the kernel tells of a disk
// before it knows of its partitions; false after kDiskWait. `report`, which has to outlive the
// promise, gets a line when it has to wait for `what`.
kj::Promise<bool> awaitDisk(kj::Timer& timer, kj::String what,
                            kj::Function<kj::Promise<bool>()> isThere,
                            kj::Function<void(kj::StringPtr line)>& report);

}  // namespace talos::machined
