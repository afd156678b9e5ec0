#include "machined/upgrade/node-duties.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "machined/resources/test-store.h"
#include "rpc/feature-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

struct NodeDutiesTest : StoreTest {
  ~NodeDutiesTest() noexcept override {}
  template <typename Spec, typename Fill>
  void add(kj::StringPtr id, Fill fill) {
    capnp::MallocMessageBuilder message;
    auto resource = message.initRoot<rpc::Resource>();
    auto metadata = resource.initMetadata();
    metadata.setType(typeName<Spec>());
    metadata.setId(id);
    metadata.setOwner("test");
    fill(resource.getSpec().initAs<Spec>());
    store.put(resource.asReader());
  }
  // Prints duties: "voter of etcd", "!pod a: it is not Ready", "~…" if the cause is elsewhere.
  std::vector<std::string> duties(const DutyFacts& facts) {
    std::vector<std::string> result;
    for (auto& duty : dutiesOf(store, facts)) {
      bool fails = duty.problem != nullptr;
      result.push_back((fails ? (duty.causedElsewhere ? "~" : "!") : "") +
                       std::string((fails ? describe(duty) : kj::str(duty.name)).cStr()));
    }
    return result;
  }
};

using Strings = std::vector<std::string>;

}  // namespace

// Catches: a service that crashes every few seconds and counts as up between two crashes.
TEST_F(NodeDutiesTest, AServiceThatFailedAMomentAgoFails) {
  DutyFacts facts;
  facts.services.add(DutyFacts::Service{.id = kj::str("apid"), .up = true});
  facts.services.add(
      DutyFacts::Service{.id = kj::str("kubelet"), .up = true, .failedAgo = 3 * kj::SECONDS});
  facts.services.add(
      DutyFacts::Service{.id = kj::str("timed"), .up = true, .failedAgo = 30 * kj::SECONDS});
  facts.services.add(DutyFacts::Service{.id = kj::str("vipd"), .up = false});
  EXPECT_EQ(duties(facts), (Strings{"service apid", "!service kubelet failed 3 s ago",
                                    "service timed", "!service vipd is not up"}));
}

// Catches: a learner, a member without a leader or a member that does not answer that counts as a
// voter; a loss of the majority that is taken for the node's own fault, or the reverse.
TEST_F(NodeDutiesTest, Etcd) {
  struct Row {
    const char* about;
    unsigned voters, answering;
    bool leader, voter, reached;
    const char* problem;
    const char* expected;
  };
  const Row rows[] = {
      {"well", 3, 2, true, true, true, "", "voter of etcd"},
      {"a learner", 3, 2, true, false, true, "", "!voter of etcd: it is a learner"},
      {"does not answer", 3, 2, true, true, true, "no", "!voter of etcd: no"},
      {"enough others", 3, 1, false, true, true, "", "!voter of etcd: the cluster has no leader"},
      {"too few others", 3, 0, false, true, true, "", "~voter of etcd: the cluster has no leader"},
      {"too few of five", 5, 1, false, true, true, "no", "~voter of etcd: no"},
      {"nobody reached", 3, 0, false, true, false, "", "!voter of etcd: the cluster has no leader"},
      {"alone", 1, 0, false, true, true, "", "!voter of etcd: the cluster has no leader"},
  };
  for (auto& row : rows) {
    DutyFacts facts;
    auto& etcd = facts.etcd.emplace();
    etcd.member = true;
    etcd.voters = row.voters;
    etcd.answering = row.answering;
    etcd.leader = row.leader;
    etcd.voter = row.voter;
    etcd.othersReached = row.reached;
    if (*row.problem != '\0') etcd.problems.add(kj::str(row.problem));
    EXPECT_EQ(duties(facts), Strings{row.expected}) << row.about;
  }
}

// Catches: members that are counted wrongly, so that the majority is wrong.
TEST(NodeDuties, FactsOfEtcd) {
  capnp::MallocMessageBuilder list;
  auto all = list.getRoot<capnp::AnyPointer>().initAs<capnp::List<rpc::Etcd::Member>>(4);
  all[0].setLocal(true);
  all[1].setProblem("connection refused");
  all[2].setLeader(true);
  all[3].setLearner(true);
  auto facts = etcdFactsOf(all.asReader());
  EXPECT_TRUE(facts.member && facts.voter && facts.leader && facts.othersReached);
  EXPECT_EQ(facts.voters, 3u);
  EXPECT_EQ(facts.answering, 1u);
  EXPECT_TRUE(facts.problems.empty());
  EXPECT_FALSE(isMajorityLost(facts));
}

// Catches: duties of Kubernetes, disks and the clock that are not checked; failed duties of
// Kubernetes that count as the node's fault although etcd has no majority.
TEST_F(NodeDutiesTest, Resources) {
  add<rpc::NodeStatusSpec>("node", [](auto spec) { spec.setMessage("waiting for the kubelet"); });
  add<rpc::LocalApiStatusSpec>("kube-apiserver", [](auto spec) { spec.setReady(true); });
  add<rpc::StaticPodStatusSpec>("kube-system/kube-apiserver-a", [](auto spec) {
    spec.setStatus(
        "conditions:\n- status: \"False\"\n  type: Ready\n- status: \"True\"\n  type: X\n");
  });
  add<rpc::TimeStatusSpec>("node", [](auto spec) { spec.setProblem("no server answers"); });
  add<rpc::VolumeStatusSpec>("EPHEMERAL", [](auto spec) { spec.setPhase("ready"); });
  add<rpc::VolumeStatusSpec>("STATE", [](auto spec) { spec.setPhase("failed"); });
  add<rpc::VolumeStatusSpec>("u-data", [](auto spec) { spec.setPhase("ready"); });
  add<rpc::VipStatusSpec>("10.5.0.9", [](auto spec) { spec.setState("waiting"); });
  EXPECT_EQ(duties({}), (Strings{"!Kubernetes node: waiting for the kubelet", "kube-apiserver",
                                 "!pod kube-system/kube-apiserver-a: it is not Ready",
                                 "!clock: no server answers", "volume EPHEMERAL",
                                 "!volume STATE: it is failed", "data volume u-data",
                                 "!shared address 10.5.0.9: it takes no part in the election"}));
  DutyFacts facts;
  auto& etcd = facts.etcd.emplace();
  etcd.member = etcd.voter = etcd.othersReached = true;
  etcd.voters = 3;
  auto found = duties(facts);
  EXPECT_EQ(found[0], "~voter of etcd: the cluster has no leader");
  EXPECT_EQ(found[1], "~Kubernetes node: waiting for the kubelet");
  EXPECT_EQ(found[4], "!clock: no server answers");
}

// Catches: a network that was incomplete before an upgrade, because of one link, and after which
// nothing of it counts any more; a lease that gives another address and fails therefore.
TEST_F(NodeDutiesTest, PartsOfTheNetwork) {
  add<rpc::NetworkStatusSpec>("status", [](auto spec) { spec.setConnectivityReady(true); });
  for (auto name : {"eth0", "dummy1"}) {
    add<rpc::LinkSpecSpec>(name, [&](auto spec) { spec.setName(name); });
  }
  add<rpc::LinkStatusSpec>("eth0", [](auto) {});
  add<rpc::OperatorSpecSpec>("eth0/dhcp4", [](auto) {});
  add<rpc::OperatorStatusSpec>("eth0/dhcp4",
                               [](auto spec) { spec.initAddresses(1).set(0, "10.5.0.2/24"); });
  for (auto address : {"10.5.0.2/24", "10.6.0.2/24"}) {
    add<rpc::AddressSpecSpec>(kj::str("x/", address), [&](auto spec) {
      spec.setAddress(address);
      spec.setLinkName("eth0");
    });
  }
  add<rpc::AddressStatusSpec>("eth0/10.5.0.2/24", [](auto) {});
  EXPECT_EQ(duties({}), Strings{}) << "an unknown network is no duty";
  DutyFacts facts;
  facts.network = DutyFacts::Network{kj::str("networkd has applied 1 of 2 spec versions")};
  EXPECT_EQ(
      duties(facts),
      (Strings{"!network: networkd has applied 1 of 2 spec versions", "default route",
               "lease eth0/dhcp4", "!link dummy1: it does not exist", "link eth0",
               "address 10.5.0.2/24 on eth0", "!address 10.6.0.2/24 on eth0: it does not exist"}));

  auto before = recordOf(dutiesOf(store, facts), kj::UNIX_EPOCH);
  auto failing = [&](kj::ArrayPtr<const Duty> now) {
    auto list = failingOf(before, now);
    return std::string(kj::strArray(KJ_MAP(d, list) { return describe(d); }, "; ").cStr());
  };
  EXPECT_EQ(failing(dutiesOf(store, facts)), "");
  DutyFacts complete;
  complete.network.emplace();
  EXPECT_EQ(duties(complete), Strings{"network"});
  EXPECT_EQ(failing(dutiesOf(store, complete)), "");
  EXPECT_EQ(failing(nullptr), "") << "another address of a lease has another name";
  store.destroy("network", typeName<rpc::LinkStatusSpec>(), "eth0", "test");
  EXPECT_EQ(failing(dutiesOf(store, facts)), "link eth0: it does not exist");
  // Catches: an upgrade that is rolled back because another host, which a probe asks, is down.
  add<rpc::ProbeSpecSpec>("tcp:192.0.2.1:22", [](auto) {});
  EXPECT_EQ(duties(facts)[1], "lease eth0/dhcp4");
}

// Catches: a duty of a pod that the config disables, or that it wants under another name of the
// node; one whose definition is only late, and is not missed; a config that was not read yet, and
// counts as one that wants nothing.
TEST_F(NodeDutiesTest, PodsOutOfTheScope) {
  DutyRecord before;
  for (auto name :
       {"Kubernetes node", "pod kube-system/kube-apiserver-a", "pod kube-system/kube-scheduler-a",
        "pod default/web-1-a", "pod default/web-a"}) {
    before.fulfilled.add(kj::str(name));
  }
  auto failing = [&]() {
    auto list = failingOf(before, dutiesOf(store, {}), dutyScopeOf(store));
    return std::string(kj::strArray(KJ_MAP(d, list) { return describe(d); }, "; ").cStr());
  };
  auto ready = [](auto spec) {
    spec.setStatus("conditions:\n- status: \"True\"\n  type: Ready\n");
  };
  EXPECT_EQ(failing(),
            "Kubernetes node: missing; pod kube-system/kube-apiserver-a: missing; "
            "pod kube-system/kube-scheduler-a: missing; pod default/web-1-a: missing; "
            "pod default/web-a: missing");
  add<rpc::NodeSpecSpec>("node", [](auto) {});
  add<rpc::NodeStatusSpec>("node", [](auto spec) { spec.setReady(true); });
  add<rpc::ControlPlaneConfigSpec>("kube-apiserver", [](auto spec) { spec.initApiServer(); });
  for (auto id : {"default-web", "default-web-1"}) add<rpc::StaticPodSpec>(id, [](auto) {});
  EXPECT_EQ(failing(),
            "pod kube-system/kube-apiserver-a: missing; pod default/web-1-a: missing; "
            "pod default/web-a: missing");
  add<rpc::StaticPodStatusSpec>("kube-system/kube-apiserver-b", ready);
  add<rpc::StaticPodStatusSpec>("default/web-b", ready);
  add<rpc::StaticPodStatusSpec>("default/web-1-b", [](auto) {});
  EXPECT_EQ(failing(), "pod default/web-1-b: it is not Ready");
}

// Catches: the Node object or a pod that a node must have although the config keeps it out of
// Kubernetes.
TEST_F(NodeDutiesTest, AnUnregisteredNodeHasNoDutyInKubernetes) {
  DutyRecord before;
  for (auto name : {"Kubernetes node", "pod kube-system/kube-apiserver-a", "clock"}) {
    before.fulfilled.add(kj::str(name));
  }
  add<rpc::NodeSpecSpec>("node", [](auto spec) { spec.setUnregistered(true); });
  add<rpc::StaticPodSpec>("kube-apiserver", [](auto) {});
  auto failing = failingOf(before, nullptr, dutyScopeOf(store));
  EXPECT_EQ(kj::strArray(KJ_MAP(d, failing) { return describe(d); }, "; "), "clock: missing");
}

// Catches: a condition of another type, or of another item, that makes a pod ready.
TEST(NodeDuties, PodReadiness) {
  EXPECT_TRUE(isPodReady("conditions:\n    - status: \"True\"\n      type: Ready\n"_kj.asArray()));
  EXPECT_TRUE(isPodReady("- type: Ready\n  status: \"True\""_kj.asArray()));
  for (auto text : {"", "- status: \"True\"\n  type: ContainersReady\n- type: Ready\n",
                    "- type: Ready\n  status: \"Unknown\"\n- status: \"True\"\n", "type: Ready"}) {
    EXPECT_FALSE(isPodReady(kj::StringPtr(text).asArray())) << text;
  }
}

// Catches: a duty that failed before an upgrade and has to be fulfilled after it; a fulfilled duty
// that need not be; a service of the old version that the new one lacks.
TEST(NodeDuties, FailingOf) {
  kj::Vector<Duty> before, now;
  auto add = [](kj::Vector<Duty>& to, kj::StringPtr name, bool fails = false) {
    Duty duty{.name = kj::str(name)};
    if (fails) duty.problem = kj::str("no");
    to.add(kj::mv(duty));
  };
  add(before, "clock", true);
  add(before, "service old");
  add(before, "volume A");
  add(before, "data volume u-data");
  add(before, "voter of etcd");
  add(before, "kube-apiserver");
  add(now, "clock", true);
  add(now, "voter of etcd", true);
  add(now, "kube-apiserver");
  add(now, "service new", true);
  auto began = kj::UNIX_EPOCH + 7 * kj::SECONDS;
  auto record = KJ_ASSERT_NONNULL(decodeDuties(encodeDuties(recordOf(before, began))));
  EXPECT_TRUE(record.upgrade == began);
  EXPECT_EQ(kj::strArray(record.failing, " "), "clock");
  kj::Vector<kj::String> failing;
  for (auto& duty : failingOf(record, now)) failing.add(describe(duty));
  EXPECT_EQ(kj::strArray(failing, ", "), "volume A: missing, voter of etcd: no");
}

// Catches: a rollback to an older system that is never confirmed, because the newer one has
// recorded a duty that the older one does not know.
TEST(NodeDuties, ADutyOfALaterReleaseIsNoneOfThisOne) {
  DutyRecord before;
  for (auto name :
       {"attested TPM", "witness of etcd", "clock", "volume A", "pod a/b", "Kubernetes node",
        "kube-apiserver", "voter of etcd", "shared address 10.5.0.9"}) {
    before.fulfilled.add(kj::str(name));
  }
  kj::Vector<kj::String> failing;
  for (auto& duty : failingOf(before, nullptr)) failing.add(kj::mv(duty.name));
  EXPECT_EQ(kj::strArray(failing, ", "),
            "clock, volume A, pod a/b, Kubernetes node, kube-apiserver, voter of etcd, "
            "shared address 10.5.0.9");
}

// Catches: a static pod with a long name, because of which all other duties are lost.
TEST(NodeDuties, OneOfALongNameIsRecorded) {
  auto longest = kj::str("pod ", kj::repeat('n', 63), "/", kj::repeat('p', 253));
  auto endless = kj::str("pod ", kj::repeat('x', 2000));
  kj::Vector<Duty> duties;
  for (kj::StringPtr name : {"clock"_kj, longest.asPtr(), endless.asPtr()}) {
    duties.add(Duty{.name = kj::str(name)});
  }
  auto record = KJ_ASSERT_NONNULL(decodeDuties(encodeDuties(recordOf(duties, kj::UNIX_EPOCH))));
  EXPECT_EQ(kj::strArray(record.fulfilled, " "), kj::str("clock ", longest));
}

// Catches: a damaged or truncated record that is read beyond its end, or stops a boot.
TEST(NodeDuties, DamagedRecords) {
  Duty duty{.name = kj::str("clock")};
  auto bytes = encodeDuties(recordOf(kj::arrayPtr(&duty, 1), kj::UNIX_EPOCH));
  for (size_t size = 0; size < bytes.size(); size += 4) {
    (void)decodeDuties(bytes.slice(0, size));  // as ASan sees it
  }
  EXPECT_TRUE(decodeDuties("no record, for sure"_kj.asArray()) == nullptr);
  EXPECT_TRUE(decodeDuties(nullptr) == nullptr);
}

}  // namespace talos::machined
