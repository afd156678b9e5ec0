#include "talosctl/drain/node-removal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/kube/test-kube-server.h"

namespace talos::talosctl {
namespace {

using kube::Json;
using testing::HasSubstr;

struct NodeRemovalTest : public testing::Test {
  ~NodeRemovalTest() noexcept override {}
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  kube::ModelKube model{timer};
  kube::KubeClient kubernetes{timer, [] { return 0.0; }, model.dialer(), kube::ModelKube::access()};

  NodeRemovalTest() {
    model.addUsualKinds();
    put("w-1", "10.5.0.3", "1");
    put("w-2", "10.5.0.4", "2");
  }
  void put(kj::StringPtr name, kj::StringPtr address, kj::StringPtr uid) {
    Json one{{"type", "InternalIP"}, {"address", address.cStr()}};
    model.put(kj::str("/api/v1/nodes/", name),
              {{"metadata", {{"name", name.cStr()}, {"uid", uid.cStr()}}},
               {"status", {{"addresses", Json::array({one})}}}});
  }
  bool has(kj::StringPtr name) { return model.find(kj::str("/api/v1/nodes/", name)) != nullptr; }
  kj::Own<NodeRemoval> find(std::vector<const char*> nodes) {
    auto names = kj::heapArrayBuilder<kj::String>(nodes.size());
    for (auto node : nodes) names.add(kj::str(node));
    auto all = names.finish();
    return NodeRemoval::find(kubernetes, all).wait(scope);
  }
};

}  // namespace

// Catches: another node's object; an address that is resolved again when another node may have it.
TEST_F(NodeRemovalTest, RemovesWhatItHasFound) {
  auto removal = find({"10.5.0.4", "w-1"});
  EXPECT_STREQ("w-2", removal->name(0).cStr());
  put("w-2", "10.5.0.9", "2");
  removal->remove(0).wait(scope);
  EXPECT_FALSE(has("w-2"));
  EXPECT_TRUE(has("w-1"));
  removal->remove(0).wait(scope);
}

// Catches: a new machine with the old machine's name that loses its object.
TEST_F(NodeRemovalTest, ANewerObjectStays) {
  auto removal = find({"w-1"});
  put("w-1", "10.5.0.3", "3");
  removal->remove(0).wait(scope);
  EXPECT_TRUE(has("w-1"));
}

// Catches: a reset that begins although one of its nodes is unknown.
TEST_F(NodeRemovalTest, EachHasToBeThere) {
  kj::String error;
  NodeRemoval::find(kubernetes, kj::arr(kj::str("w-1"), kj::str("10.5.0.77")))
      .then([](auto) {}, [&](kj::Exception&& e) { error = messageOf(e); })
      .wait(scope);
  EXPECT_THAT(error.cStr(), HasSubstr("no node of Kubernetes has the name or address 10.5.0.77"));
}

TEST_F(NodeRemovalTest, SaysWhatIsLeftToDo) {
  auto removal = find({"w-1"});
  model.instead = [](auto& asked) -> kj::Maybe<kube::ModelKube::Reply> {
    if (asked.method != "DELETE") return nullptr;
    return kube::ModelKube::Reply{403, R"({"kind":"Status","message":"not yours"})", ""};
  };
  kj::String error;
  removal->remove(0).then([]() {}, [&](kj::Exception&& e) { error = messageOf(e); }).wait(scope);
  EXPECT_THAT(error.cStr(), HasSubstr("the node is reset, but its object in Kubernetes was not "
                                      "removed: "));
  EXPECT_THAT(error.cStr(), HasSubstr("not yours; kubectl delete node w-1"));
}

}  // namespace talos::talosctl
