#include "kubed/nodes/superseded-nodes.h"

#include <gtest/gtest.h>

#include <functional>

#include "common/base/date.h"

namespace talos::kubed {
namespace {

constexpr kj::StringPtr kToday = "2026-11-20T12:00:00Z"_kj;

kube::Json node(const char* name, const char* created, const char* ready, const char* since) {
  return {{"metadata",
           {{"name", name},
            {"uid", std::string("uid-") + name},
            {"resourceVersion", "7"},
            {"creationTimestamp", created}}},
          {"status",
           {{"nodeInfo", {{"machineID", "m1"}, {"systemUUID", "u1"}}},
            {"addresses", kube::Json::array({{{"type", "Hostname"}, {"address", name}},
                                             {{"type", "InternalIP"}, {"address", "10.5.0.3"}},
                                             {{"type", "InternalIP"}, {"address", "fd00::3"}}})},
            {"conditions",
             kube::Json::array(
                 {{{"type", "MemoryPressure"}, {"status", "False"}},
                  {{"type", "Ready"}, {"status", ready}, {"lastTransitionTime", since}}})}}}};
}

// Returns "old->new" for each node that is superseded.
std::string superseded(const std::vector<kube::Json>& nodes, kj::StringPtr local = "me") {
  std::vector<NodeRecord> records;
  for (auto& one : nodes) records.push_back(recordOf(one));
  kj::Vector<const NodeRecord*> all;
  for (auto& record : records) all.add(&record);
  std::string text;
  for (auto& found : supersededNodes(all, local, KJ_ASSERT_NONNULL(parseDate(kToday)))) {
    text += (text.empty() ? "" : " ") + std::string(found.node.name.cStr()) + "->" +
            found.successor.name.cStr();
  }
  return text;
}

kube::Json oldNode() {
  return node("old", "2026-11-01T00:00:00Z", "Unknown", "2026-11-20T11:59:00Z");
}
kube::Json newNode() {
  return node("new", "2026-11-20T11:58:00Z", "True", "2026-11-20T11:58:30Z");
}

// Catches: a Node object that stays for ever; one whose facts are read from elsewhere.
TEST(SupersededNodes, AreTheEarlierNamesOfAMachine) {
  EXPECT_EQ(superseded({oldNode(), newNode()}), "old->new");
  EXPECT_EQ(superseded({newNode(), oldNode()}), "old->new");
  auto record = recordOf(oldNode());
  EXPECT_EQ(record.uid, "uid-old");
  EXPECT_EQ(record.version, "7");
  EXPECT_EQ(record.addresses.size(), 2u);
}

// Catches: the Node object of another machine, or of one that is only restarting, that is removed.
TEST(SupersededNodes, AreSurelyThatMachines) {
  using Change = std::function<void(kube::Json & old, kube::Json & fresh)>;
  auto ready = [](kube::Json& node) -> kube::Json& { return node["status"]["conditions"][1]; };
  struct Row {
    const char* what;
    Change change;
    const char* expected = "";
  };
  const Row rows[] = {
      {"the same in another notation",
       [](auto&, auto& fresh) {
         fresh["status"]["addresses"] =
             kube::Json::array({{{"type", "InternalIP"}, {"address", "fd00:0::3"}}});
       },
       "old->new"},
      {"machines without SMBIOS",
       [](auto& old, auto& fresh) {
         old["status"]["nodeInfo"].erase("systemUUID");
         fresh["status"]["nodeInfo"]["systemUUID"] = "";
       },
       "old->new"},
      {"another machine id",
       [](auto& old, auto&) { old["status"]["nodeInfo"]["machineID"] = "m2"; }},
      {"no machine id",
       [](auto& old, auto& fresh) {
         old["status"]["nodeInfo"]["machineID"] = fresh["status"]["nodeInfo"]["machineID"] = "";
       }},
      {"a copy of the disk",
       [](auto&, auto& fresh) { fresh["status"]["nodeInfo"]["systemUUID"] = "u2"; }},
      {"no firmware's UUID in one",
       [](auto& old, auto&) { old["status"]["nodeInfo"].erase("systemUUID"); }},
      {"other addresses",
       [](auto&, auto& fresh) {
         fresh["status"]["addresses"] =
             kube::Json::array({{{"type", "InternalIP"}, {"address", "10.5.0.4"}}});
       }},
      {"no addresses", [](auto& old, auto&) { old["status"].erase("addresses"); }},
      {"another kind of node",
       [](auto& old, auto&) {
         old["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "";
       }},
      {"the old one is Ready", [&](auto& old, auto&) { ready(old)["status"] = "True"; }},
      {"not for a minute",
       [&](auto& old, auto&) { ready(old)["lastTransitionTime"] = "2026-11-20T11:59:01Z"; }},
      {"nobody knows for how long",
       [&](auto& old, auto&) { ready(old).erase("lastTransitionTime"); }},
      {"the new one is not Ready", [&](auto&, auto& fresh) { ready(fresh)["status"] = "False"; }},
      {"the new one goes",
       [](auto&, auto& fresh) { fresh["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z"; }},
      {"the old one goes",
       [](auto& old, auto&) { old["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z"; }},
      {"the new one is not newer",
       [](auto&, auto& fresh) { fresh["metadata"]["creationTimestamp"] = "2026-11-01T00:00:00Z"; }},
      {"an unknown age", [](auto& old, auto&) { old["metadata"].erase("creationTimestamp"); }},
  };
  for (auto& row : rows) {
    auto old = oldNode(), fresh = newNode();
    row.change(old, fresh);
    EXPECT_EQ(superseded({old, fresh}), row.expected) << row.what;
  }
}

// Catches: a node that removes itself; one of two nodes that both claim a former name; a chain of
// names whose middle name stays.
TEST(SupersededNodes, HaveOneSuccessorAndAreNotTheNodeItself) {
  EXPECT_EQ(superseded({oldNode(), newNode()}, "old"), "");
  EXPECT_EQ(superseded({oldNode(), newNode()}, "new"), "old->new");
  auto second = node("second", "2026-11-20T11:58:10Z", "True", "2026-11-20T11:58:30Z");
  EXPECT_EQ(superseded({oldNode(), newNode(), second}), "");
  auto middle = node("middle", "2026-11-10T00:00:00Z", "False", "2026-11-20T11:50:00Z");
  EXPECT_EQ(superseded({oldNode(), middle, newNode()}), "middle->new");
  EXPECT_EQ(superseded({}), "");
}

}  // namespace
}  // namespace talos::kubed
