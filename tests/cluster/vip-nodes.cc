#include "tests/cluster/vip-nodes.h"

#include <gtest/gtest.h>
#include <kj/debug.h>

#include <thread>

namespace talos {
namespace {

constexpr auto kStopped = std::chrono::milliseconds(450), kRunning = std::chrono::milliseconds(50);

}  // namespace

VipNodes::VipNodes()
    : VipSegment("vipfaults", "node", {"--provisioner", "container"}),
      watch(Ip::require(kVip), kCount),
      places(kCount) {
  for (unsigned i = 0; i < kCount; ++i) look(i);
}

VipNodes::~VipNodes() {
  watch.end();
}

// Looks at a node that has just been started, and has a new namespace.
void VipNodes::look(unsigned number) {
  auto& node = places[number];
  auto pid = cluster.process(nodeName(number));
  KJ_REQUIRE(pid > 0, "the supervisor has started no such node", nodeName(number).c_str());
  node.place = placeOf(pid);
  inside(node.place, [&] {
    auto there = netlink::openKernel();
    auto eth0 = KJ_ASSERT_NONNULL(netlink::findLink(*there, "eth0"));
    node.mac.assign(eth0.hardwareAddress.asChars().begin(), eth0.hardwareAddress.size());
  });
  watch.put(number, node.place);
}

bool VipNodes::settled(double deadlineSeconds) {
  return harness::eventually(
      [&] {
        int now = watch.onlyHolder();
        return now >= 0 && settledBy(unsigned(now)) >= 0;
      },
      deadlineSeconds);
}

int VipNodes::ownerOf(const std::string& mac) const {
  for (unsigned i = 0; i < kCount; ++i) {
    if (places[i].mac == mac) return int(i);
  }
  return -1;
}

// --- faults

// 0: it does not run.
pid_t VipNodes::pidOf(unsigned number, const std::string& program) const {
  return cluster.program(nodeName(number), program);
}

// Does not signal a later process with the same number.
void VipNodes::send(unsigned number, const std::string& program, pid_t pid, int signal) const {
  if (pid > 0 && pidOf(number, program) == pid) ::kill(pid, signal);
}

void VipNodes::kill(unsigned number, const std::string& program) {
  send(number, program, pidOf(number, program), SIGKILL);
}

Heal VipNodes::stop(unsigned number, const std::string& program) {
  auto pid = pidOf(number, program);
  send(number, program, pid, SIGSTOP);
  return [=, this] { send(number, program, pid, SIGCONT); };
}

Heal VipNodes::slow(unsigned number, const std::string& program) {
  auto pid = pidOf(number, program);
  auto thread = std::make_shared<std::jthread>([=, this](std::stop_token over) {
    while (!over.stop_requested()) {
      send(number, program, pid, SIGSTOP);
      std::this_thread::sleep_for(kStopped);
      send(number, program, pid, SIGCONT);
      std::this_thread::sleep_for(kRunning);
    }
  });
  return [thread] {
    thread->request_stop();
    thread->join();
  };
}

Heal VipNodes::lose(unsigned number) {
  auto start = VipSegment::lose(number);
  return [=, this] {
    start();
    look(number);
  };
}

}  // namespace talos
