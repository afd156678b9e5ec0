#include "machined/screen/screen-controller.h"

#include <gtest/gtest.h>

#include "common/base/version.h"
#include "common/tls/pki.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {
namespace {

struct ScreenControllerTest : public StoreTest {
  ~ScreenControllerTest() noexcept override {}
  ScreenFacts shown;
  kj::String sequence = kj::str("boot: startServices");
  ScreenController controller{
      true, [this]() { return ScreenController::Progress{kj::str("running"), kj::str(sequence)}; },
      [this](ScreenFacts facts) { shown = kj::mv(facts); }};

  template <typename Spec>
  void record(kj::StringPtr id, kj::Function<void(typename Spec::Builder)> fill) {
    putRecord<Spec>(store, id, [&](typename Spec::Builder spec) { fill(spec); });
  }
  ScreenFacts& look() {
    controller.reconcile(store).wait(scope);
    return shown;
  }
};

// Catches: a fact that never gets to the screen.
TEST_F(ScreenControllerTest, ShowsWhatTheRecordsSay) {
  record<rpc::HostnameSpecSpec>("hostname", [](auto spec) { spec.setHostname("master-1"); });
  record<rpc::NodeAddressSpec>("current", [](auto spec) {
    auto list = spec.initAddresses(3);
    list.set(0, "10.5.0.2/24");
    list.set(1, "127.0.0.1/8");
    list.set(2, "fe80::1/64");
  });
  record<rpc::MachineTypeSpec>("machine-type",
                               [](auto spec) { spec.setType(rpc::MachineType::CONTROLPLANE); });
  record<rpc::ServiceSpec>("apid", [](auto spec) { spec.setRunning(true), spec.setHealthy(true); });
  record<rpc::ServiceSpec>("etcd", [](auto spec) { spec.setRunning(true); });
  record<rpc::MachineStatusSpec>("machine", [](auto spec) {
    spec.setStage("running");
    spec.initProblems(1).set(0, "service etcd is not healthy");
    spec.setRevertsAt("2026-11-26T12:00:40Z");
  });
  record<rpc::EtcdStatusSpec>("etcd", [](auto spec) {
    spec.setPhase("waiting");
    spec.setMessage("nobody has run talosctl bootstrap");
  });
  record<rpc::NodeStatusSpec>("node", [](auto spec) {
    spec.setUnschedulable(true);
    spec.setMessage("kubelet is starting");
  });
  auto certificate = pki::makeAuthority({.organization = "talos"}).certificate;
  record<rpc::ApiCertificateSpec>(
      "api", [&](auto spec) { spec.initServer().setCrt(certificate.asBytes()); });
  record<rpc::VipStatusSpec>("10.5.0.50", [](auto spec) {
    spec.setState("waiting");
    spec.setHolder("master-2");
  });
  auto& facts = look();
  EXPECT_EQ(facts.hostname, "master-1"_kj);
  ASSERT_EQ(facts.addresses.size(), 1u);
  EXPECT_EQ(facts.addresses[0], "10.5.0.2"_kj);
  EXPECT_EQ(facts.role, "control plane"_kj);
  EXPECT_EQ(facts.servicesUp, 1u);
  EXPECT_EQ(facts.services, 2u);
  ASSERT_EQ(facts.problems.size(), 2u);
  EXPECT_EQ(facts.problems[1], "etcd: nobody has run talosctl bootstrap"_kj);
  EXPECT_EQ(facts.shared, "10.5.0.50 is on master-2"_kj);
  EXPECT_EQ(facts.progress, "boot: startServices"_kj);
  EXPECT_EQ(facts.stage, "running"_kj);
  EXPECT_EQ(facts.revertsAt, "2026-11-26T12:00:40Z"_kj);
  EXPECT_EQ(facts.kubernetes, "not Ready, cordoned: kubelet is starting"_kj);
  EXPECT_EQ(facts.fingerprint, pki::fingerprint(certificate));
  EXPECT_EQ(facts.version, buildVersion().tag);
}

TEST_F(ScreenControllerTest, AMemberOfEtcdSaysWhoLeadsAndHowManyMayFail) {
  record<rpc::EtcdStatusSpec>("etcd", [](auto spec) {
    spec.setPhase("member");
    spec.setLeader("master-2");
    spec.setVoters(3);
    spec.setTolerates(1);
    spec.setMessage("a message of a member is no problem");
  });
  record<rpc::VipStatusSpec>("10.5.0.50", [](auto spec) { spec.setState("holder"); });
  auto& facts = look();
  EXPECT_EQ(facts.etcd, "member; the leader is master-2; 1 of 3 may fail"_kj);
  EXPECT_TRUE(facts.problems.empty());
  EXPECT_EQ(facts.shared, "10.5.0.50 is here"_kj);
}

// Catches: links of pods that hide those of the machine; a route that is no gateway.
TEST_F(ScreenControllerTest, ShowsTheNetworkOfTheMachine) {
  auto putLink = [&](kj::StringPtr name, kj::StringPtr kind, bool up, bool carrier) {
    record<rpc::LinkStatusSpec>(name, [&](auto spec) {
      spec.setType("ether");
      spec.setKind(kind);
      spec.setLinkState(carrier);
      spec.setHardwareAddress("52:54:00:12:34:56");
      if (up) spec.initFlags(1).set(0, "UP");
    });
  };
  putLink("eth0", "", true, true);
  putLink("eth1", "", true, false);
  putLink("eth2", "", false, false);
  putLink("veth12", "veth", true, true);
  record<rpc::AddressStatusSpec>("eth0/10.5.0.2/24", [](auto spec) {
    spec.setLinkName("eth0");
    spec.setAddress("10.5.0.2/24");
  });
  record<rpc::RouteStatusSpec>("default", [](auto spec) {
    spec.setGateway("10.5.0.1");
    spec.setLinkName("eth0");
    spec.setTable("main");
  });
  record<rpc::RouteStatusSpec>("other", [](auto spec) {
    spec.setDestination("10.9.0.0/16");
    spec.setGateway("10.5.0.9");
    spec.setTable("main");
  });
  record<rpc::NetworkStatusSpec>(
      "status", [](auto spec) { spec.initProblems(1).set(0, "cannot make bond0"); });
  auto& facts = look();
  std::string text;
  for (auto& link : facts.links) {
    text +=
        kj::str(link.name, ' ', link.state, ' ', kj::strArray(link.addresses, ","), "; ").cStr();
  }
  EXPECT_EQ(text, "eth0 up 10.5.0.2/24; eth1 no carrier ; eth2 down ; ");
  EXPECT_EQ(kj::strArray(facts.gateways, ","), "10.5.0.1 on eth0"_kj);
  EXPECT_EQ(kj::strArray(facts.networkProblems, ","), "cannot make bond0"_kj);
}

// A running sequence has precedence over a waiting upgrade; an ended one is not shown.
TEST_F(ScreenControllerTest, ShowsTheProgressOfAnUpgradeWhileItIsUnderWay) {
  sequence = kj::String();
  record<rpc::UpgradeStatusSpec>("node", [](auto spec) {
    spec.setStage("writing");
    spec.setTarget("B v0.101.0");
    spec.setReason("62 of 92 MB");
  });
  EXPECT_EQ(look().progress, "upgrade: writing of B v0.101.0, 62 of 92 MB"_kj);
  sequence = kj::str("reset: wipe");
  EXPECT_EQ(look().progress, "reset: wipe"_kj);
}

TEST_F(ScreenControllerTest, AnEndedUpgradeIsNoProgress) {
  sequence = kj::String();
  record<rpc::UpgradeStatusSpec>("node", [](auto spec) { spec.setStage("done"); });
  EXPECT_EQ(look().progress, ""_kj);
}

}  // namespace
}  // namespace talos::machined
