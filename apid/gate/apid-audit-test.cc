// Audit records that machined gets from a real apid.
#include "apid/gate/test-apid.h"
#include "common/base/waits.h"

namespace talos::apid {
namespace {

using Audit = testing::ApidTest;

// Catches: a call without a record, or with a record on the wrong machine, or under the wrong name.
TEST_F(Audit, OnTheMachineThatTheCallWasFor) {
  start(a);
  start(b);
  auto session = connectAs(a, {"os:operator"});
  wait(machine(session.cluster).rebootRequest().send().ignoreResult());
  ASSERT_EQ(a.model.audited.size(), 1u);
  EXPECT_EQ(a.model.audited[0], "someone@127.0.0.1 [os:operator] Machine.reboot(): ok"_kj);
  wait(machine(session.cluster, "10.0.0.2").rebootRequest().send().ignoreResult());
  EXPECT_EQ(a.model.audited.size(), 1u);
  ASSERT_EQ(b.model.audited.size(), 1u);
  EXPECT_EQ(b.model.audited[0],
            "someone@127.0.0.1 via 127.0.0.1 [os:operator] Machine.reboot(): ok"_kj);
  EXPECT_EQ(version(machine(session.cluster)), "node 10.0.0.1"_kj);
  EXPECT_EQ(a.model.audited.size(), 1u);  // nothing was changed
}

// Catches: refusals that only the forwarding machine records.
TEST_F(Audit, RefusedCallsToo) {
  start(a);
  start(b);
  auto session = connectAs(a, {"os:reader"});
  rebootFailure(machine(session.cluster, "10.0.0.2"));
  EXPECT_EQ(a.model.audited.size(), 0u);
  ASSERT_EQ(b.model.audited.size(), 1u);
  EXPECT_EQ(b.model.audited[0],
            "someone@127.0.0.1 via 127.0.0.1 [os:reader] Machine.reboot(): PermissionDenied: "
            "Machine.reboot needs the role os:operator; this caller has os:reader"_kj);
}

// Catches: a client whose calls are recorded under another client's name.
TEST_F(Audit, OnlyAnotherMachineSpeaksForOthers) {
  start(a);
  auto as = [&](rpc::Cluster::Client cluster) {
    auto request = cluster.withRolesRequest();
    request.initRoles(1).set(0, "os:admin");
    request.initCaller().setName("somebody else");
    request.getCaller().setAddress("192.0.2.1");
    wait(machine(request.send().getCluster()).rebootRequest().send().ignoreResult());
    return kj::mv(a.model.audited.back());
  };
  EXPECT_EQ(as(connectAs(a, {"os:admin"}).cluster),
            "someone@127.0.0.1 [os:admin] Machine.reboot(): ok"_kj);
  EXPECT_EQ(as(connectAs(a, {"os:impersonator"}).cluster),
            "somebody else@192.0.2.1 via 127.0.0.1 [os:admin] Machine.reboot(): ok"_kj);
  EXPECT_EQ(as(connectAs(a, {"os:impersonator", "os:admin"}).cluster),
            "someone@127.0.0.1 [os:admin] Machine.reboot(): ok"_kj);
}

// Catches: a request whose id gets lost on its way to machined, to another node or to the audit
// log; two requests with one id.
TEST_F(Audit, ARequestHasOneIdEverywhere) {
  start(a);
  start(b);
  auto session = connectAs(a, {"os:operator"});
  auto reboot = [&](kj::StringPtr address, kj::StringPtr id) {
    auto asked = session.cluster.nodeRequest();
    asked.setAddress(address);
    asked.setRequest(id);
    auto node = asked.send().getNode();
    wait(node.machineRequest().send().getMachine().rebootRequest().send().ignoreResult());
  };
  reboot("", "mine-1");
  EXPECT_EQ(a.model.requests.back(), "mine-1"_kj);
  EXPECT_EQ(a.model.recorded.back(), "mine-1"_kj);
  reboot("10.0.0.2", "mine-2");
  EXPECT_EQ(b.model.requests.back(), "mine-2"_kj);
  EXPECT_EQ(b.model.recorded.back(), "mine-2"_kj);
  reboot("", "not an id");
  EXPECT_EQ(a.model.requests.back(), "a91d-1"_kj);
  EXPECT_EQ(a.model.recorded.back(), "a91d-1"_kj);
  reboot("", "");
  EXPECT_EQ(a.model.recorded.back(), "a91d-2"_kj);
  reboot("10.0.0.2", "");  // made by the first apid, not by the second
  EXPECT_EQ(b.model.recorded.back(), "a91d-3"_kj);
}

// Catches: a refusal that cannot be found by the client's id.
TEST_F(Audit, ADeniedCallNamesItsRequest) {
  start(a);
  auto session = connectAs(a, {"os:reader"});
  auto asked = session.cluster.nodeRequest();
  asked.setRequest("mine-3");
  auto machine = asked.send().getNode().machineRequest().send().getMachine();
  ::testing::internal::CaptureStderr();
  rebootFailure(machine);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("request=mine-3 method=Machine.reboot"),
            std::string::npos);
}

// Catches: a request that `debug stack apid` does not name while it is in progress, or names after
// its end.
TEST_F(Audit, ARequestIsListedWhileItsNodeIsHeld) {
  start(a);
  start(b);
  auto session = connectAs(a, {"os:reader"});
  auto listed = [&](kj::StringPtr text) {
    bool found = false;
    Wait::forEach([&](const char* wait, uint64_t) { found = found || text == wait; });
    return found;
  };
  auto own = "request mine-4 of someone, 127.0.0.1"_kj;
  auto other = "request mine-4 of someone, 127.0.0.1 to 10.0.0.2"_kj;
  {
    auto hold = [&](kj::StringPtr address) {
      auto asked = session.cluster.nodeRequest();
      asked.setAddress(address);
      asked.setRequest("mine-4");
      auto machine = asked.send().getNode().machineRequest().send().getMachine();
      version(machine);
      return machine;
    };
    auto first = hold(""), second = hold("10.0.0.2");
    EXPECT_TRUE(listed(own));
    EXPECT_TRUE(listed(other));
  }
  while (listed(own) || listed(other)) wait(timer.afterDelay(1 * kj::MILLISECONDS));
}

// Catches: a change in maintenance mode that is missing in the audit log, or that cannot be found
// in a log of the node.
TEST_F(Audit, WithoutACertificateToo) {
  a.maintain(authority);
  a.startMachined();
  a.startApid();
  wait(a.identity.ready());
  auto own = pki::makeAuthority({});
  auto visitor =
      connect(a, {kj::str(authority.pair.certificate), kj::mv(own.certificate), kj::mv(own.key)});
  auto apply = [&](kj::StringPtr id) {
    auto asked = visitor.cluster.nodeRequest();
    asked.setRequest(id);
    auto node = asked.send().getNode();
    auto request = node.configurationRequest().send().getConfiguration().applyRequest();
    request.initRequest().setDocument("secret"_kj.asBytes());
    wait(request.send().ignoreResult());
    return kj::str(a.model.requests.back());
  };
  EXPECT_EQ(apply("mine-5"), "mine-5"_kj);
  ASSERT_EQ(a.model.audited.size(), 1u);
  EXPECT_EQ(apply(""), "a91d-1"_kj);
  EXPECT_EQ(a.model.audited[0],
            "@127.0.0.1 [] Configuration.apply(request: (document: 6 bytes)): ok"_kj);
  ASSERT_EQ(a.model.recorded.size(), 2u);
  EXPECT_EQ(a.model.recorded[0], "mine-5"_kj);
  EXPECT_EQ(a.model.recorded[1], "a91d-1"_kj);
}

}  // namespace
}  // namespace talos::apid
