// Three control-plane nodes in virtual machines with a shared address. A fourth host reaches the
// API by it, etcd has three voters, and under all faults of the nodes (vip-faults.h), and of the
// clock of one node, two nodes never answer a client's question for the address. This host cannot
// read the kernels of the machines: a client that asks a hundred times a second is the witness.
//
// A paused machine is the exception: it continues where it was, so it may answer for the rest of
// the address' lifetime (docs/vip.md). The time is printed, and must not be longer than this
// lifetime.
#include <gtest/gtest.h>

#include <optional>
#include <regex>

#include "tests/cluster/vip-faults.h"
#include "tests/harness/time-server.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

constexpr double kTimeout = harness::kBoots;  // s, until all three are as before
constexpr double kLifetime = 2.3;             // s, of the address: the default lease, and a margin
constexpr double kQuestion = 0.01;            // s, between two questions of the client

class Machines : public VipSegment {
 public:
  Machines() : VipSegment("vipvms", "tap", {"--memory", "640", "--no-uplink"}) {}

  // The node that has the address; -1: none gets it.
  int settled(double deadlineSeconds) const {
    int holder = -1;
    eventually(
        [&] {
          for (unsigned i = 0; i < kCount && holder < 0; ++i) holder = settledBy(i);
          return holder >= 0;
        },
        deadlineSeconds);
    return holder;
  }
  // Kills a service by the node's API, the only access to a machine. `service`: "vipd" or "etcd"
  void kill(unsigned node, const std::string& service) override {
    auto sent = at(node, {"service", service, "kill", "--signal", "SIGKILL"}, 60);
    EXPECT_EQ(0, sent.status) << sent.err;
  }
  // Stops the service in an orderly way, because a suspended service could not be resumed.
  Heal stop(unsigned node, const std::string& service) override {
    act(node, service, "stop");
    return [=, this] { act(node, service, "start"); };
  }

 private:
  void act(unsigned node, const std::string& service, const char* what) const {
    auto done = at(node, {"service", service, what}, 60);
    EXPECT_EQ(0, done.status) << done.err;
  }
};

class MachineFaults : public VipFaultRun {
 public:
  explicit MachineFaults(Machines& nodes) : VipFaultRun(nodes, vipFaults()), nodes(nodes) {}

 protected:
  int settled() override { return nodes.settled(kTimeout); }
  void before() override { twice = nodes.client->twice; }
  void check(const VipFault& fault) override {
    auto both = nodes.client->twice - twice;
    if (fault.frozen) {
      afterPause = std::max(afterPause, both);
      EXPECT_LE(both * kQuestion, kLifetime) << nodes.said();
    } else {
      EXPECT_EQ(0u, both) << "two answered one question\n" << nodes.said();
    }
  }
  std::string verdict() const override {
    return kj::str(nodes.client->asked.load(),
                   " questions; two answers only to one machine that was paused, for at most ",
                   unsigned(afterPause * kQuestion * 1000), " ms")
        .cStr();
  }

 private:
  Machines& nodes;
  unsigned twice = 0, afterPause = 0;
};

struct Scenario {
  Machines nodes;

  // Calls a node from a host of the segment that is no node: by the shared address, its certificate
  // checked.
  harness::Result fromAFourthHost(const std::string& node, std::vector<std::string> arguments) {
    std::vector<std::string> all = {harness::talosctlPath(),
                                    "--talosconfig",
                                    nodes.cluster.talosconfig(),
                                    "-e",
                                    Machines::kVip,
                                    "-n",
                                    node};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return inside(nodes.clientPlace, [&] { return harness::run(all, 40); });
  }
  void answersAFourthHost() {
    auto there = fromAFourthHost(Machines::kVip, {"version"});
    EXPECT_EQ(0, there.status) << there.err;
    auto members = fromAFourthHost(nodes.address(1), {"etcd", "members"});
    EXPECT_EQ(0, members.status) << members.err;
    for (unsigned i = 0; i < Machines::kCount; ++i) {
      EXPECT_TRUE(contains(members.out, nodes.nodeName(i))) << members.out;
    }
    EXPECT_FALSE(std::regex_search(members.out, std::regex(":2379 +true"))) << members.out;
  }
  // Sets the holder's clock a year ahead and then back: a lease does not depend on the calendar.
  // The others keep running, and the node's error names its clock.
  void aClockThatIsAYearOff() {
    int holder = nodes.settled(kTimeout);
    ASSERT_GE(holder, 0) << nodes.said();
    auto wrong = unsigned(holder);
    auto twice = nodes.client->twice.load();
    std::optional<harness::TimeServer> clock;
    inside(nodes.clientPlace, [&] { clock.emplace(366 * 86400); });
    auto patched = nodes.at(
        wrong,
        {"patch", "mc", "--immediate", "--patch",
         std::string(R"([{"op": "replace", "path": "/machine/time/servers", "value": [")") +
             Machines::kClient + R"("]}])"},
        80);
    ASSERT_EQ(0, patched.status) << patched.err;
    ASSERT_TRUE(eventually([&] { return clock->answered > 0; }, kTimeout));
    harness::Result said;
    auto namesIt = [&] {
      return contains(said.err, "certificate is not yet valid: it is valid from ") &&
             contains(said.err, "and the clock here shows ");
    };
    auto asked = [&] {
      said = nodes.at(wrong, {"time"});
      return namesIt();
    };
    EXPECT_TRUE(eventually(asked, kTimeout)) << said.out << said.err;
    allAreMembers((wrong + 1) % Machines::kCount);
    // The node may keep the address; a client that calls it by the address gets the same error.
    said = fromAFourthHost(Machines::kVip, {"version"});
    EXPECT_TRUE(said.status == 0 || namesIt()) << said.err;

    clock->ahead = 0;
    auto right = [&] {
      said = nodes.at(wrong, {"time"});
      return said.status == 0;
    };
    EXPECT_TRUE(eventually(right, kTimeout)) << said.out << said.err;
    EXPECT_GE(nodes.settled(kTimeout), 0) << nodes.said();
    allAreMembers(wrong);
    answersAFourthHost();
    EXPECT_EQ(twice, nodes.client->twice.load()) << nodes.said();
  }
  void allAreMembers(unsigned by) {
    auto members = nodes.at(by, {"etcd", "members"}, 30);
    size_t good = 0;
    for (auto& line : harness::lines(members.out)) good += line.ends_with(" OK");
    EXPECT_EQ(Machines::kCount, good) << members.out << members.err;
  }
};

// Catches: two machines that answer for the address, a machine that keeps it without etcd, an
// address that does not come back, certificates without it, and a lease that depends on the
// calendar.
TEST(VipMachines, OneAnswersWhateverHappens) {
  Scenario scenario;
  auto& nodes = scenario.nodes;
  ASSERT_GE(nodes.settled(kTimeout), 0) << nodes.said();
  scenario.answersAFourthHost();
  MachineFaults(nodes).run();
  scenario.answersAFourthHost();
  scenario.aClockThatIsAYearOff();
}

}  // namespace
}  // namespace talos
