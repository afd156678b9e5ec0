// The table's rows as services: the rights with which each daemon is started.
#include "machined/brain/daemon-table.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>

#include "common/base/service-variables.h"
#include "common/text/texts.h"
#include "machined/resources/test-store.h"

namespace talos::machined {
namespace {

struct DaemonTableTest : StoreTest {
  ~DaemonTableTest() noexcept override {}
  ServiceDefinition definition(kj::StringPtr id, int listening = 7) {
    for (auto& daemon : daemons()) {
      if (daemon.id == id) return definitionOf(daemon, {.listening = listening}, deps);
    }
    KJ_FAIL_REQUIRE("not in the table", id);
  }
  ServiceDefinition define(const Daemon& row) { return definitionOf(row, {}, deps); }
  // The readable files, in the order of the arguments.
  kj::String readable(kj::StringPtr id) {
    kj::Vector<kj::StringPtr> paths;
    auto d = definition(id);
    constexpr auto kRead = "--landlock-read="_kj;
    for (auto& word : d.argv) {
      if (word.startsWith(kRead)) paths.add(word.slice(kRead.size()));
    }
    return kj::strArray(paths, " ");
  }

  struct NoIo final : kj::LowLevelAsyncIoProvider {
    kj::Own<kj::AsyncInputStream> wrapInputFd(Fd, kj::uint) override { KJ_UNIMPLEMENTED("none"); }
    kj::Own<kj::AsyncOutputStream> wrapOutputFd(Fd, kj::uint) override { KJ_UNIMPLEMENTED("none"); }
    kj::Own<kj::AsyncIoStream> wrapSocketFd(Fd, kj::uint) override { KJ_UNIMPLEMENTED("none"); }
    kj::Promise<kj::Own<kj::AsyncIoStream>> wrapConnectingSocketFd(Fd, const sockaddr*, kj::uint,
                                                                   kj::uint) override {
      KJ_UNIMPLEMENTED("none");
    }
    kj::Own<kj::ConnectionReceiver> wrapListenSocketFd(Fd, NetworkFilter&, kj::uint) override {
      KJ_UNIMPLEMENTED("none");
    }
    kj::Timer& getTimer() override { KJ_UNIMPLEMENTED("none"); }
  };
  NoIo io;
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Containerd containerd{io, timer};
  DaemonDependencies deps{.lowLevel = io,
                          .store = store,
                          .networkd = nullptr,
                          .etcdSupervisor = nullptr,
                          .containerd = containerd,
                          .etcd = nullptr};
};

// Catches: a daemon that is started as root, without a filter, or with files that it does not need.
TEST_F(DaemonTableTest, ADaemonIsStartedWithItsRightsOnly) {
  for (auto& daemon : daemons()) {
    if (daemon.command != nullptr || daemon.container != nullptr) continue;
    auto d = define(daemon);
    EXPECT_EQ(d.argv[0], "/usr/libexec/talos/confine");
    EXPECT_NE(daemon.uid, 0u) << daemon.id.cStr();
    EXPECT_TRUE(talos::contains(d.argv, kj::str("--uid=", daemon.uid)));
    // The only programs that are not ours.
    EXPECT_EQ(daemon.filter == "foreign", daemon.id == "etcd");
    EXPECT_EQ(daemon.filter == "storage",
              daemon.id == "etcd-supervisor" || daemon.id == "logd" || daemon.id == "backupd");
    EXPECT_EQ(daemon.filter == "bus", daemon.id == "dbus-daemon");
    // One has the CA's key, the other one reads media that anybody may have made.
    bool connectsNowhere = daemon.id == "trustd" || daemon.id == "registryd";
    EXPECT_EQ(daemon.filter == "listener", connectsNowhere);
    EXPECT_EQ(talos::contains(d.argv, "--landlock-tcp=none"), connectsNowhere);
    EXPECT_EQ(daemon.filter == "network", daemon.id == "networkd");
    EXPECT_EQ(daemon.filter == "vip", daemon.id == "vipd");
    EXPECT_TRUE(talos::contains(d.argv, kj::str("--seccomp=", daemon.filter)));
    EXPECT_EQ(d.argv[d.argv.size() - 1], kj::str("/usr/bin/", daemon.id));
  }
  // Only its own memory map, for a report of its crash.
  EXPECT_EQ(readable("login1"), "/usr/bin/login1 /proc/self/maps /proc/self/smaps");
  EXPECT_EQ(readable("dbus-daemon"), "/usr/bin/dbus-daemon /etc/dbus-1 /etc/passwd");
  EXPECT_TRUE(talos::contains(definition("networkd").argv,
                              "--capabilities=net_admin,net_raw,net_bind_service"));
  EXPECT_EQ(readable("networkd"),
            "/usr/bin/networkd /proc/self/maps /proc/self/smaps /proc/sys/kernel/hostname "
            "/sys/devices /sys/bus");
  // A folder that a kernel without IPv6 lacks would make the wrapper refuse the start.
  EXPECT_TRUE(talos::contains(definition("networkd").argv, "--landlock-write=/proc/sys/net"));
  EXPECT_EQ(readable("apid"),
            "/usr/bin/apid /proc/self/maps /proc/self/smaps /system/etc /run/talos/networkd");
  EXPECT_EQ(readable("trustd"), "/usr/bin/trustd /proc/self/maps /proc/self/smaps");
  EXPECT_EQ(readable("registryd"),
            "/usr/bin/registryd /proc/self/maps /proc/self/smaps /system/imagecache");
  // backupd reads what stores send, and has nothing of etcd.
  EXPECT_EQ(readable("etcd-supervisor"),
            "/usr/bin/etcd-supervisor /proc/self/maps /proc/self/smaps /system/etc "
            "/run/talos/networkd");
  EXPECT_EQ(readable("backupd"),
            "/usr/bin/backupd /proc/self/maps /proc/self/smaps /system/etc /run/talos/networkd "
            "/etc/ssl/certs");
  // For the API of a provider that assigns an address.
  EXPECT_EQ(readable("vipd"),
            "/usr/bin/vipd /proc/self/maps /proc/self/smaps /system/etc /run/talos/networkd "
            "/etc/ssl/certs");
  for (auto id : {"apid"_kj, "trustd"_kj, "backupd"_kj, "registryd"_kj}) {
    for (auto& word : definition(id).argv) {
      EXPECT_FALSE(word.startsWith("--capabilities")) << id.cStr();
      EXPECT_FALSE(word.startsWith("--landlock-write")) << id.cStr();
    }
  }
}

// Catches: a daemon that gets the files, the records or the port of another daemon.
TEST_F(DaemonTableTest, NoTwoShareAUserOrAPort) {
  for (auto& one : daemons()) {
    for (auto& other : daemons()) {
      if (&one == &other || one.command != nullptr || one.container != nullptr) continue;
      // etcd, and the supervisor of its data.
      bool sameData = one.id.startsWith("etcd") && other.id.startsWith("etcd");
      // The bus, and its client, in one folder.
      bool sameBus = one.uid == kLogin1Uid && other.uid == kLogin1Uid;
      if (!sameData && !sameBus) {
        EXPECT_NE(one.uid, other.uid) << one.id.cStr();
      }
      EXPECT_TRUE(one.listen.port == 0 || one.listen.port != other.listen.port) << one.id.cStr();
    }
  }
}

// Catches: a socket that another user than its one caller can connect to.
TEST_F(DaemonTableTest, OnlyBackupdsSocketBelongsToAnotherUser) {
  for (auto& daemon : daemons()) {
    auto& listen = daemon.listen;
    if (listen.socket == nullptr) continue;
    EXPECT_EQ(listen.mode, 0600u) << daemon.id.cStr();
    EXPECT_EQ(listen.owner, daemon.id == "backupd" ? kEtcdUid : 0u) << daemon.id.cStr();
  }
}

// Catches: an API call that makes the node unreachable for the next one.
TEST_F(DaemonTableTest, ServiceThatCarriesTheApiCannotBeStopped) {
  EXPECT_FALSE(definition("networkd").mayBeStopped);
  EXPECT_FALSE(definition("apid").mayBeStopped);
  EXPECT_TRUE(definition("trustd").mayBeStopped);
}

// Catches: a wrapper that removes rights that containers need; a runtime that does not find its
// shims; another program that runs as root.
TEST_F(DaemonTableTest, OnlyTheContainerRuntimeIsRootAndNotConfined) {
  for (auto& daemon : daemons()) EXPECT_EQ(daemon.command != nullptr, daemon.id == "cri");
  auto d = definition("cri", -1);
  EXPECT_EQ(kj::strArray(d.argv, " "),
            "/bin/containerd --address /run/containerd/containerd.sock --config "
            "/etc/cri/containerd.toml");
  EXPECT_EQ(kj::strArray(d.environment, " "), "PATH=/usr/bin:/usr/sbin");
  EXPECT_EQ(kj::strArray(d.dependsOn, " "), "networkd");
  EXPECT_EQ(d.cgroup, "system/cri");
  EXPECT_EQ(d.memoryMax, 0u);
  EXPECT_TRUE(d.health != nullptr);
  ASSERT_EQ(d.conditions.size(), 1u) << "or it starts without its registries";
  EXPECT_EQ(d.conditions[0]->description(),
            "file \"/system/etc/cri/conf.d/10-registries.toml\" to exist");
}

// Catches: a container that is started before its runtime, as a process, or with a path of the
// node.
TEST_F(DaemonTableTest, ARowWithAContainerIsOne) {
  Daemon row{.id = "etcd",
             .container = [](DaemonDependencies&) { return ContainerSpec(); },
             .after = "networkd"};
  auto d = define(row);
  EXPECT_EQ(kj::strArray(d.dependsOn, " "), "cri networkd");
  EXPECT_EQ(kj::strArray(d.argv, " "), "");
  EXPECT_EQ(d.command, "container etcd");
  EXPECT_EQ(d.cgroup, "system/etcd");
  EXPECT_EQ(kj::strArray(d.environment, " "),
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
  auto& body = *KJ_ASSERT_NONNULL(d.body);
  EXPECT_EQ(body.noun(), "task etcd");
  EXPECT_EQ(body.startedMessage(7), "Started task etcd (PID 7) for container etcd");
}

// Catches: certificates that are checked and made with a wrong clock; a start of etcd that scripts
// do not find, because the system has its program.
TEST_F(DaemonTableTest, EtcdAndTheKubeletStartWhenTheTimeIsKnown) {
  for (auto& daemon : daemons()) {
    bool waits = daemon.id == "etcd" || daemon.id == "kubelet";
    EXPECT_EQ(daemon.waitsFor.size() == 1 && daemon.waitsFor[0] == "timed", waits)
        << daemon.id.cStr();
  }
  auto kubelet = definition("kubelet", -1);
  EXPECT_EQ(kj::strArray(kubelet.dependsOn, " "), "cri networkd");
  EXPECT_EQ(kj::strArray(kubelet.waitsFor, " "), "timed");
  EXPECT_EQ(kubelet.waitsAtMost() / kj::SECONDS, 30);
  deps.timeLimit = [] { return 120 * kj::SECONDS; };
  EXPECT_EQ(kubelet.waitsAtMost() / kj::SECONDS, 120) << "machine.time.bootTimeout";
  Daemon etcd{.id = "etcd",
              .container = [](DaemonDependencies&) { return ContainerSpec(); },
              .inContainer = [](DaemonDependencies&) { return false; }};
  EXPECT_EQ(define(etcd).task, "etcd");
  EXPECT_EQ(definition("apid").task, "");
}

// Catches: another text than Talos' for a port that is not listening yet.
TEST(KubeletHealth, ARefusedConnectionHasTheWordsOfTheOriginal) {
  auto io = kj::setupAsyncIo();
  Registry registry;
  TestClock clock;
  Store store(registry, clock);
  Containerd containerd{*io.lowLevelProvider, io.provider->getTimer()};
  DaemonDependencies deps{.lowLevel = *io.lowLevelProvider,
                          .store = store,
                          .networkd = nullptr,
                          .etcdSupervisor = nullptr,
                          .containerd = containerd,
                          .etcd = nullptr};
  for (auto& daemon : daemons()) {
    if (daemon.id != "kubelet") continue;
    auto kubelet = definitionOf(daemon, {}, deps);
    auto failure = kj::runCatchingExceptions(
        [&] { KJ_ASSERT_NONNULL(kubelet.health).check().wait(io.waitScope); });
    EXPECT_EQ(messageOf(KJ_ASSERT_NONNULL(failure)),
              "Get \"http://127.0.0.1:10248/healthz\": dial tcp 127.0.0.1:10248: connect: "
              "connection refused");
  }
}

// Catches: a kubelet that waits for 45 s for an API server whose address went to another node.
TEST_F(DaemonTableTest, TheKubeletGivesUpASilentConnection) {
  EXPECT_EQ(kj::strArray(definition("kubelet", -1).environment, " "),
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "
            "HTTP2_READ_IDLE_TIMEOUT_SECONDS=10 HTTP2_PING_TIMEOUT_SECONDS=5 "
            "DBUS_SYSTEM_BUS_ADDRESS=unix:path=/run/dbus/system_bus_socket");
}

// Catches: a variable of a service that takes precedence over machine.env without a warning.
TEST_F(DaemonTableTest, VariablesOfServicesAreListed) {
  EXPECT_TRUE(isSetByNode("etcd", "PATH")) << "as each container has it";
  for (auto& daemon : daemons()) {
    if (daemon.inContainer != nullptr) continue;  // etcd, which the config makes a container
    auto d = define(daemon);
    for (auto& variable : d.environment) {
      auto name = kj::heapString(variable.slice(0, KJ_ASSERT_NONNULL(variable.findFirst('='))));
      EXPECT_TRUE(isSetByNode(daemon.id, name)) << daemon.id.cStr() << " " << name.cStr();
    }
  }
}

// Catches: a node that answers late, because containerd starts at the same time as the services
// that answer; a node that runs no containers, because it cannot join and apid is never up.
TEST_F(DaemonTableTest, ServicesThatAnswerStartBeforeContainerd) {
  EXPECT_EQ(kj::strArray(definition("cri", -1).givesWayTo, " "), "apid trustd");
  EXPECT_EQ(kj::strArray(definition("trustd").givesWayTo, " "), "apid");
  EXPECT_EQ(definition("apid").givesWayTo.size(), 0u);
}

// Catches: a daemon that waits for a socket that it was not given; a daemon without a listener that
// gets a descriptor which does not exist.
TEST_F(DaemonTableTest, PassesTheListeningSocketToTheDaemon) {
  auto d = definition("networkd");
  ASSERT_EQ(d.sockets.size(), 1u);
  EXPECT_EQ(d.sockets[0].fd, 7);
  EXPECT_TRUE(talos::contains(d.environment, kj::str("TALOS_LISTEN_FD=", d.sockets[0].as)));
  EXPECT_EQ(definition("networkd", -1).sockets.size(), 0u);
}

// Catches: a node on Azure without an address: its DHCP servers do not answer requests for the MTU.
TEST_F(DaemonTableTest, NetworkdOnAzure) {
  auto arguments = [&](kj::StringPtr platform) {
    deps.platform = platform;
    return kj::strArray(KJ_ASSERT_NONNULL(definition("networkd").arguments)(), " ");
  };
  EXPECT_EQ(arguments("metal"), "");
  EXPECT_EQ(arguments("aws"), "");
  EXPECT_EQ(arguments("azure"), "--dhcp-without-mtu");
}

// Catches: net.ifnames=1 that is accepted without an effect; one argument in place of the other.
TEST_F(DaemonTableTest, NetworkdWithPredictableNames) {
  auto arguments = [&](kj::StringPtr platform) {
    deps.platform = platform;
    return kj::strArray(KJ_ASSERT_NONNULL(definition("networkd").arguments)(), " ");
  };
  deps.predictableNames = true;
  EXPECT_EQ(arguments("metal"), "--predictable-names");
  EXPECT_EQ(arguments("azure"), "--dhcp-without-mtu --predictable-names");
}

// Catches: a login1 that cannot hand its locks to its next start.
TEST_F(DaemonTableTest, WhatKeepsDescriptorsGetsThePair) {
  for (auto& daemon : daemons()) {
    if (daemon.container != nullptr) continue;
    auto d = definitionOf(daemon, {.keeping = 8, .kept = 9}, deps);
    EXPECT_EQ(talos::contains(d.environment, kj::str("TALOS_KEEPING_FD=4")), daemon.keeps)
        << daemon.id.cStr();
    EXPECT_EQ(daemon.keeps, daemon.id == "login1");
    if (!daemon.keeps) continue;
    EXPECT_TRUE(talos::contains(d.environment, kj::str("TALOS_KEPT_FD=5")));
    ASSERT_EQ(d.sockets.size(), 2u);
    EXPECT_EQ(d.sockets[0].fd, 8);
    EXPECT_EQ(d.sockets[0].as, 4);
    EXPECT_EQ(d.sockets[1].fd, 9);
    EXPECT_EQ(d.sockets[1].as, 5);
  }
}

}  // namespace
}  // namespace talos::machined
