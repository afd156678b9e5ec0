#include "machined/api/node-server.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace talos::machined {
namespace {

// Keeps the ids of the requests that its Network was asked for.
class NetworkdWithRequests final : public rpc::Networkd::Server {
 public:
  explicit NetworkdWithRequests(std::vector<std::string>& ids) : ids(ids) {}

 protected:
  kj::Promise<void> network(NetworkContext context) override {
    ids.push_back(context.getParams().getRequest().cStr());
    context.getResults().setNetwork(kj::heap<rpc::Network::Server>());
    return kj::READY_NOW;
  }

 private:
  std::vector<std::string>& ids;
};

class EtcdSupervisorWithRequests final : public rpc::EtcdSupervisor::Server {
 public:
  explicit EtcdSupervisorWithRequests(std::vector<std::string>& ids) : ids(ids) {}

 protected:
  kj::Promise<void> etcd(EtcdContext context) override {
    ids.push_back(context.getParams().getRequest().cStr());
    context.getResults().setEtcd(kj::heap<rpc::Etcd::Server>());
    return kj::READY_NOW;
  }

 private:
  std::vector<std::string>& ids;
};

// Catches: a daemon that does not get the id of the request that it serves, or that of another
// one; an id that is not valid and is handed on.
TEST(NodeOfARequest, HandsItsIdToTheDaemons) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  std::vector<std::string> network, etcd, made;
  rpc::Networkd::Client networkd = kj::heap<NetworkdWithRequests>(network);
  rpc::EtcdSupervisor::Client supervisor = kj::heap<EtcdSupervisorWithRequests>(etcd);
  auto parts = [&]() {
    return NodeParts{.machine = nullptr,
                     .services = nullptr,
                     .events = nullptr,
                     .logs = nullptr,
                     .files = nullptr,
                     .resources = nullptr,
                     .sensitiveResources = nullptr,
                     .networkd = networkd,
                     .configuration = nullptr,
                     .storage = nullptr,
                     .containers = nullptr,
                     .upgrades = nullptr,
                     .etcdSupervisor = supervisor,
                     .kubernetes = nullptr};
  };
  auto machined = serveMachined(
      UnixPeer{1, 0, 0}, serveNode(parts()), nullptr, nullptr, [](auto) {}, [](auto) {}, nullptr,
      NodeOfRequest([&](kj::StringPtr request) {
        made.push_back(request.cStr());
        return serveNode(parts(), request);
      }));
  for (auto id : {"first", "", "not valid", "second"}) {
    auto request = machined.nodeRequest();
    request.setRequest(id);
    auto node = request.send().getNode();
    node.networkRequest().send().ignoreResult().wait(scope);
    node.etcdRequest().send().ignoreResult().wait(scope);
  }
  EXPECT_EQ(made, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(network, (std::vector<std::string>{"first", "", "", "second"}));
  EXPECT_EQ(etcd, network);
}

}  // namespace
}  // namespace talos::machined
