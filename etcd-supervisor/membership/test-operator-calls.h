// Operators' requests to the nodes of test-membership-bed.h.
#pragma once

#include "etcd-supervisor/membership/test-supervisor-life.h"

namespace talos::supervisor {

inline kj::Array<kj::String> hostsOf(const std::vector<std::string>& texts) {
  kj::Vector<kj::String> hosts;
  for (auto& text : texts) hosts.add(kj::str(text.c_str()));
  return hosts.releaseAsArray();
}

constexpr auto kTimeout = 5 * kj::MINUTES;

// Bootstraps with the operator's talosconfig.
inline void bootstrap(Testbed& bed, Node& node, std::vector<std::string> without = {},
                      kj::Duration timeout = 60 * kj::SECONDS) {
  bed.ask<bool>(node, "bootstrap",
                [without, timeout, among = bed.talosconfig](MembershipReconciler& reconciler) {
                  BootstrapRequest request;
                  request.without = hostsOf(without);
                  request.among = hostsOf(among);
                  request.timeout = timeout;
                  return reconciler.bootstrap(kj::mv(request));
                });
}
// Bootstraps with a snapshot, which arrives at once.
inline void recover(Testbed& bed, Node& node) {
  bed.ask<bool>(node, "recover", [](MembershipReconciler& reconciler) {
    BootstrapRequest request;
    request.receive = []() -> kj::Promise<void> { return kj::READY_NOW; };
    return reconciler.bootstrap(kj::mv(request));
  });
}
inline void leave(Testbed& bed, Node& node, bool force = false) {
  bed.ask<void>(node, "leave",
                [force](MembershipReconciler& reconciler) { return reconciler.leave(force); });
}
inline void withdraw(Testbed& bed, Node& node, Going going, bool force = false) {
  bed.ask<void>(node, "withdraw", [=](MembershipReconciler& reconciler) {
    return reconciler.withdraw(going, force);
  });
}
// Requests the outlook of a node.
inline void lookOut(Testbed& bed, Node& node, Going going) {
  bed.ask<void>(node, "outlook", [=](MembershipReconciler& reconciler) {
    return reconciler.outlook(going).then([](Outlook&& outlook) {
      KJ_IF_MAYBE (objection, outlook.objection) fail(ErrorKind::kFailedPrecondition, *objection);
    });
  });
}
inline void removeMember(Testbed& bed, Node& node, const Node& other, bool force = false) {
  bed.ask<void>(node, kj::str("remove ", other.config.name),
                [name = kj::str(other.config.name), force](MembershipReconciler& reconciler) {
                  return reconciler.removeMember(kj::str(name), force);
                });
}

// Three nodes, and their operator.
class Membership : public testing::Test {
 protected:
  Quiet quiet;
  Testbed bed{1, 3};
  Node& n1 = *bed.nodes[0];
  Node& n2 = *bed.nodes[1];
  Node& n3 = *bed.nodes[2];

  void boot() {
    for (auto& node : bed.nodes) bed.powerOn(*node);
  }
  bool all() {
    return bed.votes(n1) && bed.votes(n2) && bed.votes(n3) && n1.status.phase == "member" &&
           n2.status.phase == "member" && n3.status.phase == "member";
  }
  void formed() {
    boot();
    bed.pass(5 * kj::SECONDS);
    bootstrap(bed, n1);
    ASSERT_TRUE(bed.eventually(kTimeout, [&] { return all(); }));
    bed.outcomes.clear();
    // The model's etcd, like the real one, counts a member only after it was up for a while.
    bed.pass(10 * kj::SECONDS);
  }
  std::string outcome() {
    EXPECT_TRUE(bed.eventually(kTimeout, [&] { return bed.pending == 0; }));
    return bed.outcomes.empty() ? "none" : bed.outcomes.back();
  }

  ~Membership() noexcept override {
    for (auto& what : bed.violations) ADD_FAILURE() << what;
  }
};

}  // namespace talos::supervisor
