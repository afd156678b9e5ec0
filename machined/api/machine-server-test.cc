#include "machined/api/machine-server.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/testing/test-tree.h"

namespace talos::machined {
namespace {

class Machine : public testing::Test, public MachineOperations {
 public:
  ~Machine() noexcept override {}

 protected:
  kj::AsyncIoContext io = kj::setupAsyncIo();
  ReadPool pool{io.provider->getTimer(), {}, [](kj::StringPtr) {}};
  unsigned reboots = 0;
  bool accepted = true;
  kj::String asked;
  kj::Maybe<pki::CertificateAndKey> ca;

  rpc::Machine::Client client(MachinePaths paths = {}) {
    return kj::heap<MachineServer>(pool, io.provider->getTimer(),
                                   MachineIdentity{.tag = kj::str("v1"),
                                                   .sha = kj::str("abc"),
                                                   .built = kj::str("2021-03-01T12:00:00Z"),
                                                   .compiler = kj::str("clang"),
                                                   .platform = kj::str("metal"),
                                                   .mode = kj::str("metal")},
                                   *this, ClientCalls::alone(), paths);
  }

  kj::Promise<void> reboot() override {
    if (!accepted) fail(ErrorKind::kFailedPrecondition, "is a container");
    ++reboots;
    return kj::READY_NOW;
  }
  kj::Promise<void> shutdown() override { return kj::READY_NOW; }
  void fillStatus(rpc::Status::Builder out) override { out.setPhase("startEverything"); }
  kj::Vector<ServiceCgroup> runningServices() override {
    kj::Vector<ServiceCgroup> services;
    services.add(ServiceCgroup{kj::str("apid"), kj::str("apid")});
    return services;
  }
  kj::Promise<TimeAnswer> queryTime(kj::String server) override {
    if (server == "x") fail(ErrorKind::kUnavailable, "x: no answer");
    if (server == "silent") return kj::NEVER_DONE;
    return TimeAnswer{kj::str(server == "" ? "followed"_kj : server),
                      kj::UNIX_EPOCH + 1 * kj::SECONDS, kj::UNIX_EPOCH + 3 * kj::NANOSECONDS};
  }
  kj::Maybe<pki::CertificateAndKey> authority() override {
    KJ_IF_MAYBE (a, ca) {
      return pki::CertificateAndKey{kj::str(a->certificate), a->key.clone()};
    }
    return nullptr;
  }
  kj::Promise<ResetFacts> previewReset(kj::Vector<kj::String> labels, bool graceful) override {
    ResetFacts facts{kj::str("/dev/vda"), {}};
    asked = kj::str(graceful ? "graceful" : "");
    for (auto& label : labels) {
      facts.targets.add(ResetFact{kj::mv(label), kj::str("/dev/vda5"), 7});
    }
    return kj::mv(facts);
  }
  kj::Promise<void> reset(kj::Vector<kj::String> labels, bool graceful, bool reboot) override {
    asked =
        kj::str(kj::strArray(labels, "+"), graceful ? " graceful" : "", reboot ? " reboot" : "");
    return kj::READY_NOW;
  }
  kj::Promise<pki::Pem> kubeconfig() override { return pki::Pem(kj::str("apiVersion: v1\n")); }
  kj::Vector<ControllerLinks> dependencies() override {
    kj::Vector<ControllerLinks> all;
    ControllerLinks links{.name = kj::str("vipd"), .daemon = true, .reads = {}, .writes = {}};
    links.reads.add(ControllerLinks::Input{kj::str("a"), kj::str("B"), kj::str("c")});
    links.writes.add(kj::str("D"));
    all.add(kj::mv(links));
    return all;
  }
  void fillSamples(uint64_t lastMs, rpc::Machine::SamplesResults::Builder out) override {
    out.initSamples(1)[0].setUptimeMs(lastMs);
  }
};

// Catches: a request that arrives changed, more labels than can exist, an answer without the boot
// ID that a caller waits for.
TEST_F(Machine, AResetIsAskedForAsItWasSaid) {
  auto machine = client();
  auto preview = machine.previewResetRequest();
  auto one = preview.initLabels(1);
  one.set(0, "STATE");
  auto plan = preview.send().wait(io.waitScope);
  EXPECT_EQ(plan.getDisk(), "/dev/vda");
  EXPECT_EQ(asked, "");
  preview = machine.previewResetRequest();
  preview.setGraceful(true);
  preview.send().wait(io.waitScope);
  EXPECT_EQ(asked, "graceful");
  ASSERT_EQ(plan.getTargets().size(), 1u);
  EXPECT_EQ(plan.getTargets()[0].getLabel(), "STATE");
  EXPECT_EQ(plan.getTargets()[0].getDevice(), "/dev/vda5");
  EXPECT_EQ(plan.getTargets()[0].getSize(), 7u);
  for (bool first : {false, true}) {
    auto request = machine.resetRequest();
    auto labels = request.initLabels(2);
    labels.set(0, "STATE");
    labels.set(1, "META");
    request.setGraceful(first);
    request.setReboot(!first);
    auto answer = request.send().wait(io.waitScope);
    EXPECT_GT(answer.getBootId().size(), 0u);
    EXPECT_EQ(asked, first ? "STATE+META graceful" : "STATE+META reboot");
  }
  auto many = machine.resetRequest();
  many.initLabels(17);
  auto failure = kj::runCatchingExceptions([&] { many.send().wait(io.waitScope); });
  EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)),
            "a node has at most 16 system partitions; 17 were named");
}

// Catches: a version without the fields that a client waits on (boot id) or shows.
TEST_F(Machine, VersionSaysWhichBootOfWhichMachine) {
  auto version = client().versionRequest().send().wait(io.waitScope);
  EXPECT_EQ(kj::StringPtr(version.getTag()), "v1");
  EXPECT_EQ(kj::StringPtr(version.getOs()), "linux");
  EXPECT_NE(kj::StringPtr(version.getArch()), "x86_64");
  EXPECT_EQ(version.getBootId().size(), 36u);
  char name[256];
  KJ_SYSCALL(gethostname(name, sizeof name));
  EXPECT_EQ(kj::StringPtr(version.getHostname()), name);
  EXPECT_GT(version.getUptimeMs(), 0u);
}

// Catches: an answer without the ID of the ending boot, a refusal that reboots all the same.
TEST_F(Machine, RebootNamesTheBootThatEnds) {
  auto machine = client();
  auto bootId = kj::str(machine.versionRequest().send().wait(io.waitScope).getBootId());
  EXPECT_EQ(kj::StringPtr(machine.rebootRequest().send().wait(io.waitScope).getBootId()), bootId);
  EXPECT_EQ(reboots, 1u);
  EXPECT_EQ(kj::StringPtr(machine.shutdownRequest().send().wait(io.waitScope).getBootId()), bootId);
  EXPECT_EQ(reboots, 1u);
  accepted = false;
  auto failure =
      kj::runCatchingExceptions([&] { machine.rebootRequest().send().wait(io.waitScope); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kFailedPrecondition);
}

// Catches: local and remote exchanged, a failure that looks like an answer.
TEST_F(Machine, TimeIsWhatAServerSays) {
  auto ask = [&](kj::StringPtr server) {
    auto request = client().timeRequest();
    request.setServer(server);
    return request.send().wait(io.waitScope);
  };
  auto answer = ask("");
  EXPECT_EQ(kj::StringPtr(answer.getAnswer().getServer()), "followed");
  EXPECT_EQ(answer.getAnswer().getLocal(), 1'000'000'000);
  EXPECT_EQ(answer.getAnswer().getRemote(), 3);
  auto failure = kj::runCatchingExceptions([&] { ask("x"); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(failure)), ErrorKind::kUnavailable);
}

// Catches: facts that do not reach their fields.
TEST_F(Machine, FactsReachTheWire) {
  TestTree cgroups;
  cgroups.directory("apid");
  cgroups.file("apid/memory.current", "4096\n");
  cgroups.file("apid/cpu.stat", "usage_usec 3\n");
  auto machine = client({.cgroups = cgroups.root});
  EXPECT_EQ(kj::StringPtr(machine.statusRequest().send().wait(io.waitScope).getPhase()),
            "startEverything");

  auto memory = machine.memoryRequest().send().wait(io.waitScope);
  ASSERT_GT(memory.getFields().size(), 10u);
  EXPECT_EQ(kj::StringPtr(memory.getFields()[0].getName()), "MemTotal");
  EXPECT_EQ(kj::StringPtr(memory.getFields()[0].getUnit()), "kB");

  auto stats = machine.statsRequest().send().wait(io.waitScope);
  ASSERT_EQ(stats.getStats().size(), 1u);
  EXPECT_EQ(kj::StringPtr(stats.getStats()[0].getNamespace()), "system");
  EXPECT_EQ(kj::StringPtr(stats.getStats()[0].getId()), "apid");
  EXPECT_EQ(stats.getStats()[0].getMemoryUsage(), 4096u);
  EXPECT_EQ(stats.getStats()[0].getCpuUsageNs(), 3000u);

  auto processes = machine.processesRequest().send().wait(io.waitScope);
  bool found = false;
  for (auto process : processes.getProcesses()) {
    if (process.getPid() != getpid()) continue;
    found = true;
    EXPECT_GE(process.getResidentMemory(), 100'000u);
    EXPECT_GE(process.getVirtualMemory(), process.getResidentMemory());
    EXPECT_EQ(process.getState().size(), 1u);
  }
  EXPECT_TRUE(found);
}

// Catches: mounts that are read from another tree than the other facts, or that block the loop's
// answer.
TEST_F(Machine, MountsAreReadFromTheSameProc) {
  TestTree proc;
  proc.file("mounts", kj::str("tmpfs ", proc.root, " tmpfs rw 0 0\n"));
  auto mounts = client({.proc = proc.root}).mountsRequest().send().wait(io.waitScope);
  ASSERT_EQ(mounts.getMounts().size(), 1u);
  EXPECT_EQ(kj::StringPtr(mounts.getMounts()[0].getMountedOn()), proc.root);
  EXPECT_GT(mounts.getMounts()[0].getSize(), 0u);
}

// Catches: a field of the facts that the answer leaves out or confuses with another one.
TEST_F(Machine, SocketsAndGroupsAndControllersAreSentAsTheyAre) {
  TestTree tree;
  tree.directory("net");
  tree.file("net/udp", "1: 0100007F:0035 0200007F:0007 01 00000003:00000004 0:0 0 5 0 6 2 x 0\n");
  tree.directory("9/fd");
  tree.file("9/comm", "resolver\n");
  tree.link("9/fd/3", "socket:[6]");
  tree.file("cgroup.controllers", "");
  tree.directory("system/apid");
  tree.file("system/apid/pids.max", "max\n");
  tree.file("system/apid/pids.current", "12\n");
  auto machine = client({.proc = tree.root, .cgroups = tree.root});
  auto sockets = machine.netstatRequest().send().wait(io.waitScope);
  ASSERT_EQ(sockets.getSockets().size(), 1u);
  auto s = sockets.getSockets()[0];
  EXPECT_EQ(kj::str(s.getProtocol(), " ", s.getLocalAddress(), " ", s.getLocalPort(), " ",
                    s.getRemoteAddress(), " ", s.getRemotePort(), " ", s.getState(), " ",
                    s.getSendQueue(), " ", s.getReceiveQueue(), " ", s.getUid(), " ", s.getInode(),
                    " ", s.getPid(), " ", s.getProgram()),
            "udp 127.0.0.1 53 127.0.0.2 7 ESTABLISHED 3 4 5 6 9 resolver");
  auto groups = machine.cgroupsRequest().send().wait(io.waitScope);
  bool found = false;
  for (auto group : groups.getGroups()) {
    if (group.getPath() != "system/apid") continue;
    found = true;
    EXPECT_EQ(group.getPids().getCurrent(), 12);
    EXPECT_EQ(group.getPids().getMax(), -1);
  }
  EXPECT_TRUE(found);
  auto controllers = machine.dependenciesRequest().send().wait(io.waitScope);
  ASSERT_EQ(controllers.getControllers().size(), 1u);
  auto c = controllers.getControllers()[0];
  EXPECT_EQ(kj::str(c.getName(), c.getDaemon(), c.getReads()[0].getNamespace(),
                    c.getReads()[0].getType(), c.getReads()[0].getId(), c.getWrites()[0]),
            "vipdtrueaBcD");
}

// Catches: the counters of this host instead of those of the test's tree.
TEST_F(Machine, CountersAreSentAsTheKernelWritesThem) {
  TestTree proc, sys;
  proc.file("loadavg", "0.5 0.25 0.125 1/1 1\n");
  auto machine = client({.proc = proc.root, .sys = sys.root});
  auto files = machine.countersRequest().send().wait(io.waitScope);
  ASSERT_EQ(1u, files.getFiles().size());
  EXPECT_EQ(kj::StringPtr(files.getFiles()[0].getPath()), "/proc/loadavg");
  EXPECT_EQ(kj::StringPtr(files.getFiles()[0].getText()), "0.5 0.25 0.125 1/1 1\n");
  auto request = machine.countersRequest();
  request.setOf(rpc::Counter::FREQUENCIES);
  EXPECT_EQ(0u, request.send().wait(io.waitScope).getFiles().size());
}

// Catches: samples without the requested time.
TEST_F(Machine, SamplesOfTheLastSoManyMilliseconds) {
  auto machine = client();
  auto request = machine.samplesRequest();
  request.setLastMs(7);
  auto answer = request.send().wait(io.waitScope);
  ASSERT_EQ(answer.getSamples().size(), 1u);
  EXPECT_EQ(answer.getSamples()[0].getUptimeMs(), 7u);
}

TEST_F(Machine, AKubeconfigIsSentAsItIs) {
  auto answer = client().kubeconfigRequest().send().wait(io.waitScope);
  EXPECT_EQ(kj::heapString(answer.getKubeconfig().asChars()), "apiVersion: v1\n"_kj);
}

// Catches: a certificate of another CA, a certificate without its CA, and a machine without the key
// that does not say which machines have it.
TEST_F(Machine, SignsForClients) {
  auto key = pki::makeKey(pki::KeyType::kEd25519);
  auto asked = pki::makeRequest(key, {.commonName = "someone"});
  auto ask = [&] {
    auto request = client().clientCertificateRequest();
    request.setRequest(asked.asBytes());
    request.initRoles(1).set(0, "os:reader");
    request.setLifetimeS(3600);
    return request.send();
  };
  auto e = kj::runCatchingExceptions([&] { ask().wait(io.waitScope); });
  EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(e)), ErrorKind::kFailedPrecondition);
  ca = pki::makeAuthority({.organization = "talos"});
  auto answer = ask().wait(io.waitScope);
  EXPECT_EQ(kj::heapString(answer.getCa().asChars()), KJ_ASSERT_NONNULL(ca).certificate);
  auto certificate = kj::heapString(answer.getCertificate().asChars());
  pki::checkPair(certificate, key);
  EXPECT_EQ(pki::inspect(certificate).organizations[0], "os:reader"_kj);
}

// Catches: a thread of the resolver for each of a thousand queries, and slots that are not
// released.
TEST_F(Machine, QuestionsForTheTimeAreBounded) {
  auto machine = client();
  auto ask = [&](kj::StringPtr server) {
    auto request = machine.timeRequest();
    request.setServer(server);
    return request.send();
  };
  {
    auto first = ask("silent"), second = ask("silent");
    first.poll(io.waitScope);
    auto e = kj::runCatchingExceptions([&] { ask("").wait(io.waitScope); });
    KJ_IF_MAYBE (x, e) {
      EXPECT_EQ(ErrorKind::kResourceExhausted, kindOf(*x));
      EXPECT_EQ(
          "this client has 2 queries of time servers open, which is the limit; close one of them "
          "first",
          messageOf(*x));
    } else {
      ADD_FAILURE() << "not refused";
    }
  }
  EXPECT_EQ("followed", kj::str(ask("").wait(io.waitScope).getAnswer().getServer()));
}

}  // namespace
}  // namespace talos::machined
