#include "apid/gate/local-node.h"

namespace talos::apid {
namespace {

using capnp::AnyPointer;
using capnp::ClientHook;
using Ask = kj::Function<rpc::Node::Client(rpc::Machined::Client& machined)>;

constexpr auto kMachinedTimeout = 5 * kj::SECONDS;

rpc::Machined::Client machinedFor(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                  kj::StringPtr path, kj::Own<Budget::Account> account) {
  return reconnecting(
             [&lowLevel, &timer, path = kj::str(path), account = kj::mv(account)]() mutable {
               DialLimits limits;
               limits.account = kj::addRef(*account);
               return connectUnix(lowLevel, timer, path, kMachinedTimeout, kj::mv(limits))
                   .then([](kj::Own<Connection>&& connection) {
                     auto machined = connection->bootstrap();
                     return Dialed{kj::mv(connection), kj::mv(machined)};
                   });
             })
      .castAs<rpc::Machined>();
}

// A Node that is requested again with each call to it, in the same round trip: it has few methods,
// each of which gives a part of the node, and it outlives the connection.
class NodeHook final : public ClientHook, public kj::Refcounted {
 public:
  NodeHook(rpc::Machined::Client machined, Ask ask)
      : machined(kj::mv(machined)), ask(kj::mv(ask)) {}

  capnp::Request<AnyPointer, AnyPointer> newCall(uint64_t interface, uint16_t method,
                                                 kj::Maybe<capnp::MessageSize> size,
                                                 CallHints hints) override {
    return current()->newCall(interface, method, size, hints);
  }
  VoidPromiseAndPipeline call(uint64_t interface, uint16_t method,
                              kj::Own<capnp::CallContextHook>&& context, CallHints hints) override {
    return current()->call(interface, method, kj::mv(context), hints);
  }
  kj::Maybe<ClientHook&> getResolved() override { return nullptr; }
  kj::Maybe<kj::Promise<kj::Own<ClientHook>>> whenMoreResolved() override { return nullptr; }
  kj::Own<ClientHook> addRef() override { return kj::addRef(*this); }
  const void* getBrand() override { return &kBrand; }
  kj::Maybe<int> getFd() override { return nullptr; }

 private:
  static constexpr char kBrand = 0;
  rpc::Machined::Client machined;
  Ask ask;

  kj::Own<ClientHook> current() { return ClientHook::from(ask(machined)); }
};

rpc::Node::Client nodeOf(rpc::Machined::Client machined, Ask ask) {
  return capnp::Capability::Client(kj::refcounted<NodeHook>(kj::mv(machined), kj::mv(ask)))
      .castAs<rpc::Node>();
}

}  // namespace

NodeOfRequest localNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                        kj::StringPtr machinedSocket, kj::Own<Budget::Account> account,
                        kj::StringPtr client) {
  return [machined = machinedFor(lowLevel, timer, machinedSocket, kj::mv(account)),
          client = kj::str(client)](kj::StringPtr request) mutable {
    auto ask = [client = kj::str(client), request = kj::str(request)](auto& machined) {
      auto asked = machined.nodeRequest();
      asked.setClient(client);
      asked.setRequest(request);
      return rpc::Node::Client(asked.send().getNode());
    };
    return nodeOf(machined, kj::mv(ask));
  };
}

NodeOfRequest maintenanceNode(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                              kj::StringPtr machinedSocket, kj::Own<Budget::Account> account) {
  return [machined = machinedFor(lowLevel, timer, machinedSocket, kj::mv(account))](
             kj::StringPtr request) mutable {
    return nodeOf(machined, [request = kj::str(request)](auto& machined) {
      auto asked = machined.maintenanceNodeRequest();
      asked.setRequest(request);
      return rpc::Node::Client(asked.send().getNode());
    });
  };
}

rpc::Machined::Client machinedOf(kj::LowLevelAsyncIoProvider& lowLevel, kj::Timer& timer,
                                 kj::StringPtr path) {
  return reconnecting(lowLevel, timer, kj::str(path)).castAs<rpc::Machined>();
}

}  // namespace talos::apid
