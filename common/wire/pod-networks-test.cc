#include "common/wire/pod-networks.h"

#include <gtest/gtest.h>

#include "common/wire/test-pods.h"

namespace talos {
namespace {

class PodContainers final : public rpc::Containers::Server {
 public:
  PodContainers(ModelPods& pods, unsigned more) : pods(pods), more(more) {}
  kj::Promise<void> list(ListContext context) override {
    EXPECT_TRUE(context.getParams().getKubernetes());
    pods.list(context.getResults().initContainers(2 * pods.pods.size() + more));
    return kj::READY_NOW;
  }

 private:
  ModelPods& pods;
  unsigned more;
};

class PodFiles final : public rpc::Files::Server {
 public:
  explicit PodFiles(ModelPods& pods) : pods(pods) {}
  kj::Promise<void> list(ListContext context) override { return pods.links(context); }

 private:
  ModelPods& pods;
};

class PodMachine final : public rpc::Machine::Server {
 public:
  explicit PodMachine(ModelPods& pods) : pods(pods) {}
  kj::Promise<void> netstat(NetstatContext context) override {
    pods.sockets(context.getParams().getProcess(), context.getResults());
    return kj::READY_NOW;
  }

 private:
  ModelPods& pods;
};

class PodNode final : public rpc::Node::Server {
 public:
  PodNode(ModelPods& pods, unsigned more) : pods(pods), more(more) {}
  kj::Promise<void> containers(ContainersContext context) override {
    context.getResults().setContainers(kj::heap<PodContainers>(pods, more));
    return kj::READY_NOW;
  }
  kj::Promise<void> files(FilesContext context) override {
    context.getResults().setFiles(kj::heap<PodFiles>(pods));
    return kj::READY_NOW;
  }
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<PodMachine>(pods));
    return kj::READY_NOW;
  }

 private:
  ModelPods& pods;
  unsigned more;
};

class PodNetworks : public ::testing::Test {
 public:
  ~PodNetworks() noexcept override {}

 protected:
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  ModelPods pods;

  rpc::Node::Client node(unsigned more = 0) { return kj::heap<PodNode>(pods, more); }
  // Returns "default/a 4026532001 7", or the error.
  kj::String found(unsigned more = 0) {
    kj::String result;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                   auto networks = podNetworks(node(more)).wait(scope);
                   auto lines = KJ_MAP(n, networks) {
                     return kj::str(n.pod, " ", n.name, " ", n.process);
                   };
                   result = kj::strArray(lines, "\n");
                 })) {
      return kj::str(nameOf(kindOf(*e)), ": ", messageOf(*e));
    }
    return result;
  }
};

// Catches: a pod on the node's network whose sockets are then listed twice, a container beside its
// pod, a pod that does not run or that ends meanwhile and fails the others.
TEST_F(PodNetworks, AreThoseOfPodsWithTheirOwn) {
  EXPECT_EQ(found(), "");
  pods.pods = {{"default/a", 7, "4026532001"},
               {"default/gone", 8, ""},
               {"default/waits", 0, "4026532009"},
               {"kube-system/kube-proxy", 9, pods.own},
               {"kube-system/z", 10, "4026532002"}};
  EXPECT_EQ(found(), "default/a 4026532001 7\nkube-system/z 4026532002 10");
  pods.error = "No such process";
  EXPECT_EQ(found(), "Unavailable: the node does not say which network namespace it is in");
}

// Catches: a list that looks whole although the node may not look into its pods.
TEST_F(PodNetworks, SayWhyTheyCannotBeRead) {
  pods.pods = {{"default/a", 7, "4026532001"}};
  pods.error = "Permission denied";
  EXPECT_EQ(found(), "Unavailable: /proc/self/ns: Permission denied");
}

// Catches: invalid numbers, which a client would print; a link of another kind.
TEST_F(PodNetworks, HaveNumbers) {
  pods.pods = {{"default/a", 7, "4026532001\x1b[2J"}, {"default/b", 8, "123456789012345678901"}};
  EXPECT_EQ(found(), "");
}

// Catches: a node with many pods that gets more calls at once than it lets a client have open.
TEST_F(PodNetworks, AreLookedUpAFewAtATime) {
  std::vector<kj::String> names;
  for (int i = 0; i < 30; ++i) names.push_back(kj::str("default/p", i));
  for (int i = 0; i < 30; ++i) pods.pods.push_back({names[i], 100 + i, "4026532001"});
  EXPECT_EQ(podNetworks(node()).wait(scope).size(), 30u);
  EXPECT_EQ(pods.mostLookups, kPodsAtOnce);
  EXPECT_EQ(found(65'536),
            "ResourceExhausted: the node has sent a list of 65596 items; at most "
            "65536 are read");
}

// Catches: a pod that ended between its lookup and its sockets, and takes the others with it.
TEST_F(PodNetworks, HaveNoSocketsAfterTheirEnd) {
  pods.pods = {{"default/a", 7, "4026532001"}, {"default/b", 8, "4026532002", true}};
  auto sockets = podSockets(node(), 7).wait(scope);
  EXPECT_EQ(KJ_ASSERT_NONNULL(sockets).getSockets()[0].getLocalPort(), 1007);
  EXPECT_TRUE(podSockets(node(), 8).wait(scope) == nullptr);
}

}  // namespace
}  // namespace talos
