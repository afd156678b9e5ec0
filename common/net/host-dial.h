// Connects by TCP to a host by name or address: tries each of its addresses in turn until the
// deadline. Sends nothing.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <kj/debug.h>
#include <kj/function.h>
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
// Does the same within another deadline, of which each address has an equal share.
kj::Promise<kj::Own<kj::AsyncIoStream>> dialHost(DialDependencies deps, kj::String host,
                                                 uint16_t port, kj::Duration deadline);

// The address that KJ's HTTP client keeps connections to; `dial` makes each connection.
class DialedAddress final : public kj::NetworkAddress {
 public:
  DialedAddress(kj::StringPtr name, kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>()> dial)
      : name(kj::str(name)), dial(kj::mv(dial)) {}

  kj::Promise<kj::Own<kj::AsyncIoStream>> connect() override { return dial(); }
  kj::Own<kj::ConnectionReceiver> listen() override { KJ_UNIMPLEMENTED("listen"); }
  kj::Own<kj::NetworkAddress> clone() override { KJ_UNIMPLEMENTED("clone"); }
  kj::String toString() override { return kj::str(name); }

 private:
  kj::String name;
  kj::Function<kj::Promise<kj::Own<kj::AsyncIoStream>>()> dial;
};

}  // namespace talos
