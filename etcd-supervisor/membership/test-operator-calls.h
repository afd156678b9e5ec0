// For tests: what operators ask of the nodes of test-membership-bed.h.
#pragma once

#include "etcd-supervisor/membership/test-supervisor-life.h"

namespace talos::supervisor {

inline kj::Array<kj::String> hostsOf(const std::vector<std::string>& texts) {
  kj::Vector<kj::String> hosts;
  for (auto& text : texts) hosts.add(kj::str(text.c_str()));
  return hosts.releaseAsArray();
}

constexpr auto kPatience = 5 * kj::MINUTES;

// With the operator's talosconfig.
inline void bootstrap(World& world, Node& node, std::vector<std::string> without = {},
                      kj::Duration patience = 60 * kj::SECONDS) {
  world.ask<bool>(node, "bootstrap",
                  [without, patience, among = world.talosconfig](Keeper& keeper) {
                    BootstrapRequest request;
                    request.without = hostsOf(without);
                    request.among = hostsOf(among);
                    request.patience = patience;
                    return keeper.bootstrap(kj::mv(request));
                  });
}
// With a snapshot, which arrives at once.
inline void recover(World& world, Node& node) {
  world.ask<bool>(node, "recover", [](Keeper& keeper) {
    BootstrapRequest request;
    request.receive = []() -> kj::Promise<void> { return kj::READY_NOW; };
    return keeper.bootstrap(kj::mv(request));
  });
}
inline void leave(World& world, Node& node, bool force = false) {
  world.ask<void>(node, "leave", [force](Keeper& keeper) { return keeper.leave(force); });
}
inline void withdraw(World& world, Node& node, Going going, bool force = false) {
  world.ask<void>(node, "withdraw", [=](Keeper& keeper) { return keeper.withdraw(going, force); });
}
// What a node says of its going.
inline void lookOut(World& world, Node& node, Going going) {
  world.ask<void>(node, "outlook", [=](Keeper& keeper) {
    return keeper.outlook(going).then([](Outlook&& outlook) {
      KJ_IF_MAYBE (why, outlook.objection) fail(ErrorKind::kFailedPrecondition, *why);
    });
  });
}
inline void removeMember(World& world, Node& node, const Node& other, bool force = false) {
  world.ask<void>(node, kj::str("remove ", other.config.name),
                  [name = kj::str(other.config.name), force](Keeper& keeper) {
                    return keeper.removeMember(kj::str(name), force);
                  });
}

// Three nodes, and their operator.
class Membership : public testing::Test {
 protected:
  Quiet quiet;
  World world{1, 3};
  Node& n1 = *world.nodes[0];
  Node& n2 = *world.nodes[1];
  Node& n3 = *world.nodes[2];

  void boot() {
    for (auto& node : world.nodes) world.powerOn(*node);
  }
  bool all() {
    return world.votes(n1) && world.votes(n2) && world.votes(n3) && n1.status.phase == "member" &&
           n2.status.phase == "member" && n3.status.phase == "member";
  }
  void formed() {
    boot();
    world.pass(5 * kj::SECONDS);
    bootstrap(world, n1);
    ASSERT_TRUE(world.eventually(kPatience, [&] { return all(); }));
    world.outcomes.clear();
    // The model's etcd, like the real one, counts a member after it was up for a while.
    world.pass(10 * kj::SECONDS);
  }
  std::string outcome() {
    EXPECT_TRUE(world.eventually(kPatience, [&] { return world.pending == 0; }));
    return world.outcomes.empty() ? "none" : world.outcomes.back();
  }

  ~Membership() noexcept override {
    for (auto& what : world.violations) ADD_FAILURE() << what;
  }
};

}  // namespace talos::supervisor
