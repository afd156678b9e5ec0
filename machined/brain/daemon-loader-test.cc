// The creation of the daemons' services, with a model of process 1 and a real store.
#include "machined/brain/daemon-loader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/testing/virtual-time.h"
#include "common/text/texts.h"
#include "machined/crashes/service-pages.h"
#include "machined/process1/test-process1.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"
#include "rpc/kubernetes-resources.capnp.h"
#include "rpc/network-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {
namespace {

// The ids and the warnings, each followed by a blank.
std::string chosenBy(kj::StringPtr arguments) {
  std::string text;
  auto chosen = chosenDaemons(KernelArguments(arguments.asArray()), daemons(),
                              [&](kj::StringPtr warning) { text += warning.cStr(); });
  KJ_IF_MAYBE (ids, chosen) {
    for (auto id : *ids) text += std::string(id.cStr()) + " ";
    return text;
  }
  return "all";
}

// Catches: a daemon that waits for ever for a daemon that was not chosen; a mistyped name that
// makes every service run, or none, without a warning.
TEST(ChosenDaemons, WithThoseAfterWhichTheyStart) {
  EXPECT_EQ(chosenBy("talos.slot=A"), "all");
  EXPECT_EQ(chosenBy("talos.debug.services=networkd"), "networkd ");
  EXPECT_EQ(chosenBy("talos.debug.services=vipd"), "etcd etcd-supervisor networkd vipd ");
  EXPECT_EQ(chosenBy("talos.debug.services=apid,,logd talos.debug.services=trustd"),
            "apid logd networkd trustd ");
  EXPECT_EQ(chosenBy("talos.debug.services="), "");
  EXPECT_EQ(
      chosenBy("talos.debug.services=netwrkd,apid")
          .rfind("talos.debug.services: no service is named \"netwrkd\"; use one of networkd, "),
      0u);
}

struct DaemonLoaderTest : testing::Test {
  ~DaemonLoaderTest() noexcept override { crash(); }
  kj::AsyncIoContext io = kj::setupAsyncIo();
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Registry registry;
  TestClock clock;
  Store store{registry, clock};
  FakeMachine machine;
  kj::Own<FakeProcess1> process1;
  kj::Own<ServicePages> pages;
  kj::Own<Supervisor> supervisor;
  kj::Own<DaemonLoader> loader;
  kj::ArrayPtr<const Daemon> table = onlyTrustd();
  unsigned listened = 0;
  bool cannotListen = false;
  Containerd containerd{*io.lowLevelProvider, timer};
  kj::AutoCloseFd port{memfd_create("port", MFD_CLOEXEC)};  // its listening descriptor

  // Returns true if both are the same file: process 1 has duplicates of descriptors.
  static bool same(int a, int b) {
    struct stat first, second;
    KJ_SYSCALL(fstat(a, &first));
    KJ_SYSCALL(fstat(b, &second));
    return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
  }
  kj::AutoCloseFd anything() { return kj::AutoCloseFd(open("/dev/null", O_RDWR | O_CLOEXEC)); }

  static kj::ArrayPtr<const Daemon> only(kj::StringPtr id) {
    for (auto& daemon : daemons()) {
      if (daemon.id == id) return kj::arrayPtr(&daemon, 1);
    }
    KJ_FAIL_REQUIRE("it is not in the table", id);
  }
  static kj::ArrayPtr<const Daemon> onlyTrustd() { return only("trustd"); }
  // A brain, the first one or the next.
  void start() {
    process1 = kj::heap<FakeProcess1>(machine);
    pages = kj::heap<ServicePages>(*process1);
    supervisor = kj::heap<Supervisor>(Supervisor::Dependencies{
        .process1 = *process1,
        .timer = timer,
        .clock = clock,
        .random = [] { return 0.0; },
        .output = [this](kj::StringPtr) -> kj::Promise<kj::AutoCloseFd> { return anything(); },
        .announce = [](rpc::ServiceStateEvent::Reader) {}});
    ServiceDefinition networkd;  // trustd waits for it
    networkd.id = kj::str("networkd");
    networkd.command = kj::str("/usr/bin/networkd");
    networkd.argv = kj::arr(kj::str("/usr/bin/networkd"));
    supervisor->load(kj::mv(networkd));
    supervisor->start("networkd");
    loader = kj::heap<DaemonLoader>(
        table,
        DaemonLoader::Dependencies{
            .supervisor = *supervisor,
            .daemon = {.lowLevel = *io.lowLevelProvider,
                       .store = store,
                       .networkd = nullptr,
                       .etcdSupervisor = nullptr,
                       .containerd = containerd,
                       .etcd = nullptr},
            .open = [this](const Daemon& daemon) -> kj::Promise<kj::AutoCloseFd> {
              EXPECT_EQ(daemon.listen.port, 50001);
              ++listened;
              if (cannotListen) {
                return error(ErrorKind::kUnavailable, "port 50001 is in use");
              }
              return FakeMachine::duplicate(port);
            },
            .openPair = [this](const Daemon& daemon) { return keptPair(*process1, daemon.id); },
            .openPage = [this](kj::StringPtr id) { return pages->open(id); }});
    loader->follow().wait(io.waitScope);
    run();
  }
  void crash() {
    loader = nullptr;
    supervisor = nullptr;
    pages = nullptr;
    process1 = nullptr;
  }
  void run() { advance(timer, io.waitScope, 1 * kj::SECONDS); }

  void putSecrets(kj::StringPtr id, kj::StringPtr token = "abcdef.0123456789abcdef") {
    putRecord<rpc::RootSecretSpec>(store, id, [&](auto spec) { spec.initOs().setToken(token); });
    run();
  }
  bool isLoaded(kj::StringPtr daemon = "trustd") const {
    return talos::contains(supervisor->ids(), daemon);
  }
};

// Catches: an open port of trustd on a worker; a machine that has received its CA and signs
// nothing.
TEST_F(DaemonLoaderTest, IsThereWhereThereIsSomethingToSignWith) {
  start();
  putSecrets("k8s");
  EXPECT_FALSE(isLoaded());
  EXPECT_EQ(listened, 0u);
  putSecrets("os");
  ASSERT_TRUE(isLoaded());
  ASSERT_TRUE(machine.runs("trustd"));
  auto& child = machine.child("trustd");
  ASSERT_EQ(child.passed.size(), 2u);
  // The page of a program of ours; its next start gets the same page.
  EXPECT_EQ(child.environment[1], kj::str("TALOS_SERVICE_PAGE_FD=", child.passed[1].as));
  EXPECT_TRUE(same(child.passed[1].fd, pages->open("trustd").wait(io.waitScope)));
  EXPECT_TRUE(same(child.passed[0].fd, port)) << "another file than the socket";
  EXPECT_EQ(child.environment[0], kj::str("TALOS_LISTEN_TCP_FD=", child.passed[0].as));
}

// Catches: a second socket or service when the secrets change.
TEST_F(DaemonLoaderTest, AChangeOfTheSecretsChangesNothing) {
  putSecrets("os");
  start();
  auto pid = machine.child("trustd").pid;
  putSecrets("os", "zzzzzz.0123456789abcdef");
  EXPECT_EQ(listened, 1u);
  EXPECT_EQ(machine.child("trustd").pid, pid);
}

TEST_F(DaemonLoaderTest, ANewBrainGoesOnWithIt) {
  putSecrets("os");
  start();
  auto pid = machine.child("trustd").pid;
  crash();
  start();
  EXPECT_TRUE(isLoaded());
  EXPECT_EQ(machine.child("trustd").pid, pid);
}

// Catches: a brain that starts a service again, after a crash, that a user had stopped.
TEST_F(DaemonLoaderTest, ANewBrainLeavesItStopped) {
  putSecrets("os");
  start();
  auto stopping = supervisor->stop("trustd");
  run();
  stopping.wait(io.waitScope);
  EXPECT_FALSE(machine.runs("trustd"));
  crash();
  start();
  EXPECT_TRUE(isLoaded());
  EXPECT_FALSE(machine.runs("trustd"));
}

// Catches: a machine that never gets trustd because its port was in use for a moment.
TEST_F(DaemonLoaderTest, WithoutASocketTheNextChangeTriesAgain) {
  start();
  cannotListen = true;
  ::testing::internal::CaptureStderr();
  putSecrets("os");
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("port 50001 is in use"),
            std::string::npos);
  EXPECT_FALSE(isLoaded());
  cannotListen = false;
  putSecrets("os", "zzzzzz.0123456789abcdef");
  EXPECT_TRUE(machine.runs("trustd"));
}

// Catches: a daemon that changes between container and program while it runs.
TEST_F(DaemonLoaderTest, ChoosesBetweenProgramAndContainerOnce) {
  static bool inContainer;
  const Daemon rows[] = {{.id = "x",
                          .container = [](DaemonDependencies&) { return ContainerSpec(); },
                          .inContainer = [](DaemonDependencies&) { return inContainer; },
                          .uid = 8,
                          .wantedWith = {typeName<rpc::VipSpecSpec>(), ""}}};
  table = rows;
  auto put = [this](kj::StringPtr id) {
    putRecord<rpc::VipSpecSpec>(store, id, [](auto spec) { spec.setLinkName("eth0"); });
    run();
  };
  inContainer = false;
  start();
  EXPECT_FALSE(machine.runs("x"));
  put("10.5.0.9");
  ASSERT_TRUE(machine.runs("x"));
  auto& child = machine.child("x");
  auto pid = child.pid;
  EXPECT_EQ("--uid=8", child.argv[1]);
  inContainer = true;
  put("10.5.0.8");
  EXPECT_EQ(pid, machine.child("x").pid);
}

// Catches: a fetcher of manifests on a control plane whose config names none; no fetcher after the
// config does.
TEST_F(DaemonLoaderTest, TheFetcherOfManifestsComesWithTheFirst) {
  table = only("manifestd");
  start();
  auto put = [&](kj::StringPtr id, unsigned manifests) {
    putRecord<rpc::ControlPlaneConfigSpec>(
        store, id, [&](auto spec) { spec.initExtraManifests().initExtraManifests(manifests); });
    run();
  };
  put("extra-manifests", 0);
  put("system-manifests", 1);
  EXPECT_FALSE(isLoaded("manifestd"));
  put("extra-manifests", 1);
  EXPECT_TRUE(isLoaded("manifestd"));
}

}  // namespace
}  // namespace talos::machined
