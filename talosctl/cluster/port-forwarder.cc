#include "talosctl/cluster/port-forwarder.h"

#include <kj/async.h>
#include <kj/debug.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/signal.h"
#include "common/net/ip.h"

namespace talos::cluster {
namespace {

// The node is one bridge away, so this allows for one lost packet. A short timeout lets a client
// that waits for a node retry sooner.
constexpr kj::Duration kConnectDeadline = 1500 * kj::MILLISECONDS;

class Forwarder final : private kj::TaskSet::ErrorHandler {
 public:
  Forwarder(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer, kj::AutoCloseFd listening,
            kj::String address, uint16_t port, unsigned limit)
      : lowLevel(lowLevel),
        timer(timer),
        receiver(lowLevel.wrapListenSocketFd(kj::mv(listening))),
        address(kj::mv(address)),
        port(port),
        limit(limit),
        connections(*this) {}

  kj::Promise<void> run() {
    for (;;) {
      while (open >= limit) co_await freed.next();
      auto client = co_await receiver->accept();
      ++open;
      connections.add(serve(kj::mv(client)).attach(kj::defer([this]() {
        --open;
        freed.raise();
      })));
    }
  }

 private:
  kj::LowLevelAsyncIoProvider& lowLevel;
  kj::Timer& timer;
  kj::Own<kj::ConnectionReceiver> receiver;
  kj::String address;
  uint16_t port;
  unsigned limit;
  unsigned open = 0;
  Signal freed;
  kj::TaskSet connections;

  kj::Promise<kj::Own<kj::AsyncIoStream>> dial() {
    auto target = Endpoint{Ip::require(address), port}.socketName();
    int raw;
    KJ_SYSCALL(raw = socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    kj::AutoCloseFd fd(raw);
    return lowLevel.wrapConnectingSocketFd(kj::mv(fd), target.get(), target.size(),
                                           kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC |
                                               kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK);
  }

  static kj::Promise<void> pump(kj::AsyncIoStream& from, kj::AsyncIoStream& to) {
    co_await from.pumpTo(to);
    to.shutdownWrite();
  }

  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> client) {
    auto node = co_await timer.timeoutAfter(kConnectDeadline, dial());
    auto both = kj::heapArrayBuilder<kj::Promise<void>>(2);
    both.add(pump(*client, *node));
    both.add(pump(*node, *client));
    co_await kj::joinPromisesFailFast(both.finish());
  }

  void taskFailed(kj::Exception&& e) override {
    if (e.getType() == kj::Exception::Type::DISCONNECTED)
      return;  // a node that is down, or a peer that left
    log::warn("cannot forward a connection", {{"address", address}, {"error", e.getDescription()}});
  }
};

}  // namespace

kj::Promise<void> forward(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                          kj::AutoCloseFd listening, kj::String targetAddress, uint16_t targetPort,
                          unsigned limit) {
  auto forwarder = kj::heap<Forwarder>(lowLevel, timer, kj::mv(listening), kj::mv(targetAddress),
                                       targetPort, limit);
  auto promise = forwarder->run();
  return promise.attach(kj::mv(forwarder));
}

}  // namespace talos::cluster
