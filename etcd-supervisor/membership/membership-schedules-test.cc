// Membership as a whole, on a model of everything that it stands on (test-membership-bed.h): random
// schedules of everything that people and machines do to it.
#include <stdlib.h>

#include "etcd-supervisor/membership/test-operator-calls.h"

namespace talos::supervisor {
namespace {

unsigned numberFrom(const char* variable, unsigned otherwise) {
  auto text = getenv(variable);
  return text == nullptr ? otherwise : static_cast<unsigned>(atoi(text));
}

// What happens next to some node, as people and machines do it. Two things people do not do: they
// erase no node without which there is no quorum, and none that is just making the cluster.
void something(World& world) {
  auto& node = *world.nodes[world.pick(static_cast<unsigned>(world.nodes.size()))];
  auto& other = *world.nodes[world.pick(static_cast<unsigned>(world.nodes.size()))];
  switch (world.pick(11)) {
    case 0:
    case 1:
      return bootstrap(world, node, {}, 20 * kj::SECONDS);
    case 2:
    case 3:
      return world.crash(node);
    case 4:
      world.powerOff(node);
      if (world.chance() < 0.8) world.powerOn(node);
      return;
    case 5:
      if (world.quorumWithout(node) && node.disk.intent.state != Intent::State::kMakes) {
        world.reinstall(node);
      }
      return;
    case 6:
      if (world.chance() < 0.5) return withdraw(world, node, Going::kLeaves);
      return leave(world, node);
    case 7:
      if (world.chance() < 0.3) removeMember(world, node, other);
      return;
    case 8:
      if (&node != &other) world.cuts.insert({&node, &other});
      return;
    case 9:
      world.cuts.clear();
      for (auto& one : world.nodes) {
        if (!one->on) world.powerOn(*one);
      }
      return;
    default:
      node.killed = true;
      node.changed.raise();
  }
}

// Empty: all is well at the end.
std::string endOf(World& world) {
  world.crashes = world.losses = world.failures = 0;
  world.cuts.clear();
  for (auto& node : world.nodes) {
    if (!node->on) world.powerOn(*node);
  }
  if (!world.eventually(15 * kj::MINUTES, [&] { return world.pending == 0; })) {
    return "an operation does not end";
  }
  bool formed = world.eventually(15 * kj::MINUTES, [&] {
    if (world.clusters.empty()) {
      if (world.pending == 0) bootstrap(world, *world.nodes[0]);
      return false;
    }
    // Who left, or was removed, joins when it is told to.
    for (auto& node : world.nodes) {
      bool removed = node->disk.data == Data::kWhole && !world.isMember(*node);
      if (removed && world.pending == 0) leave(world, *node);
      if (node->disk.intent.state == Intent::State::kLeft && world.pending == 0) {
        world.powerOff(*node);
        world.powerOn(*node);
      }
    }
    for (auto& node : world.nodes) {
      if (!world.votes(*node) || node->status.phase != "member") return false;
    }
    return world.clusters[0]->members.size() == world.nodes.size();
  });
  if (formed) return "";
  std::string how = "not everybody votes in the end:";
  for (auto& node : world.nodes) {
    how += kj::str(" ", node->config.name, " is ", node->status.phase, " (", node->message.c_str(),
                   ")")
               .cStr();
  }
  how += "; the last calls: ";
  for (size_t i = world.outcomes.size() > 4 ? world.outcomes.size() - 4 : 0;
       i < world.outcomes.size(); ++i) {
    how += world.outcomes[i] + "; ";
  }
  return how;
}

void schedules(World::Knowing knowing) {
  unsigned from = numberFrom("SCHEDULES_FROM", 1), count = numberFrom("SCHEDULES", 60);
  unsigned made = 0;
  for (unsigned seed = from; seed < from + count; ++seed) {
    std::string ending;
    std::vector<std::string> violations;
    {
      Quiet quiet;
      World world(seed, 2 + seed % 3, knowing);
      for (auto& node : world.nodes) world.powerOn(*node);
      world.crashes = 0.1;
      world.losses = 0.02;
      world.failures = 0.1;
      for (unsigned i = 0; i < 25; ++i) {
        world.pass(int64_t(world.chance() * (world.chance() < 0.5 ? 500 : 15000)) *
                   kj::MILLISECONDS);
        something(world);
      }
      if (!world.clusters.empty()) ++made;
      ending = endOf(world);
      violations = world.violations;
    }
    ASSERT_EQ(ending, "") << "schedule " << seed;
    for (auto& what : violations) FAIL() << what << ", schedule " << seed;
  }
  // Otherwise they show nothing.
  EXPECT_GT(made, count / 2);
}

// How many: $SCHEDULES, else few.
TEST(Schedules, NeverTwoClustersAndEverybodyVotesInTheEnd) {
  schedules(World::Knowing::kAll);
}

// Catches: nodes that know of each other by the operator's talosconfig only, and make two clusters.
TEST(Schedules, NeverTwoClustersOfStrangersWithATalosconfigThatNamesThem) {
  schedules(World::Knowing::kStrangers);
}

}  // namespace
}  // namespace talos::supervisor
