#include "machined/api/node-server.h"

#include <capnp/rpc-twoparty.h>
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/node-layout.h"

namespace talos::machined {
namespace {

// Records the IDs of the requests for its Network.
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

class KubedWithRequests final : public rpc::Kubed::Server {
 public:
  explicit KubedWithRequests(std::vector<std::string>& ids) : ids(ids) {}

 protected:
  kj::Promise<void> kubernetes(KubernetesContext context) override {
    ids.push_back(context.getParams().getRequest().cStr());
    context.getResults().setKubernetes(kj::heap<rpc::Kubernetes::Server>());
    return kj::READY_NOW;
  }

 private:
  std::vector<std::string>& ids;
};

// Catches: a daemon that does not get the ID of the request that it serves, or gets another one; an
// invalid ID that is passed on; a request in maintenance mode that has no ID, or that gets the node
// of callers with a certificate.
TEST(NodeOfARequest, HandsItsIdToTheDaemons) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  std::vector<std::string> network, etcd, kubernetes, made, madeOpen;
  rpc::Networkd::Client networkd = kj::heap<NetworkdWithRequests>(network);
  rpc::EtcdSupervisor::Client supervisor = kj::heap<EtcdSupervisorWithRequests>(etcd);
  rpc::Kubed::Client kubed = kj::heap<KubedWithRequests>(kubernetes);
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
                     .kubed = kubed};
  };
  auto machined = serveMachined(
      UnixPeer{1, 0, 0}, serveNode(parts()), serveNode(parts()), nullptr, [](auto) {}, [](auto) {},
      nullptr, NodeOfRequest([&](kj::StringPtr request) {
        made.push_back(request.cStr());
        return serveNode(parts(), request);
      }),
      NodeOfRequest([&](kj::StringPtr request) {
        madeOpen.push_back(request.cStr());
        return serveNode(parts(), request);
      }));
  for (auto id : {"first", "", "not valid", "second"}) {
    auto request = machined.nodeRequest();
    request.setRequest(id);
    auto node = request.send().getNode();
    node.networkRequest().send().ignoreResult().wait(scope);
    node.etcdRequest().send().ignoreResult().wait(scope);
    node.kubernetesRequest().send().ignoreResult().wait(scope);
  }
  EXPECT_EQ(made, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(network, (std::vector<std::string>{"first", "", "", "second"}));
  EXPECT_EQ(etcd, network);
  EXPECT_EQ(kubernetes, network);
  EXPECT_TRUE(madeOpen.empty());
  for (auto id : {"third", "not valid"}) {
    auto request = machined.maintenanceNodeRequest();
    request.setRequest(id);
    request.send().getNode().networkRequest().send().ignoreResult().wait(scope);
  }
  EXPECT_EQ(madeOpen, (std::vector<std::string>{"third"}));
  EXPECT_EQ(network.size(), 6u);
  EXPECT_EQ(network[4], "third");
  EXPECT_EQ(network[5], "");
  EXPECT_EQ(made.size(), 2u);
}

// Its surveys do not end; it counts those under way.
class SlowKubed final : public rpc::Kubed::Server {
 public:
  explicit SlowKubed(unsigned& open) : open(open) {}

 protected:
  struct Surveys final : public rpc::Kubernetes::Server {
    explicit Surveys(unsigned& open) : open(open) {}
    unsigned& open;
    kj::Promise<void> survey(SurveyContext) override {
      ++open;
      return kj::Promise<void>(kj::NEVER_DONE).attach(kj::defer([this] { --open; }));
    }
    kj::Promise<void> aggregation(AggregationContext) override { return kj::READY_NOW; }
  };
  kj::Promise<void> kubernetes(KubernetesContext context) override {
    context.getResults().setKubernetes(kj::heap<Surveys>(open));
    return kj::READY_NOW;
  }

 private:
  unsigned& open;
};

// A client of apid, with its own connection.
struct ConnectedClient {
  ConnectedClient(kj::AsyncIoContext& io, rpc::Kubed::Client daemon, NodeCalls& node)
      : calls(kj::refcounted<ClientCalls>(kj::addRef(node))),
        pipe(io.provider->newTwoWayPipe()),
        server(*pipe.ends[0], countedDaemon(kj::mv(daemon), kj::addRef(*calls)),
               capnp::rpc::twoparty::Side::SERVER),
        client(*pipe.ends[1]) {}
  rpc::Kubernetes::Client kubernetes() {
    return client.bootstrap().castAs<rpc::Kubed>().kubernetesRequest().send().getKubernetes();
  }
  kj::Own<ClientCalls> calls;
  kj::TwoWayPipe pipe;
  capnp::TwoPartyClient server, client;
};

// Catches: a client whose 2 000 calls reach a daemon with little memory and starve its other
// clients; a slot that is not released.
TEST(CallsToDaemons, AreBoundedForEachClient) {
  auto io = kj::setupAsyncIo();
  unsigned open = 0;
  rpc::Kubed::Client daemon = kj::heap<SlowKubed>(open);
  auto node = kj::refcounted<NodeCalls>();
  ConnectedClient evil(io, daemon, *node), honest(io, daemon, *node);
  auto limit = limitOf(CallKind::kDaemon).perClient;
  auto kubernetes = evil.kubernetes();
  unsigned refused = 0;
  kj::Vector<kj::Promise<void>> calls;
  for (unsigned i = 0; i < 2000; ++i) {
    calls.add(kubernetes.surveyRequest()
                  .send()
                  .then([](auto&&) { ADD_FAILURE() << "a survey ended"; },
                        [&](kj::Exception&& e) {
                          EXPECT_EQ(kindOf(e), ErrorKind::kResourceExhausted);
                          ++refused;
                        })
                  .eagerlyEvaluate(nullptr));
  }
  honest.kubernetes().aggregationRequest().send().ignoreResult().wait(io.waitScope);
  auto beyond = kj::runCatchingExceptions(
      [&] { kubernetes.aggregationRequest().send().ignoreResult().wait(io.waitScope); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(beyond)), ErrorKind::kResourceExhausted);
  EXPECT_EQ(open, limit);
  EXPECT_EQ(refused, 2000 - limit);
  EXPECT_EQ(node->count(CallKind::kDaemon), limit);
  calls.clear();
  honest.kubernetes().aggregationRequest().send().ignoreResult().wait(io.waitScope);
  while (open > 0) kj::evalLater([] {}).wait(io.waitScope);
  kubernetes.aggregationRequest().send().ignoreResult().wait(io.waitScope);
  EXPECT_EQ(node->count(CallKind::kDaemon), 0u);
}

class EtcdSupervisorWithTokens final : public rpc::EtcdSupervisor::Server {
 protected:
  kj::Promise<void> joinTokens(JoinTokensContext context) override {
    context.getResults().setTokens(kj::heap<rpc::JoinTokens::Server>());
    return kj::READY_NOW;
  }
};

// Catches: a compromised service that uses up join tokens, or reads whose they are.
TEST(JoinTokensOfANode, AreForTrustdAlone) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  for (unsigned uid : {0u, kTrustdUid, kApidUid, kNetworkdUid, kKubedUid, kEtcdUid, 1000u}) {
    auto machined = serveMachined(
        UnixPeer{1, uid, uid}, nullptr, nullptr, nullptr, [](auto) {}, [](auto) {}, nullptr,
        nullptr, nullptr, kj::heap<EtcdSupervisorWithTokens>());
    auto failure = kj::runCatchingExceptions(
        [&] { machined.joinTokensRequest().send().ignoreResult().wait(scope); });
    bool may = uid == 0 || uid == kTrustdUid;
    EXPECT_EQ(failure == nullptr, may) << uid;
    KJ_IF_MAYBE (e, failure) EXPECT_EQ(kindOf(*e), ErrorKind::kPermissionDenied) << uid;
  }
}

}  // namespace
}  // namespace talos::machined
