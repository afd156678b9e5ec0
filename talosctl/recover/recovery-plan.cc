#include "talosctl/recover/recovery-plan.h"

#include "common/base/error.h"
#include "common/net/ip.h"
#include "common/text/texts.h"

namespace talos::talosctl {
namespace {

bool isOf(const KnownMember& member, const RecoveryNode& node) {
  if (isSameHost(member.host, node.address)) return true;
  return member.name.size() > 0 && member.name == node.hostname;
}

bool isNamed(kj::ArrayPtr<const kj::String> names, const KnownMember& member) {
  for (auto& name : names) {
    if (isSameHost(name, member.host) || (member.name.size() > 0 && name == member.name))
      return true;
  }
  return false;
}

kj::String nameOf(const KnownMember& member) {
  return member.name.size() > 0 ? kj::str(member.name, " (", member.host, ")")
                                : kj::str(member.host);
}

void judgeNode(const RecoveryNode& node, kj::Vector<kj::String>& refusals) {
  KJ_IF_MAYBE (why, node.silence) {
    refusals.add(kj::str(node.address, " does not answer: ", *why,
                         "; start it, or leave it out of --nodes and name it in --without if it "
                         "is gone for good"));
    return;
  }
  if (!node.controlPlane) {
    refusals.add(kj::str(node.address, " is a worker, which has no etcd; leave it out of --nodes"));
  } else if (node.quorum) {
    refusals.add(kj::str(node.address,
                         " is a member of a cluster that has its quorum: nothing is lost; a member "
                         "that is gone is replaced with talosctl etcd remove-member"));
  }
}

// Judges the voters that one member knows: each must be accounted for, and too few of them may have
// their data.
void judgeMembers(const RecoveryNode& witness, kj::ArrayPtr<const RecoveryNode> nodes,
                  const RecoveryRequest& request, kj::Vector<kj::String>& refusals) {
  size_t voters = 0, alive = 0;
  kj::Vector<kj::String> states;
  for (auto& member : witness.members) {
    if (member.learner) continue;
    ++voters;
    bool found = isNamed(request.without, member);
    for (auto& node : nodes) {
      if (!isOf(member, node)) continue;
      found = true;
      if (node.silence != nullptr || node.isEmpty()) continue;
      ++alive;
      states.add(kj::str(node.address, " is ", stateText(node)));
    }
    if (found) continue;
    refusals.add(kj::str(nameOf(member),
                         " is a member of the cluster and not among the nodes: with its data the "
                         "quorum may come back; name it in --nodes, or in --without if it is gone "
                         "for good"));
  }
  if (voters == 0 || alive < voters / 2 + 1) return;
  refusals.add(kj::str(alive, " of ", voters,
                       " voters have their data, which is a quorum: ", kj::strArray(states, "; "),
                       "; repair that, or use --force to give their data up"));
}

// Refuses a node with data of a cluster whose members it cannot name.
void judgeUnknown(const RecoveryNode& node, kj::Vector<kj::String>& refusals) {
  refusals.add(kj::str(node.address, " is ", stateText(node),
                       "; it has data, and its etcd does not say who the other members are: repair "
                       "it, or use --force if they are gone or among the nodes"));
}

}  // namespace

kj::String stateText(const RecoveryNode& node) {
  KJ_IF_MAYBE (why, node.silence) return kj::str("does not answer: ", *why);
  return kj::str(node.phase, node.message.size() > 0 ? ": " : "", node.message);
}

RecoveryPlan planRecovery(kj::ArrayPtr<const RecoveryNode> nodes, const RecoveryRequest& request) {
  RecoveryPlan plan;
  kj::Vector<kj::String> refusals;
  for (auto& node : nodes) judgeNode(node, refusals);
  for (auto& node : nodes) {
    bool judged = node.silence == nullptr && node.controlPlane && !node.quorum && !request.force;
    if (!judged) continue;
    if (!node.members.empty()) {
      judgeMembers(node, nodes, request, refusals);
    } else if (!node.isEmpty()) {
      judgeUnknown(node, refusals);
    }
  }
  // Members of one cluster cause the same refusals, so each is added once.
  for (auto& refusal : refusals) addOnce(plan.refusals, kj::mv(refusal));
  for (auto& node : nodes) {
    if (!node.isEmpty()) plan.erased.add(kj::str(node.address));
  }
  return plan;
}

kj::Maybe<SnapshotStatement> judgeSignature(kj::ArrayPtr<const RecoveryNode> nodes,
                                            const SignedSnapshot& snapshot,
                                            kj::Vector<kj::String>& refusals) {
  kj::Maybe<SnapshotStatement> statement;
  for (auto& node : nodes) {
    if (node.silence != nullptr || !node.controlPlane) continue;  // refused for this reason already
    auto failure = kj::runCatchingExceptions([&] {
      auto accepted = kj::str(node.authorities, "\n", snapshot.authorities);
      if (accepted.findFirst('-') == nullptr) {
        fail(ErrorKind::kFailedPrecondition,
             "the node does not say which CAs of etcd it accepts, as one of an earlier release");
      }
      auto found = verifySnapshot(snapshot.signature, accepted);
      found.requireFor(snapshot.databaseBytes, snapshot.digest);
      statement = kj::mv(found);
    });
    KJ_IF_MAYBE (e, failure) {
      refusals.add(kj::str(node.address, ": ", messageOf(*e),
                           "; if etcd had another CA then, name it with --etcd-ca"));
      return nullptr;
    }
  }
  return statement;
}

kj::Vector<kj::String> lossLines(kj::ArrayPtr<const RecoveryNode> nodes, int64_t revision) {
  kj::Vector<kj::String> lines;
  for (auto& node : nodes) {
    KJ_IF_MAYBE (own, node.revision) {
      auto has = kj::str(node.address, " has revision ", *own, ": ");
      if (*own > revision) {
        lines.add(kj::str(has, *own - revision, " newer than the snapshot (", revision,
                          "), which are lost; talosctl etcd snapshot -n ", node.address,
                          " saves them, and can be recovered from instead"));
      } else {
        lines.add(kj::str(has, "nothing that the snapshot (", revision, ") has not"));
      }
    }
  }
  return lines;
}

}  // namespace talos::talosctl
