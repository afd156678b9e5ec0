// Finds the other members of this node's cluster when all of them have new addresses, and leads the
// connections of its etcd there (plan/moved-member.h says why no second cluster can come of it).
//
// It begins when this node has moved (hasMoved()) and there has been no quorum for kSearchAfter:
// then etcd is restarted with the proxy, which costs nothing, because it answers nothing without a
// quorum. Until it has one, the places of members are searched at growing intervals. When the
// members have this node's new address, etcd's spec is without the proxy again, and etcd is
// restarted in its turn (etcd-restart-turn.h).
//
// The only state is the spec of etcd in machined's store, which says whether etcd gets the proxy,
// and the routes in memory. The proxy itself is always open, because an etcd that must get along
// without it may have to wait for its turn. A crash of this process ends etcd's connections through
// the proxy; the next process leads new ones to the addresses that the members have by then, and
// searches again while there is no quorum.
#pragma once

#include "common/base/backoff.h"
#include "etcd-supervisor/membership/cluster-view.h"
#include "etcd-supervisor/membership/local-member.h"
#include "etcd-supervisor/plan/moved-member.h"

namespace talos::supervisor {

class MemberSearch {
 public:
  // Longer than the members of a cluster need to elect a leader after they have been started
  // together.
  static constexpr auto kSearchAfter = 10 * kj::SECONDS;

  MemberSearch(Dependencies& deps, LocalMember& self) : deps(deps), self(self) {}
  KJ_DISALLOW_COPY_AND_MOVE(MemberSearch);

  // Decides whether etcd needs the proxy. Called after each look at the cluster.
  void observe(const ObservedCluster& observed);
  // Searches while it is needed. Never ends.
  kj::Promise<void> run();

 private:
  Dependencies& deps;
  LocalMember& self;
  Signal changed;  // whether a search is needed
  bool quorum = false, said = false;
  kj::Maybe<kj::TimePoint> lonely;  // moved and without a quorum since

  kj::Promise<void> searchOnce();
  void say(kj::String text);
};

}  // namespace talos::supervisor
