// A container made as the launcher makes it, whose process 1 is this program: it tries to see and
// to change the host, and reports the outcomes. The possible tries are those that
// docs/evidence/container-isolation.md names as weaker than in a virtual machine.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <kj/debug.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>

#include "talosctl/cluster/containers/container-launch.h"
#include "talosctl/cluster/containers/container-plan.h"
#include "talosctl/cluster/containers/node-cgroups.h"
#include "tests/harness/process.h"
#include "tests/isolation/tries.h"

namespace talos::isolation {
namespace {

namespace fs = std::filesystem;
using harness::contains;
using harness::slurp;

constexpr uint64_t kMemoryLimit = 64 << 20;

// The things that the container looks for, on the host, for as long as the object lives.
class HostSide {
 public:
  explicit HostSide(const std::string& folder) {
    struct stat root{};
    stat("/", &root);
    facts.disk = std::to_string(major(root.st_dev)) + ":" + std::to_string(minor(root.st_dev));
    facts.file = folder + "/of-the-host";
    std::ofstream(facts.file) << "x";
    facts.process = std::to_string(getpid());
    facts.bootId = slurp("/proc/sys/kernel/random/boot_id");
    facts.bootId.pop_back();
    listenOnPort();
    listenOnName();
    facts.memory = std::to_string(0x7a105000 + getpid());
    memory = shmget(std::stoi(facts.memory), 4096, IPC_CREAT | 0600);
    KJ_ASSERT(memory >= 0);
    facts.key = "talos-isolation-" + facts.process;
    key = syscall(SYS_add_key, "user", facts.key.c_str(), "x", 1, KEY_SPEC_USER_KEYRING);
    KJ_ASSERT(key >= 0);
  }
  ~HostSide() {
    shmctl(memory, IPC_RMID, nullptr);
    syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING);
  }
  HostFacts facts;

 private:
  kj::AutoCloseFd tcp, local;
  int memory = -1;
  long key = -1;

  void listenOnPort() {
    tcp = kj::AutoCloseFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    KJ_SYSCALL(bind(tcp, reinterpret_cast<sockaddr*>(&address), sizeof address));
    KJ_SYSCALL(listen(tcp, 1));
    socklen_t size = sizeof address;
    KJ_SYSCALL(getsockname(tcp, reinterpret_cast<sockaddr*>(&address), &size));
    facts.port = std::to_string(ntohs(address.sin_port));
  }
  void listenOnName() {
    facts.socket = "talos-isolation-" + facts.process;
    local = kj::AutoCloseFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, facts.socket.data(), facts.socket.size());
    KJ_SYSCALL(bind(local, reinterpret_cast<sockaddr*>(&address),
                    offsetof(sockaddr_un, sun_path) + 1 + facts.socket.size()));
    KJ_SYSCALL(listen(local, 1));
  }
};

// A new network namespace, made by a thread that comes back.
kj::AutoCloseFd newNetwork() {
  int home;
  KJ_SYSCALL(home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  KJ_DEFER(setns(home, CLONE_NEWNET); close(home));
  KJ_SYSCALL(unshare(CLONE_NEWNET));
  int made;
  KJ_SYSCALL(made = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  return kj::AutoCloseFd(made);
}

struct Isolation : public ::testing::Test {
  std::string folder;
  kj::Maybe<container::ClusterCgroups> cgroups;

  ~Isolation() noexcept override = default;
  void SetUp() override {
    char path[] = "/tmp/isolation-XXXXXX";
    folder = mkdtemp(path);
    // Like in the supervisor, mounts are private to this process.
    KJ_SYSCALL(unshare(CLONE_NEWNS));
    KJ_SYSCALL(mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr));
    for (auto name :
         {"image/sbin", "image/proc", "image/sys", "image/dev", "image/run", "image/system",
          "image/tmp", "image/etc", "image/var", "state", "var", "boot"}) {
      fs::create_directories(folder + "/" + name);
    }
    fs::copy_file("/proc/self/exe", folder + "/image/sbin/init");
    cgroups.emplace(container::readCgroups(), kj::str("isolation-", getpid()));
  }
  void TearDown() override {
    KJ_ASSERT_NONNULL(cgroups).remove();
    fs::remove_all(folder);
  }

  // Runs the tries; returns the exit status of their process 1.
  int runContainer(const HostFacts& facts) {
    auto& made = KJ_ASSERT_NONNULL(cgroups);
    made.create();
    auto mounts = made.mounts();
    auto state = kj::str(folder.c_str(), "/state"), var = kj::str(folder.c_str(), "/var"),
         boot = kj::str(folder.c_str(), "/boot");
    auto steps = container::planContainer({.stateFolder = state,
                                           .ephemeralFolder = var,
                                           .slotsFolder = boot,
                                           .arguments = kArguments.c_str(),
                                           .bootId = "11111111-2222-4333-8444-555555555555",
                                           .cgroups = mounts});
    auto network = newNetwork();
    auto cgroupProcs = made.createNode("n", {.memory = kMemoryLimit, .milliCpus = 2000});
    kj::AutoCloseFd console(open((folder + "/out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
    kj::Vector<kj::String> environment;
    environment.add(kj::str("ISOLATION=1"));
    for (auto& each : facts.environment()) environment.add(kj::str(each.c_str()));
    auto image = kj::str(folder.c_str(), "/image");
    auto launched = container::launch({.image = image,
                                       .hostname = "isolated",
                                       .steps = steps,
                                       .cgroupProcs = cgroupProcs,
                                       .network = network.get(),
                                       .console = console.get(),
                                       .environment = environment});
    siginfo_t info{};
    KJ_SYSCALL(waitid(static_cast<idtype_t>(P_PIDFD), launched.pidfd.get(), &info, WEXITED));
    return info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  }
};

std::string limitOf(const std::string& cluster) {
  for (auto root : {"/sys/fs/cgroup/memory/talos/", "/sys/fs/cgroup/talos/"}) {
    for (auto file : {"memory.limit_in_bytes", "memory.max"}) {
      auto text = slurp(root + cluster + "/n/" + file);
      if (!text.empty()) return text;
    }
  }
  return "";
}

// Catches: a way to the host that the launcher leaves open, or closes without the documents saying
// so; a table in the documents that differs from the outcomes.
TEST_F(Isolation, WhatAContainerCanDoToItsHost) {
  HostSide host(folder);
  char before[256] = {}, after[256] = {};
  gethostname(before, sizeof before);
  EXPECT_EQ(runContainer(host.facts), 128 + SIGHUP) << "its reboot(2) ends it, and nothing else";
  auto rows = harness::lines(slurp(folder + "/out"));
  std::map<std::string, std::string> seen;
  for (auto& row : rows) {
    auto tab = row.find('\t');
    if (tab != std::string::npos) seen[row.substr(0, tab)] = row.substr(tab + 1);
  }
  auto page = slurp(DOCS "/evidence/container-isolation.md");
  size_t widest = 0;
  for (auto& each : tries()) widest = std::max(widest, strlen(each.what));
  for (auto& each : tries()) {
    auto outcome = seen[each.what];
    std::cout << each.what << std::string(widest + 2 - strlen(each.what), ' ') << outcome << "\n";
    EXPECT_EQ(outcome, nameOf(each.here())) << each.what;
    auto documented = "| " + std::string(each.what) + " | " + each.documented() + " |";
    EXPECT_TRUE(contains(page, documented))
        << "docs/evidence/container-isolation.md lacks: " << documented;
  }
  gethostname(after, sizeof after);
  EXPECT_STREQ(before, after);
  auto limit = limitOf("isolation-" + std::to_string(getpid()));
  EXPECT_TRUE(limit.empty() || limit == std::to_string(kMemoryLimit) + "\n") << limit;
}

// Runs the tries inside of the container.
[[noreturn]] void runTries() {
  auto host = HostFacts::fromEnvironment();
  host.bootId += "\n";
  for (auto& each : tries())
    std::cout << each.what << "\t" << nameOf(each.attempt(host)) << std::endl;
  // Lifts the container's own limit: the limit above it stays.
  for (auto path : {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"}) {
    std::ofstream(path) << (contains(path, "max") ? "max" : "-1") << std::flush;
  }
  ::reboot(RB_AUTOBOOT);
  _exit(1);
}

}  // namespace
}  // namespace talos::isolation

int main(int argc, char** argv) {
  if (getpid() == 1 && getenv("ISOLATION") != nullptr) talos::isolation::runTries();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
