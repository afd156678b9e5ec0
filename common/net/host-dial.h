// Connects by TCP to a host by name or address: tries each of its addresses in turn until the
// deadline. Sends nothing.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/timer.h>

namespace talos {

constexpr auto kDialDeadline = 10 * kj::SECONDS;

// Dependencies of connections; all of them must outlive the connections.
struct DialDependencies {
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::UnixEventPort& port;
  kj::Timer& timer;
};

// Fails with Unavailable and the error of the last address; each address has 3 s, all together
// kDialDeadline.
kj::Promise<kj::Own<kj::AsyncIoStream>> dialHost(DialDependencies deps, kj::String host,
                                                 uint16_t port);

}  // namespace talos
