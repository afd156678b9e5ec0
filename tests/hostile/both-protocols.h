// For the hostile pack: honest callers of apid, over Cap'n Proto and over gRPC. They call the node
// itself and, if the scenario has another node, this node through it.
#pragma once

#include "common/grpc/grpc-client.h"
#include "common/wire/test-connect.h"
#include "tests/hostile/apid-process.h"
#include "tests/hostile/pack.h"

namespace talos::hostile {

class BothProtocols {
 public:
  static constexpr kj::StringPtr kVersion = "/machine.MachineService/Version"_kj;

  BothProtocols(Honest& honest, const apid::testing::Authority& authority)
      : honest(honest), tls(authority.client("honest", kj::arr("os:reader"_kj))), second(client()) {
    first = honest.wait(dialFirst());
  }
  KJ_DISALLOW_COPY_AND_MOVE(BothProtocols);

  // Adds calls to the node with this address, now and then over new connections.
  void add(kj::StringPtr node) {
    honest.wait(callFirst(node, false));
    honest.wait(callSecond(node, false));
    honest.add(kj::str("a call to ", node), kPause,
               [this, node](unsigned i) { return callFirst(node, i % 64 == 63); });
    honest.add(kj::str("a call to ", node, " by gRPC"), kPause,
               [this, node](unsigned i) { return callSecond(node, i % 64 == 63); });
  }

 private:
  static constexpr auto kPause = 20 * kj::MILLISECONDS;
  static constexpr auto kEndpoint = "10.0.0.1"_kj;
  Honest& honest;
  TlsEndpoint tls;
  kj::Own<Connection> first;
  kj::Own<grpc::Client> second;

  kj::Promise<kj::Own<Connection>> dialFirst() {
    return connectTls(*honest.io.lowLevelProvider, honest.timer, tls, kEndpoint, kApidPort,
                      kEndpoint);
  }
  kj::Promise<void> callFirst(kj::StringPtr node, bool anew) {
    kj::Own<Connection> own;
    if (anew) own = co_await dialFirst();
    auto& asked = anew ? *own : *first;
    auto request = asked.bootstrap().castAs<rpc::Cluster>().nodeRequest();
    if (node != kEndpoint) request.setAddress(node);
    auto machine = request.send().getNode().machineRequest().send().getMachine();
    auto expected = kj::str("node ", node);
    auto answer = co_await machine.versionRequest().send();
    KJ_REQUIRE(answer.getTag() == expected, answer.getTag());
  }
  kj::Own<grpc::Client> client() {
    auto dial = [this]() -> kj::Promise<kj::Own<kj::AsyncIoStream>> {
      auto address = co_await honest.io.provider->getNetwork().parseAddress(kEndpoint, kApidPort);
      co_return co_await tls.connectWithAlpn("h2", co_await address->connect(), kEndpoint);
    };
    return kj::heap<grpc::Client>(honest.timer, kj::str("apid"), kj::mv(dial));
  }
  kj::Promise<void> callSecond(kj::StringPtr node, bool anew) {
    auto own = anew ? client() : kj::Own<grpc::Client>();
    auto& asked = anew ? *own : *second;
    auto expected = kj::str("node ", node);
    grpc::Metadata metadata[] = {{"node", node}};
    auto sent = kj::arrayPtr(metadata, node == kEndpoint ? 0 : 1);
    auto bytes = co_await asked.unary(kVersion, sent, 20 * kj::SECONDS, nullptr);
    std::string answer(bytes.asChars().begin(), bytes.size());
    KJ_REQUIRE(answer.find(expected.cStr()) != std::string::npos);
  }
};

}  // namespace talos::hostile
