// Membership as a whole, on a model of its whole environment (test-membership-bed.h): random
// schedules of everything that people and machines do to it.
#include <stdlib.h>

#include "etcd-supervisor/membership/test-operator-calls.h"

namespace talos::supervisor {
namespace {

unsigned numberFrom(const char* variable, unsigned otherwise) {
  auto text = getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(atoi(text));
}

// Causes a random event at some node, by people or machines. People do not do two things: erase a
// node without which there is no quorum, or one that is just making the cluster.
void something(Testbed& bed) {
  auto& node = *bed.nodes[bed.pick(static_cast<unsigned>(bed.nodes.size()))];
  auto& other = *bed.nodes[bed.pick(static_cast<unsigned>(bed.nodes.size()))];
  switch (bed.pick(11)) {
    case 0:
    case 1:
      return bootstrap(bed, node, {}, 20 * kj::SECONDS);
    case 2:
    case 3:
      return bed.crash(node);
    case 4:
      bed.powerOff(node);
      if (bed.chance() < 0.8) bed.powerOn(node);
      return;
    case 5:
      if (bed.quorumWithout(node) && node.disk.intent.state != Intent::State::kMakes) {
        bed.reinstall(node);
      }
      return;
    case 6:
      if (bed.chance() < 0.5) return withdraw(bed, node, Going::kLeaves);
      return leave(bed, node);
    case 7:
      if (bed.chance() < 0.3) removeMember(bed, node, other);
      return;
    case 8:
      if (&node != &other) bed.cuts.insert({&node, &other});
      return;
    case 9:
      bed.cuts.clear();
      for (auto& one : bed.nodes) {
        if (!one->on) bed.powerOn(*one);
      }
      return;
    default:
      node.killed = true;
      node.changed.raise();
  }
}

// Returns an empty text if all is well at the end.
std::string endOf(Testbed& bed) {
  bed.crashes = bed.losses = bed.failures = 0;
  bed.cuts.clear();
  for (auto& node : bed.nodes) {
    if (!node->on) bed.powerOn(*node);
  }
  if (!bed.eventually(15 * kj::MINUTES, [&] { return bed.pending == 0; })) {
    return "an operation does not end";
  }
  bool formed = bed.eventually(15 * kj::MINUTES, [&] {
    if (bed.clusters.empty()) {
      if (bed.pending == 0) bootstrap(bed, *bed.nodes[0]);
      return false;
    }
    // A node that left, or was removed, joins after a reboot.
    for (auto& node : bed.nodes) {
      bool removed = node->disk.data == Data::kWhole && !bed.isMember(*node);
      if (removed && bed.pending == 0) leave(bed, *node);
      if (node->disk.intent.state == Intent::State::kLeft && bed.pending == 0) {
        bed.powerOff(*node);
        bed.powerOn(*node);
      }
    }
    for (auto& node : bed.nodes) {
      if (!bed.votes(*node) || node->status.phase != "member") return false;
    }
    return bed.clusters[0]->members.size() == bed.nodes.size();
  });
  if (formed) return "";
  std::string how = "not everybody votes in the end:";
  for (auto& node : bed.nodes) {
    how += kj::str(" ", node->config.name, " is ", node->status.phase, " (", node->message.c_str(),
                   ")")
               .cStr();
  }
  how += "; the last calls: ";
  for (size_t i = bed.outcomes.size() > 4 ? bed.outcomes.size() - 4 : 0; i < bed.outcomes.size();
       ++i) {
    how += bed.outcomes[i] + "; ";
  }
  return how;
}

void schedules(Testbed::Knowing knowing) {
  unsigned from = numberFrom("SCHEDULES_FROM", 1), count = numberFrom("SCHEDULES", 60);
  unsigned made = 0;
  for (unsigned seed = from; seed < from + count; ++seed) {
    std::string ending;
    std::vector<std::string> violations;
    {
      Quiet quiet;
      Testbed bed(seed, 2 + seed % 3, knowing);
      for (auto& node : bed.nodes) bed.powerOn(*node);
      bed.crashes = 0.1;
      bed.losses = 0.02;
      bed.failures = 0.1;
      for (unsigned i = 0; i < 25; ++i) {
        bed.pass(int64_t(bed.chance() * (bed.chance() < 0.5 ? 500 : 15000)) * kj::MILLISECONDS);
        something(bed);
      }
      if (!bed.clusters.empty()) ++made;
      ending = endOf(bed);
      violations = bed.violations;
    }
    ASSERT_EQ(ending, "") << "schedule " << seed;
    for (auto& what : violations) FAIL() << what << ", schedule " << seed;
  }
  // Otherwise they show nothing.
  EXPECT_GT(made, count / 2);
}

// Runs $SCHEDULES schedules, by default few.
TEST(Schedules, NeverTwoClustersAndEverybodyVotesInTheEnd) {
  schedules(Testbed::Knowing::kAll);
}

// Catches: nodes that know of each other by the operator's talosconfig only, and make two clusters.
TEST(Schedules, NeverTwoClustersOfStrangersWithATalosconfigThatNamesThem) {
  schedules(Testbed::Knowing::kStrangers);
}

}  // namespace
}  // namespace talos::supervisor
