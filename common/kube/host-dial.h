// A TCP connection to a host by name or address: each of its addresses in turn, so long as there is
// time. Nothing is sent on it.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/timer.h>

namespace talos::kube {

constexpr auto kDialDeadline = 10 * kj::SECONDS;

// Needed for connections; all of it outlives them.
struct DialDependencies {
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::UnixEventPort& port;
  kj::Timer& timer;
};

// Unavailable with the error of the last address; each has 3 s, all of them kDialDeadline.
kj::Promise<kj::Own<kj::AsyncIoStream>> dialHost(DialDependencies deps, kj::String host,
                                                 uint16_t port);

}  // namespace talos::kube
