// Two nodes for tests of apid as its clients see it, with real TLS over loopback, real sockets, a
// model of machined in each, and an authority that signs clients.
#pragma once

#include <gtest/gtest.h>

#include "apid/gate/test-apid-node.h"
#include "common/wire/test-connect.h"

namespace talos::apid::testing {

class SlowSink final : public rpc::LogSink::Server {
 protected:
  kj::Promise<void> write(WriteContext context) override { return kj::NEVER_DONE; }
};

struct ApidTest : ::testing::Test {
  ~ApidTest() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  Authority authority, otherAuthority;
  TestNode a{io, "10.0.0.1", [this](const Ip& address) { return dialFrom(a, address); }};
  TestNode b{io, "10.0.0.2", [this](const Ip& address) { return dialFrom(b, address); }};

  TestNode* third = nullptr;  // set by a test with a third node

  // Models the network between the nodes: their addresses are loopback ports.
  kj::Promise<Remote> dialFrom(TestNode& from, const Ip& address) {
    auto text = address.toString();
    auto isOf = [&](TestNode& node) {
      return text == node.address || text == secondAddressOf(node.address);
    };
    uint16_t port = isOf(a) ? a.port : isOf(b) ? b.port : 1;
    if (third != nullptr && isOf(*third)) port = third->port;
    return dialMachine(*io.lowLevelProvider, timer, from.identity.client(),
                       Ip::require("127.0.0.1"), port, text)
        .catch_([text = kj::str(text)](kj::Exception&& e) -> kj::Promise<Remote> {
          return error(ErrorKind::kUnavailable, kj::str(text, ": ", messageOf(e)));
        });
  }
  void start(TestNode& node) {
    node.certify(authority);
    node.startMachined();
    node.startApid();
    wait(node.identity.ready());
    // The node knows its address a moment after its certificates.
    while (node.identity.self().addresses.size() == 0) wait(timer.afterDelay(1 * kj::MILLISECONDS));
  }
  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  struct Session {
    kj::Own<TlsEndpoint> tls;
    kj::Own<Connection> connection;
    rpc::Cluster::Client cluster;
  };
  Session connect(TestNode& node, Credentials credentials) {
    auto tls = kj::heap<TlsEndpoint>(kj::mv(credentials));
    auto connection =
        wait(connectTls(*io.lowLevelProvider, timer, *tls, "127.0.0.1", node.port, node.address));
    auto cluster = connection->bootstrap().castAs<rpc::Cluster>();
    return {kj::mv(tls), kj::mv(connection), kj::mv(cluster)};
  }
  Session connectAs(TestNode& node, std::initializer_list<kj::StringPtr> organizations) {
    return connect(node, authority.client(
                             "someone", kj::arrayPtr(organizations.begin(), organizations.size())));
  }
  static rpc::Machine::Client machine(rpc::Cluster::Client cluster, kj::StringPtr address = "") {
    auto request = cluster.nodeRequest();
    request.setAddress(address);
    return request.send().getNode().machineRequest().send().getMachine();
  }
  kj::String version(rpc::Machine::Client machine) {
    return wait(machine.versionRequest().send().then([](auto&& r) { return kj::str(r.getTag()); }));
  }
  template <typename T>
  kj::Exception failureOf(kj::Promise<T> promise) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { wait(kj::mv(promise)); })) {
      return kj::mv(*e);
    }
    return KJ_EXCEPTION(FAILED, "nothing failed");
  }
  kj::Exception rebootFailure(rpc::Machine::Client machine) {
    return failureOf(machine.rebootRequest().send().ignoreResult());
  }
  static rpc::Cluster::Client withRoles(rpc::Cluster::Client cluster,
                                        std::initializer_list<kj::StringPtr> roles) {
    auto request = cluster.withRolesRequest();
    auto list = request.initRoles(roles.size());
    unsigned i = 0;
    for (auto role : roles) list.set(i++, role);
    return request.send().getCluster();
  }
};

}  // namespace talos::apid::testing
