#include "machined/confined/parser-client/http-connect.h"

#include <errno.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/net/ip.h"

namespace talos::machined {
namespace {

constexpr auto kOneAddress = 3 * kj::SECONDS;

// Returns a socket that is bound to a free low port.
kj::AutoCloseFd lowPortSocket(int family, double chance) {
  int fd;
  KJ_SYSCALL(fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd owned(fd);
  auto first = static_cast<unsigned>(chance * kLowPorts);
  for (unsigned i = 0; i < kLowPorts; ++i) {
    auto port = static_cast<uint16_t>(kFirstLowPort + (first + i) % kLowPorts);
    auto name = Endpoint{Ip::any(family), port}.socketName();
    if (bind(fd, name.get(), name.size()) == 0) return owned;
    if (errno != EADDRINUSE) {
      fail(ErrorKind::kUnavailable, kj::str("cannot use port ", port, ": ", strerror(errno)));
    }
  }
  fail(ErrorKind::kUnavailable, kj::str("all ports from ", kFirstLowPort, " to ",
                                        kFirstLowPort + kLowPorts - 1, " are in use"));
}

kj::Promise<kj::Own<kj::AsyncIoStream>> connectFromLowPort(LowPorts& ports, kj::StringPtr address,
                                                           uint16_t port) {
  auto to = Endpoint{Ip::require(address), port};
  auto name = to.socketName();
  co_return co_await ports.sockets.wrapConnectingSocketFd(
      lowPortSocket(name.family(), ports.random()), name.get(), name.size());
}

kj::Promise<kj::Own<kj::AsyncIoStream>> connectToAddress(kj::Network& network,
                                                         kj::StringPtr address, uint16_t port) {
  auto there = co_await network.parseAddress(hostInUrl(address), port);
  co_return co_await there->connect();
}

}  // namespace

// KJ's text for a failed system call: "::read(fd, …): Connection reset by peer".
kj::String httpReason(const kj::Exception& e, const HttpProgress& state) {
  auto text = e.getDescription();
  if (!text.startsWith("::") && !text.startsWith("connect")) return messageOf(e);
  auto* reason = strstr(text.cStr(), "): ");
  return reason == nullptr ? messageOf(e) : kj::str(state.doing, ": ", reason + 3);
}

kj::Promise<kj::Own<kj::AsyncIoStream>> connectTo(HttpDial dial, const HttpSource& at,
                                                  HttpProgress& state) {
  state.doing = kj::str("looking up \"", at.host, "\"");
  auto addresses = co_await dial.resolve(at.host);
  kj::Maybe<kj::Own<kj::AsyncIoStream>> stream;
  kj::Vector<kj::String> refused;
  for (size_t i = 0; i < addresses.size() && stream == nullptr; ++i) {
    state.doing = kj::str("connecting to ", addresses[i], " port ", at.port);
    auto attempt =
        at.lowPort ? connectFromLowPort(KJ_REQUIRE_NONNULL(dial.lowPorts), addresses[i], at.port)
                   : connectToAddress(dial.network, addresses[i], at.port);
    if (i + 1 < addresses.size()) {
      attempt = dial.timer.timeoutAfter(kOneAddress, kj::mv(attempt));
    }
    co_await attempt.then([&stream](kj::Own<kj::AsyncIoStream> s) { stream = kj::mv(s); })
        .catch_([&refused, &state](kj::Exception&& e) {
          bool late = e.getType() == kj::Exception::Type::OVERLOADED;
          refused.add(late ? kj::str(state.doing, ": no answer") : httpReason(e, state));
        });
  }
  KJ_IF_MAYBE (s, stream) co_return kj::mv(*s);
  fail(ErrorKind::kUnavailable, kj::strArray(refused, "; "));
}

}  // namespace talos::machined
