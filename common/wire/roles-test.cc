#include "common/wire/roles.h"

#include <capnp/rpc-twoparty.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "rpc/node.capnp.h"

namespace talos {
namespace {

// A node whose machine counts the calls that reach it, and whose log writes as much as its reader
// accepts.
class FakeMachine final : public rpc::Machine::Server {
 public:
  explicit FakeMachine(unsigned& reboots) : reboots(reboots) {}

 protected:
  kj::Promise<void> version(VersionContext context) override {
    context.getResults().setTag("v1");
    return kj::READY_NOW;
  }
  kj::Promise<void> reboot(RebootContext context) override {
    ++reboots;
    return kj::READY_NOW;
  }

 private:
  unsigned& reboots;
};

class FakeLogs final : public rpc::Logs::Server {
 public:
  explicit FakeLogs(unsigned& sent) : sent(sent) {}

 protected:
  kj::Promise<void> read(ReadContext context) override {
    auto sink = context.getParams().getSink();
    auto line = kj::heapArray<kj::byte>(16384);
    for (unsigned i = 0; i < 400; i++) {
      auto request = sink.writeRequest();
      request.setBytes(line);
      request.setNext(i + 1);
      co_await request.send();
      ++sent;
    }
  }

 private:
  unsigned& sent;
};

class FakeNode final : public rpc::Node::Server {
 public:
  FakeNode(unsigned& reboots, unsigned& sent) : reboots(reboots), sent(sent) {}

 protected:
  kj::Promise<void> machine(MachineContext context) override {
    context.getResults().setMachine(kj::heap<FakeMachine>(reboots));
    return kj::READY_NOW;
  }
  kj::Promise<void> logs(LogsContext context) override {
    context.getResults().setLogs(kj::heap<FakeLogs>(sent));
    return kj::READY_NOW;
  }

 private:
  unsigned& reboots;
  unsigned& sent;
};

class SlowSink final : public rpc::LogSink::Server {
 public:
  explicit SlowSink(kj::ForkedPromise<void>& gate, unsigned& got) : gate(gate), got(got) {}

 protected:
  kj::Promise<void> write(WriteContext context) override {
    co_await gate.addBranch();
    ++got;
  }

 private:
  kj::ForkedPromise<void>& gate;
  unsigned& got;
};

struct Roles : testing::Test {
  ~Roles() noexcept override {}
  kj::AsyncIoContext io = kj::setupAsyncIo();
  Rules rules{capnp::Schema::from<rpc::Cluster>()};
  unsigned reboots = 0, sent = 0;
  kj::Vector<kj::String> refused;

  rpc::Node::Client nodeFor(kj::Array<kj::String> held) {
    return attenuate(rules, rpc::Node::Client(kj::heap<FakeNode>(reboots, sent)), kj::mv(held),
                     [this](kj::StringPtr method, kj::StringPtr needed) {
                       refused.add(kj::str(method, " ", needed));
                     })
        .castAs<rpc::Node>();
  }
  kj::Exception failureOf(kj::Promise<void> promise) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { promise.wait(io.waitScope); })) {
      return kj::mv(*e);
    }
    return KJ_EXCEPTION(FAILED, "nothing failed");
  }
};

// Catches: a reader that may change the machine; a refusal that is not reported or not explained.
TEST_F(Roles, ReaderMayReadOnly) {
  auto node = nodeFor(kj::arr(kj::str("os:reader")));
  auto machine = node.machineRequest().send().getMachine();
  EXPECT_EQ(machine.versionRequest().send().wait(io.waitScope).getTag(), "v1"_kj);

  auto e = failureOf(machine.rebootRequest().send().ignoreResult());
  EXPECT_EQ(kindOf(e), ErrorKind::kPermissionDenied);
  EXPECT_EQ(messageOf(e),
            "Machine.reboot needs the role os:operator; this caller has os:reader"_kj);
  EXPECT_EQ(reboots, 0u);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0], "Machine.reboot os:operator"_kj);
}

TEST_F(Roles, AdminMayAll) {
  auto machine = nodeFor(kj::arr(kj::str("os:admin"))).machineRequest().send().getMachine();
  machine.rebootRequest().send().wait(io.waitScope);
  machine.versionRequest().send().wait(io.waitScope);
  EXPECT_EQ(reboots, 1u);
  EXPECT_EQ(refused.size(), 0u);
}

// Catches: an unknown role, or no role, taken for one that may read.
TEST_F(Roles, OtherRolesMayNothing) {
  for (auto role : {"os:impersonator"_kj, "os:etcd:backup"_kj, "admin"_kj, "OS:ADMIN"_kj, ""_kj}) {
    auto node = nodeFor(kj::arr(kj::str(role)));
    EXPECT_EQ(kindOf(failureOf(node.machineRequest().send().ignoreResult())),
              ErrorKind::kPermissionDenied)
        << role.cStr();
  }
  auto e = failureOf(nodeFor(nullptr).machineRequest().send().ignoreResult());
  EXPECT_EQ(messageOf(e), "Node.machine needs the role os:reader; this caller has none"_kj);
}

// Catches: a role that includes too much or too little.
TEST(RolesInclude, Table) {
  constexpr kj::StringPtr kNeeded[] = {kRoleAdmin, kRoleOperator, kRoleReader, kRoleEtcdBackup};
  struct Row {
    kj::StringPtr held;
    bool may[4];
  };
  for (auto& row :
       {Row{kRoleAdmin, {true, true, true, true}}, Row{kRoleOperator, {false, true, true, false}},
        Row{kRoleReader, {false, false, true, false}},
        Row{kRoleEtcdBackup, {false, false, false, true}},
        Row{kRoleImpersonator, {false, false, false, false}},
        Row{"os:", {false, false, false, false}},
        Row{"os:administrator", {false, false, false, false}}}) {
    kj::String held[] = {kj::str(row.held)};
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(permits(held, kNeeded[i]), row.may[i])
          << row.held.cStr() << " for " << kNeeded[i].cStr();
    }
  }
  EXPECT_FALSE(permits(nullptr, kRoleReader));
  kj::String both[] = {kj::str(kRoleReader), kj::str(kRoleEtcdBackup)};
  EXPECT_TRUE(permits(both, kRoleEtcdBackup));
  EXPECT_FALSE(permits(both, kRoleOperator));
}

TEST(RolesInclude, OnlyKnownOnesCanBeGiven) {
  checkClientRoles(kj::arr(kj::str("os:reader"), kj::str("os:etcd:backup")), "--roles");
  for (auto wrong : {"os:impersonator"_kj, "os:root"_kj, "admin"_kj, ""_kj}) {
    auto e = kj::runCatchingExceptions(
        [&] { checkClientRoles(kj::arr(kj::str("os:admin"), kj::str(wrong)), "--roles"); });
    EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(e)),
              kj::str("--roles: \"", wrong,
                      "\" is not a valid role; use os:admin, os:operator, "
                      "os:reader, os:etcd:backup"));
  }
}

// Catches: a role for backups that cannot make a backup, because it may not even reach the method;
// a role that reaches further methods.
TEST_F(Roles, ABackupGetsToItsSnapshotAndNoFurther) {
  auto held = kj::arr(kj::str(kRoleEtcdBackup));
  struct Row {
    uint64_t interface;
    uint16_t method;
    kj::StringPtr name;
    bool may;
  } rows[] = {{capnp::typeId<rpc::Cluster>(), 0, "Cluster.node", true},
              {capnp::typeId<rpc::Cluster>(), 1, "Cluster.withRoles", true},
              {capnp::typeId<rpc::Node>(), 12, "Node.etcd", true},
              {capnp::typeId<rpc::Etcd>(), 6, "Etcd.snapshot", true},
              {capnp::typeId<rpc::Etcd>(), 0, "Etcd.members", false},
              {capnp::typeId<rpc::Node>(), 0, "Node.machine", false}};
  for (auto& row : rows) {
    auto rule = rules.find(row.interface, row.method);
    EXPECT_EQ(row.name, rule.method);
    EXPECT_EQ(row.may, permits(held, rule.needed)) << row.name.cStr();
    EXPECT_EQ(row.name != "Etcd.snapshot", permits(kj::arr(kj::str(kRoleReader)), rule.needed))
        << row.name.cStr();
  }
}

// Catches: a new method without the annotation that every client may call.
TEST_F(Roles, MethodWithoutAnnotationNeedsAdmin) {
  EXPECT_EQ(rules.find(capnp::typeId<rpc::Files>(), 2).needed, kRoleAdmin);  // no $allow
  auto rule = rules.find(capnp::typeId<rpc::Services>(), 3);
  EXPECT_EQ(rule.method, "Services.restart"_kj);
  EXPECT_EQ(rule.needed, kRoleOperator);
  EXPECT_EQ(rules.find(capnp::typeId<rpc::Services>(), 99).needed, kRoleAdmin);
  EXPECT_EQ(rules.find(0x1234, 0).method, "method 0 of interface 0x1234"_kj);
  EXPECT_EQ(rules.find(0x1234, 0).needed, kRoleAdmin);
}

// A client over a real connection, as apid serves it.
struct Wire {
  kj::TwoWayPipe pipe;
  capnp::TwoPartyServer server;
  kj::Promise<void> serving;
  capnp::TwoPartyClient client;
  Wire(kj::AsyncIoContext& io, capnp::Capability::Client bootstrap)
      : pipe(io.provider->newTwoWayPipe()),
        server(kj::mv(bootstrap)),
        serving(server.accept(*pipe.ends[0]).eagerlyEvaluate(nullptr)),
        client(*pipe.ends[1]) {}
};

// Catches: a refusal that takes the whole connection down, or that pipelined calls slip past.
TEST_F(Roles, RefusalOverTheWireLeavesTheConnection) {
  Wire wire(io, nodeFor(kj::arr(kj::str("os:reader"))));
  auto node = wire.client.bootstrap().castAs<rpc::Node>();
  auto denied = node.sensitiveResourcesRequest().send();
  auto pipelined = denied.getResources().typesRequest().send();
  auto machine = node.machineRequest().send().getMachine();
  auto reboot = machine.rebootRequest().send();
  auto version = machine.versionRequest().send();

  EXPECT_EQ(kindOf(failureOf(pipelined.ignoreResult())), ErrorKind::kPermissionDenied);
  EXPECT_EQ(kindOf(failureOf(denied.ignoreResult())), ErrorKind::kPermissionDenied);
  EXPECT_EQ(kindOf(failureOf(reboot.ignoreResult())), ErrorKind::kPermissionDenied);
  EXPECT_EQ(version.wait(io.waitScope).getTag(), "v1"_kj);
  EXPECT_EQ(reboots, 0u);
}

// Catches: a sink that is refused its own calls, and a membrane that swallows the back pressure.
TEST_F(Roles, SinkWorksAndKeepsFlowControl) {
  Wire wire(io, nodeFor(kj::arr(kj::str("os:reader"))));
  auto gate = kj::newPromiseAndFulfiller<void>();
  auto opened = gate.promise.fork();
  unsigned got = 0;
  auto request =
      wire.client.bootstrap().castAs<rpc::Node>().logsRequest().send().getLogs().readRequest();
  request.setSink(kj::heap<SlowSink>(opened, got));
  auto reading = request.send();
  io.waitScope.poll();
  EXPECT_EQ(got, 0u);
  EXPECT_LT(sent, 40u);  // 6.4 MB were sent if nothing held the writer
  gate.fulfiller->fulfill();
  reading.wait(io.waitScope);
  EXPECT_EQ(got, 400u);
  EXPECT_EQ(refused.size(), 0u);
}

// Catches: a change of the schema that opens or closes a method. Change this list only on purpose.
TEST(RolesTable, EveryMethodIsListed) {
  constexpr const char* kReader[] = {
      "Events.watch",
      "Files.diskUsage",
      "Files.list",
      "Logs.kernel",
      "Logs.list",
      "Logs.read",
      "Machine.memory",
      "Machine.mounts",
      "Machine.processes",
      "Machine.stats",
      "Machine.previewReset",
      "Machine.status",
      "Machine.version",
      "Network.interfaces",
      "Network.routes",
      "Machine.time",
      "Node.configuration",
      "Node.storage",
      "Storage.disks",
      "Node.events",
      "Node.files",
      "Node.logs",
      "Node.machine",
      "Node.network",
      "Node.resources",
      "Node.services",
      "Resources.get",
      "Resources.list",
      "Resources.types",
      "Resources.watch",
      "Services.list",
      "Logs.previous",
      "Events.previous",
      "Node.containers",
      "Containers.images",
      "Containers.list",
      "Containers.logs",
      "Containers.stats",
      "Node.upgrades",
      "Etcd.alarms",
      "Etcd.bootstrapState",
      "Etcd.joinTokens",
      "Etcd.members",
      "Etcd.status",
      "Kubernetes.survey",
      "Node.kubernetes",
      "Machine.cgroups",
      "Machine.netstat",
      "Machine.dependencies",
      "Machine.counters",
      "Machine.samples",
      "Kubernetes.aggregation",
  };
  constexpr const char* kOperator[] = {
      "Machine.reboot",       "Machine.shutdown", "Services.kill",      "Services.restart",
      "Services.start",       "Services.stop",    "Containers.pull",    "Containers.restart",
      "Services.setLogLevel", "Services.stack",   "Services.keepCores", "Services.removeCrash",
  };
  // Sinks and sources are the caller's own: their rule is never used.
  constexpr const char* kAdmin[] = {
      "ByteSink.write",
      "ByteSource.read",
      "Configuration.apply",
      "Configuration.generate",
      "Etcd.bootstrap",
      "Etcd.createJoinToken",
      "Etcd.defragment",
      "Etcd.disarm",
      "Etcd.forfeitLeadership",
      "Etcd.keepSnapshot",
      "Etcd.leave",
      "Etcd.removeInitializedKey",
      "Etcd.removeMember",
      "Etcd.revokeJoinToken",
      "Etcd.secretsNotUnder",
      "EventSink.events",
      "EventSink.missed",
      "FileSink.files",
      "Files.copy",
      "Files.read",
      "Kubernetes.forgetClientCa",
      "Kubernetes.rewriteSecrets",
      "Kubernetes.tokensOfOtherKeys",
      "Kubernetes.tryClient",
      "LogSink.missed",
      "LogSink.write",
      "Machine.clientCertificate",
      "Machine.kubeconfig",
      "Machine.reset",
      "Network.capture",
      "Node.sensitiveResources",
      "ResourceSink.changes",
      "ResourceSink.lagged",
      "ResourceSink.snapshot",
      "Services.core",
      "SnapshotUpload.done",
      "SnapshotUpload.write",
      "Storage.deleteMeta",
      "Storage.newRecoveryKey",
      "Storage.readMeta",
      "Storage.wipe",
      "Storage.writeMeta",
      "Upgrades.confirm",
      "Upgrades.fetch",
      "Upgrades.rollback",
      "Upgrades.upgrade",
      "UsageSink.usages",
  };
  kj::TreeMap<kj::String, kj::StringPtr> expected;
  for (auto method : {"Cluster.node"_kj, "Cluster.withRoles"_kj, "Node.etcd"_kj}) {
    expected.insert(kj::str(method), "os:reader or os:etcd:backup"_kj);
  }
  for (auto method : kReader) expected.insert(kj::str(method), kRoleReader);
  for (auto method : kOperator) expected.insert(kj::str(method), kRoleOperator);
  for (auto method : kAdmin) expected.insert(kj::str(method), kRoleAdmin);
  expected.insert(kj::str("Etcd.snapshot"), kRoleEtcdBackup);

  auto rules = Rules(capnp::Schema::from<rpc::Cluster>()).all();
  kj::Vector<kj::StringPtr> open;     // to every client, if there is no config
  kj::Vector<kj::StringPtr> audited;  // each call is recorded
  for (auto& rule : rules) {
    if (rule.audit) audited.add(rule.method);
    if (rule.maintenance) open.add(rule.method);
    KJ_IF_MAYBE (needed, expected.find(rule.method)) {
      EXPECT_EQ(rule.needed, *needed) << rule.method.cStr();
    } else {
      ADD_FAILURE() << rule.method.cStr() << " is not listed here";
    }
  }
  EXPECT_EQ(rules.size(), expected.size());
  EXPECT_EQ(
      "Cluster.node Configuration.apply Configuration.generate Machine.status Machine.version "
      "Network.interfaces Node.configuration Node.machine Node.network Node.storage Storage.disks",
      kj::strArray(open, " "));
  EXPECT_EQ(
      "Configuration.apply Configuration.generate Containers.pull Containers.restart "
      "Etcd.bootstrap Etcd.createJoinToken Etcd.defragment Etcd.disarm Etcd.forfeitLeadership "
      "Etcd.leave Etcd.removeInitializedKey Etcd.removeMember Etcd.revokeJoinToken "
      "Etcd.snapshot Files.copy Files.read Kubernetes.forgetClientCa Kubernetes.rewriteSecrets "
      "Kubernetes.tryClient "
      "Machine.clientCertificate Machine.kubeconfig Machine.reboot Machine.reset "
      "Machine.shutdown Network.capture "
      "Services.core Services.keepCores Services.kill Services.removeCrash Services.restart "
      "Services.setLogLevel Services.stack Services.start Services.stop "
      "SnapshotUpload.done "
      "Storage.deleteMeta Storage.newRecoveryKey Storage.readMeta Storage.wipe Storage.writeMeta "
      "Upgrades.confirm Upgrades.fetch Upgrades.rollback Upgrades.upgrade",
      kj::strArray(audited, " "));
}

// Catches: a new method for operators or administrators that is missing in the audit log although
// it reveals secrets or the content of files, or changes something.
TEST(RolesTable, WhatReadersMayNotDoIsRecorded) {
  // These answer with capabilities, whose own calls are recorded or listed here, or with names
  // alone. Sinks and sources are the caller's own.
  constexpr kj::StringPtr kNotRecorded[] = {
      "Etcd.keepSnapshot"_kj, "Etcd.secretsNotUnder"_kj, "Kubernetes.tokensOfOtherKeys"_kj,
      "Node.sensitiveResources"_kj, "SnapshotUpload.write"_kj};
  for (auto& rule : Rules(capnp::Schema::from<rpc::Cluster>()).all()) {
    kj::StringPtr method = rule.method;
    auto interface = method.slice(0, KJ_ASSERT_NONNULL(method.findFirst('.')));
    if (kj::heapString(interface).endsWith("Sink") || method.startsWith("ByteSource.")) continue;
    bool readers = permits(kj::arr(kj::str(kRoleReader)), rule.needed);
    bool listed = false;
    for (auto known : kNotRecorded) listed = listed || known == method;
    EXPECT_TRUE(readers || rule.audit || listed) << method.cStr();
    EXPECT_FALSE(listed && rule.audit) << method.cStr();
  }
}

}  // namespace
}  // namespace talos
