// Audit records that machined gets from a real apid.
#include "apid/gate/test-apid.h"

namespace talos::apid {
namespace {

using Audit = testing::ApidTest;

// Catches: a call that leaves no record, or one on the wrong machine, or under the wrong name.
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

// Catches: refusals that only the machine in between knows of.
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

// Catches: a client that puts its deeds into somebody else's name.
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

// Catches: a change in maintenance mode that nobody is told of.
TEST_F(Audit, WithoutACertificateToo) {
  a.maintain(authority);
  a.startMachined();
  a.startApid();
  wait(a.identity.ready());
  auto own = pki::makeAuthority({});
  auto visitor =
      connect(a, {kj::str(authority.pair.certificate), kj::mv(own.certificate), kj::mv(own.key)});
  auto node = visitor.cluster.nodeRequest().send().getNode();
  auto request = node.configurationRequest().send().getConfiguration().applyRequest();
  request.initRequest().setDocument("secret"_kj.asBytes());
  wait(request.send().ignoreResult());
  ASSERT_EQ(a.model.audited.size(), 1u);
  EXPECT_EQ(a.model.audited[0],
            "@127.0.0.1 [] Configuration.apply(request: (document: 6 bytes)): ok"_kj);
}

}  // namespace
}  // namespace talos::apid
