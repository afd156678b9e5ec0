#include "etcd-supervisor/plan/join-plan.h"

#include "common/base/node-messages.h"
#include "common/text/texts.h"
#include "etcd-supervisor/plan/etcd-quorum.h"

namespace talos::supervisor {
namespace {

JoinStep waitFor(kj::String message) {
  return {JoinStep::What::kWait, 0, kj::mv(message)};
}

}  // namespace

JoinStep planJoin(kj::StringPtr name, kj::StringPtr peerUrl,
                  kj::ArrayPtr<const MemberProbe> members) {
  for (auto& probe : members) {
    auto& member = probe.member;
    bool sameUrl = contains(member.peerUrls, peerUrl), sameName = member.name == name;
    if (!sameUrl && !sameName) continue;
    // Silence does not prove that the member is gone: it may be rebooting.
    if (!sameUrl) {
      auto what =
          kj::str("another member, ", hex(member.id), " with ", joined(member.peerUrls),
                  messages::kNameTaken, name, " too; set machine.network.hostname of one of them");
      if (probe.answers) return waitFor(kj::mv(what));
      return waitFor(kj::str(what, ", or, if it was this node, run talosctl etcd remove-member ",
                             hex(member.id)));
    }
    if (probe.answers) {
      return waitFor(kj::str("an etcd that is not this node's answers at ", peerUrl));
    }
    auto removal = removalOf(members, member.id);
    KJ_IF_MAYBE (objection, removal.objection) {
      return waitFor(kj::str("the cluster still has this node's former member ", hex(member.id),
                             ", which cannot be removed: ", *objection));
    }
    if (removal.last) {
      return waitFor(kj::str("this node's former member ", hex(member.id),
                             " is the only voter of the cluster, and its data is gone"));
    }
    return {JoinStep::What::kRemove, member.id,
            kj::str("the former member ", hex(member.id), " of this node, whose data is gone")};
  }
  for (auto& probe : members) {
    if (!probe.member.learner) continue;
    return waitFor(kj::str("waiting until ", describe(probe.member),
                           " votes: etcd takes one new member at a time; if its node is gone, run "
                           "talosctl etcd remove-member ",
                           hex(probe.member.id)));
  }
  return {};
}

}  // namespace talos::supervisor
