#include "common/net/connection-forwarder.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "common/base/signal.h"

namespace talos {
namespace {

class Forwarder final : private kj::TaskSet::ErrorHandler {
 public:
  Forwarder(kj::LowLevelAsyncIoProvider& lowLevel, kj::AutoCloseFd listening, kj::String address,
            DialTarget dial, unsigned limit)
      : receiver(lowLevel.wrapListenSocketFd(kj::mv(listening))),
        address(kj::mv(address)),
        dial(kj::mv(dial)),
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
  kj::Own<kj::ConnectionReceiver> receiver;
  kj::String address;
  DialTarget dial;
  unsigned limit;
  unsigned open = 0;
  Signal freed;
  kj::TaskSet connections;

  static kj::Promise<void> pump(kj::AsyncIoStream& from, kj::AsyncIoStream& to) {
    co_await from.pumpTo(to);
    to.shutdownWrite();
  }

  // Resets instead of closing: a client that is accepted before its target is known must not
  // mistake a refusal for an empty answer.
  static void resetAtClose(kj::AsyncIoStream& client) {
    struct linger now = {1, 0};
    client.setsockopt(SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }

  kj::Promise<void> serve(kj::Own<kj::AsyncIoStream> client) {
    auto target = co_await dial(*client).catch_([&](kj::Exception&& e) {
      resetAtClose(*client);
      return kj::Promise<kj::Own<kj::AsyncIoStream>>(kj::mv(e));
    });
    for (auto* stream : {client.get(), target.get()}) {
      int on = 1;
      stream->setsockopt(IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    auto both = kj::heapArrayBuilder<kj::Promise<void>>(2);
    both.add(pump(*client, *target));
    both.add(pump(*target, *client));
    co_await kj::joinPromisesFailFast(both.finish());
  }

  void taskFailed(kj::Exception&& e) override {
    if (e.getType() == kj::Exception::Type::DISCONNECTED)
      return;  // a node that is down, or a peer that left
    log::warn("cannot forward a connection", {{"address", address}, {"error", e.getDescription()}});
  }
};

}  // namespace

kj::Promise<void> forwardConnections(kj::LowLevelAsyncIoProvider& lowLevel,
                                     kj::AutoCloseFd listening, kj::String address, DialTarget dial,
                                     unsigned limit) {
  auto forwarder =
      kj::heap<Forwarder>(lowLevel, kj::mv(listening), kj::mv(address), kj::mv(dial), limit);
  auto promise = forwarder->run();
  return promise.attach(kj::mv(forwarder));
}

}  // namespace talos
