#include "common/kube/disruption-budgets.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

namespace talos::kube {
namespace {

struct BudgetsTest : public testing::Test {
  ~BudgetsTest() noexcept override {}
  DisruptionBudgets budgets;

  void budget(kj::StringPtr selector, kj::StringPtr version = "v1") {
    budgets.addBudget(
        readJson(
            kj::str(R"({"metadata":{"namespace":"a","name":"b)", budgets.size(), R"("},"spec":{)",
                    selector, R"(},"status":{"disruptionsAllowed":)", budgets.size(), "}}"),
            "the test"),
        version);
  }
  void pod(kj::StringPtr name, kj::StringPtr labels, kj::StringPtr owner = "ReplicaSet",
           kj::StringPtr nameSpace = "a", kj::StringPtr node = "w1",
           kj::StringPtr phase = "Running", kj::StringPtr annotations = "") {
    auto text =
        kj::str(R"({"metadata":{"namespace":")", nameSpace, R"(","name":")", name,
                R"(","annotations":{)", annotations, R"(},"labels":{)", labels, "}",
                owner.size() > 0 ? R"(,"ownerReferences":[{"controller":true,"kind":")" : "", owner,
                owner.size() > 0 ? R"("}])" : "", R"(},"spec":{"nodeName":")", node,
                R"("},"status":{"phase":")", phase, R"("}})");
    budgets.addPod(readJson(text, "the test"));
  }
  std::string text() {
    capnp::MallocMessageBuilder message;
    auto survey = message.initRoot<rpc::Survey>();
    budgets.fill(survey.initBudgets(static_cast<unsigned>(budgets.size())));
    kj::Vector<kj::String> lines;
    for (auto one : survey.asReader().getBudgets()) {
      auto pods = KJ_MAP(pod, one.getPods()) {
        return kj::str(" ", pod.getName(), "@", pod.getNode());
      };
      lines.add(kj::str(one.getNamespace(), "/", one.getName(), " ", one.getAllowed(), ":",
                        kj::strArray(pods, ""), one.getMore() > 0 ? " +" : "",
                        one.getMore() > 0 ? kj::str(one.getMore()) : kj::String(), "\n"));
    }
    return kj::strArray(lines, "").cStr();
  }
};

// Catches: an operator that is read as another one; a selector of all pods that selects none, or
// vice versa; a budget of another namespace.
TEST_F(BudgetsTest, SelectorsAreThoseOfKubernetes) {
  budget(R"("selector":{"matchLabels":{"app":"x"}})");
  budget(R"("selector":{"matchExpressions":[{"key":"app","operator":"In","values":["y","x"]}]})");
  budget(R"("selector":{"matchExpressions":[{"key":"app","operator":"NotIn","values":["x"]}]})");
  budget(R"("selector":{"matchExpressions":[{"key":"app","operator":"Exists"}]})");
  budget(R"("selector":{"matchExpressions":[{"key":"app","operator":"DoesNotExist"}]})");
  budget(R"("selector":{})");
  budget(R"("selector":{})", "v1beta1");
  budget("");
  budget(R"("selector":{"matchLabels":{"app":"x","tier":"1"}})");
  pod("px", R"("app":"x")");
  pod("py", R"("app":"y","tier":"1")");
  pod("none", "");
  pod("other", R"("app":"x")", "ReplicaSet", "z");
  EXPECT_EQ(text(),
            "a/b0 0: px@w1\n"
            "a/b1 1: px@w1 py@w1\n"
            "a/b2 2: py@w1 none@w1\n"
            "a/b3 3: px@w1 py@w1\n"
            "a/b4 4: none@w1\n"
            "a/b5 5: px@w1 py@w1 none@w1\n"
            "a/b6 6:\n"
            "a/b7 7:\n"
            "a/b8 8:\n");
}

// Catches: a budget that is reported to block a drain although the drain never evicts its pods.
TEST_F(BudgetsTest, PodsThatADrainLeavesAreNotCounted) {
  budget(R"("selector":{})");
  pod("daemon", "", "DaemonSet");
  pod("alone", "", "");
  pod("done", "", "Job", "a", "w1", "Succeeded");
  pod("pending", "", "ReplicaSet", "a", "");
  pod("static", "", "Node", "a", "w1", "Running", R"("kubernetes.io/config.mirror":"1")");
  pod("real", "", "StatefulSet", "a", "w2");
  EXPECT_EQ(text(), "a/b0 0: real@w2\n");
}

// Catches: a cluster with many pods that makes the survey grow without a limit; a list that looks
// whole and is not.
TEST_F(BudgetsTest, ManyAreCounted) {
  budget(R"("selector":{})");
  for (size_t i = 0; i < kMostPodsOfBudget + 3; ++i) pod(kj::str("p", i), "");
  auto all = text();
  EXPECT_EQ(all.substr(all.size() - 4), " +3\n");
  for (size_t i = 1; i < kMostBudgets + 2; ++i) budget("");
  EXPECT_EQ(budgets.size(), kMostBudgets);
  EXPECT_EQ(budgets.leftOut(), 2u);
}

}  // namespace
}  // namespace talos::kube
