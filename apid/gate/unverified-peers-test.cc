// A node without a certificate, called through a node with one: real TLS over loopback.
#include "apid/gate/unverified-peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apid/gate/test-apid-node.h"
#include "common/base/annotation.h"

namespace talos::apid {
namespace {

using testing::Authority;
using ::testing::HasSubstr;
using testing::TestNode;

class NoServices final : public rpc::Services::Server {
 protected:
  kj::Promise<void> list(ListContext context) override {
    auto list = context.getResults().initServices(2);
    list[0].setId("apid");
    list[0].initHealth().setLastMessage("10.0.0.1: connection refused");
    list[1].setId("networkd");
    list[1].initHealth().setLastMessage("");
    return kj::READY_NOW;
  }
};
class AnyMachine final : public rpc::Machine::Server {
 protected:
  kj::Promise<void> version(VersionContext context) override {
    context.getResults().setTag("v1");
    context.getResults().setSha("abc");
    context.getResults().setHostname("w1");
    return kj::READY_NOW;
  }
  kj::Promise<void> status(StatusContext context) override {
    auto out = context.getResults();
    out.setStage(rpc::Status::Stage::RUNNING);
    out.initProblems(1).set(0, "one");
    return kj::READY_NOW;
  }
};
// Counts the calls that reach the other side.
class JoiningWorker final : public rpc::Node::Server {
 public:
  explicit JoiningWorker(unsigned& calls) : calls(calls) {}

 protected:
  kj::Promise<void> machine(MachineContext context) override {
    ++calls;
    context.getResults().setMachine(kj::heap<AnyMachine>());
    return kj::READY_NOW;
  }
  kj::Promise<void> services(ServicesContext context) override {
    ++calls;
    context.getResults().setServices(kj::heap<NoServices>());
    return kj::READY_NOW;
  }
  kj::Promise<void> files(FilesContext) override {
    ++calls;
    return kj::READY_NOW;
  }
  kj::Promise<void> configuration(ConfigurationContext) override {
    ++calls;
    return kj::READY_NOW;
  }

 private:
  unsigned& calls;
};

struct JoiningNodeTest : ::testing::Test {
  ~JoiningNodeTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  unsigned calls = 0;
  rpc::Node::Client node = joiningNode(kj::heap<JoiningWorker>(calls), kj::str("10.0.0.5"),
                                       kj::str("self-signed certificate"));

  template <typename T>
  kj::Exception failureOf(T&& promise) {
    auto failure = kj::runCatchingExceptions([&] { promise.wait(scope); });
    return kj::mv(failure).orDefault([] { return KJ_EXCEPTION(FAILED, "nothing failed"); });
  }
};

// Catches: an answer of an unverified node that looks like one of the cluster's own nodes.
TEST_F(JoiningNodeTest, AnswersOfAnUnverifiedNodeAreMarked) {
  auto services = node.servicesRequest().send().getServices().listRequest().send().wait(scope);
  ASSERT_EQ(services.getServices().size(), 2u);
  EXPECT_EQ(services.getServices()[0].getHealth().getLastMessage(),
            "(not authenticated) 10.0.0.1: connection refused");
  auto machine = node.machineRequest().send().getMachine();
  auto version = machine.versionRequest().send().wait(scope);
  EXPECT_EQ(version.getTag(), "v1 (not authenticated)");
  EXPECT_EQ(version.getSha(), "abc (not authenticated)");
  EXPECT_EQ(version.getHostname(), "w1");
  auto status = machine.statusRequest().send().wait(scope);
  ASSERT_EQ(status.getProblems().size(), 2u);
  EXPECT_EQ(status.getProblems()[0], "not authenticated: self-signed certificate");
  EXPECT_EQ(status.getStage(), rpc::Status::Stage::RUNNING);
}

// Catches: a config, a log or a restart that is sent to a host that took over the address.
TEST_F(JoiningNodeTest, UnverifiedNodeGetsOnlyTheCallsForJoining) {
  auto files = failureOf(node.filesRequest().send());
  EXPECT_EQ(kindOf(files), ErrorKind::kFailedPrecondition);
  EXPECT_THAT(messageOf(files).cStr(),
              HasSubstr("the identity of 10.0.0.5 is not verified (self-signed "
                        "certificate), so files is not sent to it; `talosctl -n 10.0.0.5 service "
                        "apid` shows"));
  failureOf(node.configurationRequest().send());
  EXPECT_EQ(calls, 0u);
  auto restart = node.servicesRequest().send().getServices().restartRequest();
  restart.setId("apid");
  EXPECT_EQ(kindOf(failureOf(restart.send())), ErrorKind::kFailedPrecondition);
  auto machine = node.machineRequest().send().getMachine();
  EXPECT_EQ(kindOf(failureOf(machine.rebootRequest().send())), ErrorKind::kFailedPrecondition);
}

// Catches: advice to check a service that waits for nothing, when the node's certificate is valid
// and has other addresses.
TEST_F(JoiningNodeTest, AnotherAddressOfTheNodeIsToBeUsed) {
  node = joiningNode(kj::heap<JoiningWorker>(calls), kj::str("10.0.0.5"),
                     kj::str("certificate verify failed: IP address mismatch"));
  EXPECT_THAT(messageOf(failureOf(node.filesRequest().send())).cStr(),
              HasSubstr("is not sent to it; the certificate of a worker has its host name and the "
                        "addresses from which it reaches trustd; use one of these with -n"));
}

void visit(capnp::InterfaceSchema schema, kj::Function<void(capnp::InterfaceSchema::Method)> f) {
  for (auto method : schema.getMethods()) f(method);
}

// Catches: a method that is marked in rpc/ and not served; a marked method that could carry a
// secret to the node.
TEST_F(JoiningNodeTest, EveryMarkedMethodIsServedAndTakesNothing) {
  kj::Vector<kj::String> marked;
  auto look = [&](capnp::InterfaceSchema schema) {
    visit(schema, [&](capnp::InterfaceSchema::Method method) {
      if (!annotation::has(method, annotation::kJoining)) return;
      marked.add(kj::str(method.getProto().getName()));
      EXPECT_EQ(method.getParamType().getFields().size(), 0u);
    });
  };
  look(capnp::Schema::from<rpc::Node>());
  look(capnp::Schema::from<rpc::Machine>());
  look(capnp::Schema::from<rpc::Services>());
  EXPECT_EQ(kj::strArray(marked, " "), "machine services version status list");
}

struct Joining : ::testing::Test {
  ~Joining() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::Timer& timer = io.provider->getTimer();
  Authority authority;
  TestNode a{io, "10.0.0.1", [this](const Ip&) {
               return dialMachine(*io.lowLevelProvider, timer, a.identity.client(),
                                  Ip::require("127.0.0.1"), worker.port, "10.0.0.5");
             }};
  TestNode worker{io, "10.0.0.5", [](const Ip&) -> kj::Promise<Remote> {
                    return kj::evalNow([]() -> kj::Promise<Remote> { refuseToForward(); });
                  }};

  template <typename T>
  T wait(kj::Promise<T> promise) {
    return timer.timeoutAfter(20 * kj::SECONDS, kj::mv(promise)).wait(io.waitScope);
  }
  kj::String version(rpc::Cluster::Client cluster, kj::StringPtr address) {
    auto request = cluster.nodeRequest();
    request.setAddress(address);
    auto call =
        request.send().getNode().machineRequest().send().getMachine().versionRequest().send();
    return wait(call.then([](auto&& r) { return kj::str(r.getTag()); }));
  }
  kj::String problem(rpc::Cluster::Client cluster, kj::StringPtr address) {
    auto failure = kj::runCatchingExceptions([&] { version(cluster, address); });
    return messageOf(KJ_ASSERT_NONNULL(failure));
  }
};

// Catches: a worker that cannot be queried before it has joined; a worker that is open to everyone;
// a worker that stays unverified afterwards.
TEST_F(Joining, AWorkerIsAskedThroughTheControlPlane) {
  a.certify(authority);
  for (auto* node : {&a, &worker}) node->startMachined();
  a.startApid();
  worker.startApid();
  worker.identity.setJoinAuthority(authority.pair.certificate);
  wait(a.identity.ready());
  wait(worker.identity.ready());
  while (worker.model.store.kind<rpc::ApiCertificateSpec>().watching == 0)
    wait(timer.afterDelay(1 * kj::MILLISECONDS));
  auto dial = [&](TestNode& node, kj::StringPtr name, const Authority& of) {
    auto tls = kj::heap<TlsEndpoint>(of.client("someone", {"os:admin"_kj}));
    auto dialled = wait(
        dialMachine(*io.lowLevelProvider, timer, *tls, Ip::require("127.0.0.1"), node.port, name));
    auto cluster = dialled.connection->bootstrap().castAs<rpc::Cluster>();
    return kj::tuple(kj::mv(tls), kj::mv(dialled), kj::mv(cluster));
  };
  auto admin = dial(a, "10.0.0.1", authority);
  KJ_IF_MAYBE (error, kj::get<1>(admin).shown.verificationError) ADD_FAILURE() << error->cStr();
  auto cluster = kj::get<2>(admin);
  EXPECT_EQ(version(cluster, "10.0.0.5"), "node 10.0.0.5 (not authenticated)");
  Authority otherAuthority;
  EXPECT_ANY_THROW({
    auto stranger = dial(worker, "10.0.0.5", otherAuthority);
    version(kj::get<2>(stranger), "");
  }) << "its clients need a certificate all the same";

  auto direct = dial(worker, "10.0.0.5", authority);
  EXPECT_TRUE(kj::get<1>(direct).shown.verificationError != nullptr);
  EXPECT_THAT(problem(kj::get<2>(direct), "10.0.0.9").cStr(), HasSubstr("is a worker"));

  worker.publish(authority.forWorker("10.0.0.5", nullptr));
  // The store's stream arrives a moment later.
  bool verified = false;
  for (unsigned tries = 0; !verified && tries < 2000; ++tries) {
    auto later = dial(worker, "10.0.0.5", authority);
    verified = kj::get<1>(later).shown.verificationError == nullptr;
  }
  EXPECT_TRUE(verified);
  EXPECT_FALSE(worker.identity.mayForward());
  EXPECT_EQ(version(kj::get<2>(direct), ""), "node 10.0.0.5") << "connections that are up go on";
}

}  // namespace
}  // namespace talos::apid
