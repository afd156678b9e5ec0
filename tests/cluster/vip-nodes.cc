#include "tests/cluster/vip-nodes.h"

#include <kj/debug.h>
#include <signal.h>

#include <memory>
#include <thread>

namespace talos {
namespace {

constexpr auto kStopped = std::chrono::milliseconds(450), kRunning = std::chrono::milliseconds(50);
constexpr auto kAround = 100 * kj::MILLISECONDS;  // around an announcement: it arrives a little
                                                  // later

std::vector<std::string> asContainers(std::vector<std::string> flags) {
  flags.insert(flags.end(), {"--provisioner", "container"});
  return flags;
}

}  // namespace

VipNodes::VipNodes(const std::string& name, std::vector<std::string> flags, unsigned workers)
    : VipSegment(name, "node", asContainers(std::move(flags)), workers),
      watch(Ip::require(kVip), kCount + workers),
      places(kCount + workers) {
  for (unsigned i = 0; i < places.size(); ++i) look(i);
}

VipNodes::~VipNodes() {
  watch.end();
}

// Looks at a node that has just been started, and has a new namespace.
void VipNodes::look(unsigned number) {
  std::lock_guard<std::mutex> lock(mutex);
  auto& node = places[number];
  auto pid = cluster.process(nodeName(number));
  KJ_REQUIRE(pid > 0, "the supervisor has started no such node", nodeName(number).c_str());
  node.place = placeOf(pid);
  inside(node.place, [&] {
    auto there = netlink::openKernel();
    auto eth0 = KJ_ASSERT_NONNULL(netlink::findLink(*there, "eth0"));
    node.mac.assign(eth0.hardwareAddress.asChars().begin(), eth0.hardwareAddress.size());
  });
  node.process1 = pid;
  watch.put(number, node.place);
}

// A node may end while it is looked at; the next call looks again.
void VipNodes::followStarts() {
  for (unsigned i = 0; i < places.size(); ++i) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (cluster.process(nodeName(i)) == places[i].process1) continue;
    }
    (void)kj::runCatchingExceptions([&] { look(i); });
  }
}

std::string VipNodes::hardwareAddress(unsigned node) const {
  std::lock_guard<std::mutex> lock(mutex);
  return places[node].mac;
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
  std::lock_guard<std::mutex> lock(mutex);
  for (unsigned i = 0; i < places.size(); ++i) {
    if (places[i].mac == mac) return int(i);
  }
  return -1;
}

bool VipNodes::isRight(const ArpProber::Claim& claim) {
  int who = ownerOf(claim.mac);
  return who >= 0 && watch.had(unsigned(who), claim.at - kAround, claim.at + kAround);
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
