#include "kubed/nodes/join-approver.h"

#include "common/base/date.h"
#include "kubed/nodes/test-control-plane.h"

namespace talos::kubed {
namespace {

kube::Json read(kj::StringPtr text) {
  return kube::readJson(text, "the test");
}

// Catches: a foreign or already decided request that is approved by the way.
TEST(JoinApproval, IsForOpenRequestsOfTheBootstrapToken) {
  auto open = read(R"({"spec": {"signerName": "kubernetes.io/kube-apiserver-client-kubelet",
      "groups": ["system:bootstrappers", "system:authenticated"]}})");
  EXPECT_TRUE(awaitsApproval(open));
  auto with = [&](const char* path, kube::Json value) {
    auto other = open;
    other[kube::Json::json_pointer(path)] = kj::mv(value);
    return other;
  };
  EXPECT_FALSE(awaitsApproval(with("/spec/signerName", "kubernetes.io/kube-apiserver-client")));
  EXPECT_FALSE(awaitsApproval(with("/spec/groups", {"system:nodes", "system:authenticated"})));
  EXPECT_FALSE(awaitsApproval(with("/spec/groups", "system:bootstrappers")));
  EXPECT_FALSE(awaitsApproval(with("/status/certificate", "Q0VSVA==")));
  EXPECT_FALSE(awaitsApproval(
      with("/status/conditions", kube::Json::array({{{"type", "Denied"}, {"status", "True"}}}))));
}

kube::ProvenNode proven(kj::StringPtr address) {
  kube::ProvenNode node{.name = kj::str("worker-1"), .addresses = {}};
  node.addresses.add(kj::str(address));
  return node;
}

constexpr kj::StringPtr kNow = "2026-11-20T12:00:00Z"_kj;

kj::Maybe<kj::String> registrationError(const kube::ProvenNode& node,
                                        std::initializer_list<kube::Json> registered) {
  RegistrationCheck check(node, KJ_ASSERT_NONNULL(parseDate(kNow)));
  for (auto& one : registered) check.add(one);
  return kj::mv(check.error);
}

// Catches: a machine at another address that becomes an existing node; a node that never joins
// again because its address can be written in two ways.
TEST(JoinApproval, IsForTheAddressOfTheRegisteredNode) {
  auto at = [](kj::StringPtr address) {
    return read(kj::str(R"({"metadata": {"name": "worker-1"}, "status": {"addresses": [)",
                        R"({"type": "Hostname", "address": "worker-1"},)",
                        R"({"type": "InternalIP", "address": ")", address, R"("}]}})"));
  };
  EXPECT_EQ(registrationError(proven("10.5.0.3"), {at("10.5.0.3")}), nullptr);
  EXPECT_EQ(registrationError(proven("fd00::3"), {at("fd00:0::3")}), nullptr);
  EXPECT_EQ(KJ_ASSERT_NONNULL(registrationError(proven("10.5.0.3"),
                                                {read(R"({"metadata": {"name": "worker-1"}})")})),
            "the node worker-1 is registered without an InternalIP; wait until it has one, or "
            "delete the Node object if the node is to join again");
  EXPECT_EQ(KJ_ASSERT_NONNULL(registrationError(proven("10.5.0.9"), {at("10.5.0.3")})),
            "the node worker-1 has the address 10.5.0.3, but the request is from 10.5.0.9; delete "
            "the Node object if the node has moved");
  auto master = at("10.5.0.3");
  master["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "";
  EXPECT_EQ(KJ_ASSERT_NONNULL(registrationError(proven("10.5.0.3"), {master})),
            "worker-1 is a control-plane node, which signs its own certificate");
}

// Catches: a worker that gets a second name, of a control plane or of another node that is to join.
TEST(JoinApproval, IsForOneNameOfAnAddress) {
  auto other = read(R"({"metadata": {"name": "worker-9"}, "status": {"addresses": [
      {"type": "Hostname", "address": "nine"}, {"type": "ExternalIP", "address": "192.0.2.3"},
      {"type": "InternalIP", "address": "fd00::3"}, {"type": "InternalIP", "address": "10.5.0.3"}
      ]}})");
  EXPECT_EQ(KJ_ASSERT_NONNULL(registrationError(proven("10.5.0.3"), {other})),
            "the address 10.5.0.3 is that of the node worker-9, which has not been NotReady for 60 "
            "s; wait, or delete its Node object if it is worker-1 now");
  EXPECT_EQ(registrationError(proven("10.5.0.4"), {other}), nullptr);
  EXPECT_EQ(registrationError(proven("192.0.2.3"), {other}), nullptr);
}

// Catches: a worker that keeps another one out of the cluster because its kubelet reports the
// other's name as its own host name.
TEST(JoinApproval, IsNotPreventedByTheHostNameThatAnotherNodeReports) {
  for (auto type : {"Hostname", "InternalDNS", "ExternalDNS"}) {
    auto other = read(kj::str(R"({"metadata": {"name": "worker-9"}, "status": {"addresses": [)",
                              R"({"type": ")", type, R"(", "address": "worker-1"},)",
                              R"({"type": "InternalIP", "address": "10.5.0.9"}]}})"));
    EXPECT_EQ(registrationError(proven("10.5.0.3"), {other}), nullptr) << type;
  }
}

kube::Json nodeAt(kj::StringPtr name, kj::StringPtr address, kj::StringPtr ready,
                  kj::StringPtr since) {
  return read(kj::str(R"({"metadata": {"name": ")", name, R"("}, "status": {"addresses": [)",
                      R"({"type": "InternalIP", "address": ")", address, R"("}], "conditions": [)",
                      R"({"type": "Ready", "status": ")", ready, R"(", "lastTransitionTime": ")",
                      since, R"("}]}})"));
}

// Catches: a renamed worker that never joins again; a new name while the old one is in use, while
// there are two old ones, or while the old one is a control plane's.
TEST(JoinApproval, IsForAnotherNameWhenTheOldOneIsNotUsedAnyMore) {
  auto error = [](std::initializer_list<kube::Json> registered) {
    return registrationError(proven("10.5.0.3"), registered).orDefault(kj::str());
  };
  auto old = nodeAt("old", "10.5.0.3", "Unknown", "2026-11-20T11:59:00Z");
  EXPECT_EQ(error({old}), ""_kj);
  EXPECT_TRUE(error({nodeAt("old", "10.5.0.3", "Unknown", "2026-11-20T11:59:01Z")})
                  .startsWith("the address 10.5.0.3 is that of the node old, which has not been"));
  EXPECT_NE(error({nodeAt("old", "10.5.0.3", "True", "2026-11-20T11:00:00Z")}), ""_kj);
  EXPECT_EQ(error({old, nodeAt("older", "10.5.0.3", "False", "2026-11-20T11:00:00Z")}),
            "the address 10.5.0.3 is that of the node older, and of old; delete the Node objects "
            "of nodes that are gone");
  auto master = old;
  master["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "";
  EXPECT_EQ(error({master}),
            "the address 10.5.0.3 is that of the node old, which is a control plane's; delete its "
            "Node object if that node is gone, or is worker-1 now");
}

struct Approvals : public TestControlPlane {
  pki::CertificateAndKey machineCa = pki::makeAuthority({.organization = "talos"});
  kj::Maybe<JoinApprover> approver;
  kj::Promise<void> running = nullptr;

  ~Approvals() noexcept override { running = nullptr; }
  Approvals() {
    model.addKind(kube::certificateRequests());
    auto bootstrap =
        kube::writeKubeconfig({.cluster = "c",
                               .server = "https://10.5.0.2:6443",
                               .authority = "CA",
                               .user = "u",
                               .credentials = kube::BearerToken{"abcdef.0123456789abcdef"},
                               .context = "c"});
    machined.kind<rpc::KubeletSecretsSpec>().set<rpc::KubeletSecretsSpec>(
        "kubelet", "machined", [&](auto spec) {
          spec.setBootstrapKubeconfig(kj::StringPtr(bootstrap));
          spec.setMachineCa(machineCa.certificate.asBytes());
        });
    running = approver.emplace(begin(), kj::systemPreciseMonotonicClock(), 100 * kj::MILLISECONDS)
                  .run()
                  .eagerlyEvaluate(nullptr);
  }
  static kj::String pathOf(kj::StringPtr name) {
    return kube::pathOf(kube::certificateRequests(), "", name);
  }
  void put(kj::StringPtr name, kj::StringPtr asked, kj::StringPtr shown,
           kj::StringPtr address = "10.5.0.3") {
    model.put(pathOf(name), kubeletRequest(machineCa, name, asked, shown, address));
  }
  std::string decisionOn(kj::StringPtr name) {
    auto request = KJ_ASSERT_NONNULL(model.find(pathOf(name)));
    std::string all;
    for (auto condition : kube::itemsAt(request, {"status", "conditions"})) {
      all += (*condition)["type"].get<std::string>() + ": " +
             (*condition)["message"].get<std::string>();
    }
    return all;
  }
  std::string awaitDecision(kj::StringPtr name) {
    eventually([&] { return !decisionOn(name).empty(); });
    return decisionOn(name);
  }
  size_t watches() {
    size_t count = 0;
    for (auto& one : model.asked) count += one.path.find("watch=true") != std::string::npos ? 1 : 0;
    return count;
  }
};

// Catches: a worker that is never admitted; a request for another node's name, or a control
// plane's, that is approved; a request that delays those after it.
TEST_F(Approvals, AreForTheNodesOwnName) {
  model.put(
      "/api/v1/nodes/master-1",
      {{"metadata",
        {{"name", "master-1"}, {"labels", {{"node-role.kubernetes.io/control-plane", ""}}}}}});
  put("a-other", "worker-2", "worker-1");
  put("b-master", "master-1", "master-1");
  model.put(
      "/api/v1/nodes/worker-3",
      {{"metadata", {{"name", "worker-3"}}},
       {"status",
        {{"addresses", kube::Json::array({{{"type", "InternalIP"}, {"address", "10.5.0.7"}}})}}}});
  put("b-second", "master-2", "master-2", "10.5.0.7");
  put("c-own", "worker-1", "worker-1");
  constexpr auto kApproved =
      "Approved: the node worker-1 has shown this name and the address 10.5.0.3 to trustd";
  EXPECT_EQ(awaitDecision("c-own"), kApproved);
  put("d-later", "worker-1", "worker-1");
  EXPECT_EQ(awaitDecision("d-later"), kApproved);
  EXPECT_EQ(decisionOn("a-other"), "");
  EXPECT_EQ(decisionOn("b-master"), "");
  EXPECT_EQ(decisionOn("b-second"), "") << "its machine is worker-3";
}

// Catches: a request that waits for the next list, minutes later, although the Node object that
// blocked it is gone.
TEST_F(Approvals, AreLookedAtAgain) {
  auto registered = [&](kj::StringPtr since) {
    model.put("/api/v1/nodes/old", nodeAt("old", "10.5.0.3", "Unknown", since));
  };
  registered("2999-01-01T00:00:00Z");
  put("own", "worker-1", "worker-1");
  auto asked = [&] {
    size_t lists = 0;
    for (auto& one : model.asked) lists += one.path.starts_with("/api/v1/nodes?") ? 1 : 0;
    return lists;
  };
  EXPECT_TRUE(eventually([&] { return asked() > 0; }));
  EXPECT_EQ(decisionOn("own"), "");
  registered("2026-01-01T00:00:00Z");
  EXPECT_EQ(awaitDecision("own"),
            "Approved: the node worker-1 has shown this name and the address 10.5.0.3 to trustd");
}

// Catches: workers that cannot join because a client with the bootstrap token has filled the list:
// with more requests than an answer may have, or with objects too large for a page.
TEST_F(Approvals, AreNotHeldUpByManyLargeRequests) {
  auto fill = [&](kj::StringPtr name, size_t bytes) {
    std::string request(bytes, 'A');
    model.put(pathOf(name), {{"metadata", {{"name", name.cStr()}}},
                             {"spec",
                              {{"request", request},
                               {"signerName", "kubernetes.io/kube-apiserver-client-kubelet"},
                               {"username", "system:bootstrap:abcdef"},
                               {"groups", {"system:bootstrappers"}},
                               {"usages", {"client auth"}}}}});
  };
  for (unsigned i = 0; i < 40; ++i) fill(kj::str("a-", 10 + i), 250u << 10);
  for (unsigned i = 0; i < 5; ++i) fill(kj::str("b-", i), 2u << 20);
  put("c-own", "worker-1", "worker-1");
  constexpr auto kApproved =
      "Approved: the node worker-1 has shown this name and the address 10.5.0.3 to trustd";
  EXPECT_EQ(awaitDecision("c-own"), kApproved);
  // A request too large for any answer cuts the list off, but not later requests.
  model.put(pathOf("d-0"), {{"metadata", {{"name", std::string(9u << 20, 'd')}}}});
  auto before = watches();
  changed.raise();
  EXPECT_TRUE(eventually([&] { return watches() > before; }));
  put("e-own", "worker-1", "worker-1");
  EXPECT_EQ(awaitDecision("e-own"), kApproved);
}

}  // namespace
}  // namespace talos::kubed
