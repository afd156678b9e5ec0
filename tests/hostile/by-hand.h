// For the hostile pack: a client that writes its messages by hand, and reads nothing.
#pragma once

#include <capnp/rpc.capnp.h>
#include <capnp/serialize.h>

#include "common/base/node-layout.h"
#include "common/net/ip.h"
#include "common/wire/rpc-server.h"

namespace talos::hostile {

// Connects to a node by TLS, without anything that would read from the connection.
inline kj::Promise<kj::Own<kj::AsyncIoStream>> rawStream(kj::AsyncIoContext& io, TlsEndpoint& tls,
                                                         kj::StringPtr address,
                                                         kj::StringPtr expectedName) {
  auto name = Endpoint{Ip::require(address), kApidPort}.socketName();
  int fd;
  KJ_SYSCALL(fd = socket(name.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto stream = co_await io.lowLevelProvider->wrapConnectingSocketFd(kj::AutoCloseFd(fd),
                                                                     name.get(), name.size());
  co_return co_await tls.connect(kj::mv(stream), expectedName);
}

// Calls on the results of earlier calls, made without waiting for them. The bootstrap is question
// 0, the others are numbered in their order.
class ByHand {
 public:
  ByHand() {
    capnp::MallocMessageBuilder message;
    message.initRoot<capnp::rpc::Message>().initBootstrap().setQuestionId(0);
    add(message);
  }

  // Calls a method, by its ordinal, on the only capability that question `on` returns.
  template <typename Params, typename Fill>
  uint32_t call(uint32_t on, uint64_t interface, uint16_t method, Fill&& fill) {
    capnp::MallocMessageBuilder message;
    auto call = message.initRoot<capnp::rpc::Message>().initCall();
    call.setQuestionId(++last);
    auto target = call.initTarget().initPromisedAnswer();
    target.setQuestionId(on);
    if (on != 0) target.initTransform(1)[0].setGetPointerField(0);
    call.setInterfaceId(interface);
    call.setMethodId(method);
    fill(call.initParams().getContent().template initAs<Params>());
    add(message);
    return last;
  }
  kj::ArrayPtr<const kj::byte> bytes() const { return all; }

 private:
  uint32_t last = 0;
  kj::Vector<kj::byte> all;

  void add(capnp::MessageBuilder& message) {
    all.addAll(capnp::messageToFlatArray(message).asBytes());
  }
};

}  // namespace talos::hostile
