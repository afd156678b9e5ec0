// The method HealthCheck against models of three nodes.
#include <set>

#include "apid/grpc/test-grpc-api.h"
#include "common/health/test-health.h"
#include "common/testing/virtual-time.h"

namespace talos::grpcapi {
namespace {

using namespace testing;

struct HealthTestbed {
  ModelHealth model;
  unsigned surveys = 0;
};

class CheckedMachine final : public rpc::Machine::Server {
 public:
  explicit CheckedMachine(talos::ModelNode& node) : node(node) {}

 protected:
  kj::Promise<void> version(VersionContext context) override { return kj::READY_NOW; }
  kj::Promise<void> status(StatusContext context) override {
    context.setResults(node.facts().status);
    return kj::READY_NOW;
  }

 private:
  talos::ModelNode& node;
};

class CheckedServices final : public rpc::Services::Server {
 public:
  explicit CheckedServices(talos::ModelNode& node) : node(node) {}

 protected:
  kj::Promise<void> list(ListContext context) override {
    context.getResults().setServices(node.facts().services);
    return kj::READY_NOW;
  }

 private:
  talos::ModelNode& node;
};

class CheckedKubernetes final : public rpc::Kubernetes::Server {
 public:
  explicit CheckedKubernetes(HealthTestbed& bed) : bed(bed) {}

 protected:
  kj::Promise<void> survey(SurveyContext context) override {
    ++bed.surveys;
    context.getResults().setSurvey(bed.model.survey.asReader());
    return kj::READY_NOW;
  }

 private:
  HealthTestbed& bed;
};

class CheckedNode final : public rpc::Node::Server {
 public:
  CheckedNode(HealthTestbed& bed, unsigned index) : bed(bed), node(bed.model.nodes[index]) {}

 protected:
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<CheckedMachine>(node));
    return kj::READY_NOW;
  }
  kj::Promise<void> services(ServicesContext context) override {
    context.getResults().setServices(kj::heap<CheckedServices>(node));
    return kj::READY_NOW;
  }
  kj::Promise<void> kubernetes(KubernetesContext context) override {
    context.getResults().setKubernetes(kj::heap<CheckedKubernetes>(bed));
    return kj::READY_NOW;
  }

 private:
  HealthTestbed& bed;
  talos::ModelNode& node;
};

struct HealthTest : GrpcApiTest {
  HealthTestbed bed;
  HealthTest() {
    cluster->nodes.insert({"", kj::heap<CheckedNode>(bed, 0)});
    for (unsigned i = 0; i < 3; ++i) {
      cluster->nodes.insert({bed.model.nodes[i].name.cStr(), kj::heap<CheckedNode>(bed, i)});
    }
  }
  ~HealthTest() noexcept override { handler = nullptr; }

  // `seconds`: the timeout; 0: the method's default.
  static kj::Array<kj::byte> asking(uint64_t seconds,
                                    std::initializer_list<const char*> controlPlane = {},
                                    std::initializer_list<const char*> workers = {},
                                    const char* endpoint = nullptr) {
    return request([&](WireWriter& out) {
      WireWriter time, nodes;
      time.varint(1, seconds);
      if (seconds > 0) out.bytes(1, time.written());
      for (auto name : controlPlane) nodes.text(1, name);
      for (auto name : workers) nodes.text(2, name);
      if (endpoint != nullptr) nodes.text(3, endpoint);
      out.bytes(2, nodes.written());
    });
  }
  static std::vector<std::string> linesOf(const TestCall& call) {
    std::vector<std::string> lines;
    for (size_t i = 0; i < call.sent.size(); ++i) lines.push_back(call.message(i).text(2));
    return lines;
  }
};

constexpr auto kPath = "/cluster.ClusterService/HealthCheck";

// Catches: missing checks; nodes that were not named; a line that is sent twice or not at all; an
// end before the last line.
TEST_F(HealthTest, AClusterThatIsWell) {
  TestCall call(kPath, asking(60));
  EXPECT_EQ("0 ", run(call));
  EXPECT_TRUE(call.begun);
  auto lines = linesOf(call);
  ASSERT_EQ(23u, lines.size());
  EXPECT_EQ("discovered nodes: control plane: [\"10.5.0.2\" \"10.5.0.3\"], worker: [\"10.5.0.4\"]",
            lines[0]);
  EXPECT_EQ("waiting for etcd to be healthy: ...", lines[1]);
  EXPECT_EQ("waiting for etcd to be healthy: OK", lines[2]);
  EXPECT_EQ("waiting for all k8s nodes to report schedulable: OK", lines[22]);
  std::set<std::string> asked(cluster->asked.begin(), cluster->asked.end());
  EXPECT_EQ((std::set<std::string>{"", "10.5.0.2", "10.5.0.3", "10.5.0.4"}), asked);
}

// Catches: named nodes that are not checked; a failure that is not reported, or that clients of
// several nodes get as the failure of the whole call; an end later than the client's timeout; lines
// that are lost at the end.
TEST_F(HealthTest, ReportsWhatIsWaitedFor) {
  TestCall call(kPath, asking(12, {"10.5.0.2", "10.5.0.9"}, {"10.5.0.4"}));
  call.toNodes({"10.5.0.3"});
  auto promise = handler->call(call);
  advance(timer, scope, 11 * kj::SECONDS);
  EXPECT_FALSE(promise.poll(scope));
  EXPECT_EQ(0u, bed.surveys) << "Kubernetes is not asked which nodes there are";
  advance(timer, scope, 2 * kj::SECONDS);
  EXPECT_TRUE(promise.poll(scope));
  EXPECT_EQ(0u, promise.wait(scope).code);
  auto lines = linesOf(call);
  ASSERT_EQ(3u, lines.size());
  EXPECT_EQ("waiting for etcd to be healthy: ...", lines[0]);
  EXPECT_EQ("waiting for etcd to be healthy: 10.5.0.9: cannot connect to 10.5.0.9:50000", lines[1]);
  EXPECT_EQ("10.5.0.3", call.message(1).in(1).text(1));
  EXPECT_EQ(
      "rpc error: code = DeadlineExceeded desc = timed out waiting for etcd to be healthy: "
      "10.5.0.9: cannot connect to 10.5.0.9:50000",
      call.message(2).in(1).text(2));
}

// Catches: a called node that is down, or denies the call, and is waited for; an impossible check
// that is skipped.
TEST_F(HealthTest, PermanentErrorsEndTheCall) {
  TestCall down(kPath, asking(60, {"10.5.0.2"}));
  down.toNode("10.5.0.9");
  EXPECT_EQ("14 cannot connect to 10.5.0.9:50000", run(down));
  EXPECT_TRUE(down.sent.empty());
  TestCall endpoint(kPath, asking(60, {}, {}, "10.5.0.1"));
  EXPECT_EQ("12 ", run(endpoint).substr(0, 3));
  TestCall workers(kPath, asking(60, {}, {"10.5.0.4"}));
  EXPECT_EQ("3 ", run(workers).substr(0, 2));
  TestCall two(kPath, asking(60));
  two.toNodes({"10.5.0.2", "10.5.0.3"});
  EXPECT_EQ("3 /cluster.ClusterService/HealthCheck is for one node, not for 2", run(two));
}

// Catches: one call that makes this node call as many others as it names, all at once, for the
// price of one.
TEST_F(HealthTest, EachNodeIsPaidFor) {
  Budget budget({64u << 10, 1u << 30});  // four calls
  auto account = budget.account("someone");
  handler = api.open(timer, client, kj::addRef(*account));
  TestCall call(kPath, asking(1, {"10.5.0.2", "10.5.0.3", "a", "b", "c", "d"}));
  auto promise = handler->call(call);
  advance(timer, scope, 2 * kj::SECONDS);
  EXPECT_EQ(4u, promise.wait(scope).code);
  EXPECT_EQ(
      "waiting for etcd to be healthy: a: cannot connect to a:50000; b: cannot connect to b:50000; "
      "c: the calls of this client use more than 65536 bytes, over all its connections; "
      "d: the calls of this client use more than 65536 bytes, over all its connections",
      call.message(1).text(2));
  auto again = account->hold(64u << 10);  // Nothing is charged any more.
  handler = nullptr;
}

// Catches: checks that continue for a client that has gone, or that wait for a client that reads
// nothing.
TEST_F(HealthTest, TheClientDecidesHowFastItReads) {
  TestCall call(kPath, asking(60));
  call.stuck = true;
  {
    auto promise = handler->call(call);
    EXPECT_FALSE(promise.poll(scope));
    EXPECT_EQ(1u, call.sent.size());
    EXPECT_EQ(1u, call.waiting);
    EXPECT_GT(bed.surveys, 1u) << "what it sees is of now";
  }
  EXPECT_EQ(0u, call.waiting);
  auto before = bed.surveys;
  advance(timer, scope, 60 * kj::SECONDS);
  EXPECT_EQ(before, bed.surveys);
}

}  // namespace
}  // namespace talos::grpcapi
