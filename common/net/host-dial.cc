#include "common/net/host-dial.h"

#include <kj/debug.h>
#include <linux/tcp.h>
#include <sys/socket.h>

#include "common/base/node-messages.h"
#include "common/base/within.h"
#include "common/net/dns-resolver.h"
#include "common/net/ip.h"

namespace talos {
namespace {

constexpr auto kName = 6 * kj::SECONDS, kEachAddress = 3 * kj::SECONDS;

// Returns "Connection refused" for "connect(): Connection refused".
kj::String dialCause(const kj::Exception& e) {
  auto text = messageOf(e);
  constexpr kj::StringPtr kMark = "(): "_kj;
  for (size_t i = 0; i + kMark.size() < text.size(); ++i) {
    if (text.slice(i).startsWith(kMark)) return kj::str(text.slice(i + kMark.size()));
  }
  return text;
}

kj::Promise<kj::Own<kj::AsyncIoStream>> dialAddress(DialDependencies deps, kj::StringPtr address,
                                                    uint16_t port) {
  auto at = Endpoint{Ip::require(address), port}.socketName();
  int fd;
  KJ_SYSCALL(fd = socket(at.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  kj::AutoCloseFd owned(fd);
  int on = 1;  // requests are small, and callers wait for each
  KJ_SYSCALL(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  co_return co_await deps.lowLevel.wrapConnectingSocketFd(kj::mv(owned), at.get(), at.size());
}

struct DialTimes {
  kj::Duration all, name;
  kj::Maybe<kj::Duration> address;  // nullptr: an equal share of the time that is left
};

kj::Promise<kj::Own<kj::AsyncIoStream>> dialEach(DialDependencies deps, kj::String host,
                                                 uint16_t port, DialTimes times) {
  auto end = deps.timer.now() + times.all;
  auto addresses = co_await within(
      deps.timer, times.name, resolve(deps.port, deps.timer, host),
      kj::str(messages::kCannotResolve, host, ": no name server answers"), ErrorKind::kUnavailable);
  kj::String cause;
  for (auto i : kj::indices(addresses)) {
    auto share = (end - deps.timer.now()) / static_cast<int64_t>(addresses.size() - i);
    kj::Maybe<kj::Own<kj::AsyncIoStream>> reached;
    co_await within(deps.timer, times.address.orDefault(share),
                    dialAddress(deps, addresses[i], port), kj::str("no answer"))
        .then([&](auto&& stream) { reached = kj::mv(stream); },
              [&](kj::Exception&& e) { cause = dialCause(e); });
    KJ_IF_MAYBE (stream, reached) co_return kj::mv(*stream);
  }
  fail(ErrorKind::kUnavailable, kj::str("cannot connect: ", cause));
}

kj::Promise<kj::Own<kj::AsyncIoStream>> dial(DialDependencies deps, kj::String host, uint16_t port,
                                             DialTimes times) {
  return within(deps.timer, times.all, dialEach(deps, kj::mv(host), port, times),
                kj::str("cannot connect: no answer within ", times.all), ErrorKind::kUnavailable);
}

}  // namespace

kj::Promise<kj::Own<kj::AsyncIoStream>> dialHost(DialDependencies deps, kj::String host,
                                                 uint16_t port) {
  return dial(deps, kj::mv(host), port, {kDialDeadline, kName, kEachAddress});
}

kj::Promise<kj::Own<kj::AsyncIoStream>> dialHost(DialDependencies deps, kj::String host,
                                                 uint16_t port, kj::Duration deadline) {
  return dial(deps, kj::mv(host), port, {deadline, deadline, nullptr});
}

}  // namespace talos
