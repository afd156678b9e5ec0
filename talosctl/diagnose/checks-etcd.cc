// Checks etcd: its cluster, its members and its data.
#include "common/base/node-messages.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

using Member = rpc::Etcd::Member::Reader;

// Returns the address in https://10.5.0.2:2380; empty without an address.
kj::String addressOf(Member member) {
  for (auto url : member.getPeerUrls()) return hostOf(url).host;
  return kj::String();
}

kj::String memberName(Member member) {
  auto name = member.getName();
  return name.size() > 0 ? kj::str(name) : kj::str("the member that has not started");
}

bool isCertificateProblem(kj::StringPtr text) {
  return hasAny(text, {"certificate has expired", "not yet valid"});
}

// Returns the first node with a quorum that reports the members, otherwise the first node that
// reports them.
kj::Maybe<ObservedNode> reporterOf(ObservedCluster cluster) {
  kj::Maybe<ObservedNode> first;
  for (auto node : cluster.getNodes()) {
    if (!answers(node) || node.getMembers().size() == 0) continue;
    if (node.getQuorum()) return node;
    if (first == nullptr) first = node;
  }
  return first;
}

// Reports an etcd without a bootstrap. The finding is only likely if a node is silent, because this
// node may have a cluster.
void checkBootstrap(ObservedCluster cluster, Findings& findings) {
  kj::Maybe<ObservedNode> waiting;
  bool certain = true;
  for (auto node : cluster.getNodes()) {
    if (mayBeSilentControlPlane(node)) certain = false;
    if (!answers(node) || !node.getControlPlane()) continue;
    auto etcd = node.getEtcd();
    bool waits =
        etcd.getPhase() == "waiting" && has(etcd.getMessage(), messages::kWaitingForCluster);
    if (node.getMembers().size() > 0 || !waits) return;
    if (waiting == nullptr) waiting = node;
  }
  KJ_IF_MAYBE (node, waiting) {
    findings.add(Illness::kEtcdNotBootstrapped)
        .certainIf(certain)
        .with("unless", certain ? "" : ", unless on a node that does not answer")
        .with("reporter", node->getAddress())
        .with("message", node->getEtcd().getMessage());
  }
}

// Adds a finding about a member, on its node.
Finding& addMember(Findings& findings, Illness illness, ObservedNode reporter, Member member) {
  auto& finding = findings.add(illness);
  auto address = addressOf(member);
  if (address.size() > 0) finding.on(address);
  return finding.with("member", memberName(member))
      .with("reporter", reporter.getAddress())
      .with("problem", member.getProblem());
}

void checkCertificates(ObservedCluster cluster, Findings& findings) {
  kj::Vector<kj::String> known;
  for (auto node : cluster.getNodes()) {
    auto message = node.getEtcd().getMessage();
    if (!isCertificateProblem(message)) continue;
    known.add(kj::str(node.getAddress()));
    findings.add(Illness::kEtcdCertificate, node).with("message", message);
  }
  KJ_IF_MAYBE (reporter, reporterOf(cluster)) {
    for (auto member : reporter->getMembers()) {
      if (!isCertificateProblem(member.getProblem()) || !isFirst(known, addressOf(member)))
        continue;
      addMember(findings, Illness::kEtcdMemberCertificate, *reporter, member);
    }
  }
}

void checkMember(ObservedCluster cluster, ObservedNode reporter, Member member,
                 Findings& findings) {
  if (member.getProblem().size() == 0 || isCertificateProblem(member.getProblem())) return;
  KJ_IF_MAYBE (node, nodeAt(cluster, addressOf(member))) {
    if (answers(*node)) {
      addMember(findings, Illness::kEtcdMemberFails, reporter, member)
          .with("peer", node->getAddress())
          .with("message", node->getEtcd().getMessage())
          .with("line",
                newestLine(cluster, *node, "etcd",
                           {.parts = {"\"level\":\"fatal\"", "flag provided but not defined",
                                      "\"level\":\"error\"", "invalid value", "panic"}}));
      return;
    }
  }
  addMember(findings, Illness::kEtcdMemberGone, reporter, member);
}

// Requires a member without an answer; otherwise etcd may only be slow to report its quorum.
void checkQuorum(ObservedNode reporter, Findings& findings) {
  kj::Vector<Member> failing;
  for (auto member : reporter.getMembers()) {
    if (member.getProblem().size() > 0) failing.add(member);
  }
  if (reporter.getQuorum() || failing.empty()) return;
  auto& finding = findings.add(Illness::kEtcdNoQuorum).with("reporter", reporter.getAddress());
  kj::Vector<kj::String> members;
  for (auto member : failing) {
    auto name = memberName(member), address = addressOf(member);
    finding.shows(kj::str("talosctl -n ", reporter.getAddress(), " etcd members"),
                  kj::str(name, ": ", member.getProblem()));
    members.add(kj::str(name, address.size() > 0 ? " " : "", address));
    if (address.size() > 0) finding.on(address);
  }
  finding.with("failing", kj::str(failing.size()))
      .with("count", kj::str(reporter.getMembers().size()))
      .with("members", kj::strArray(members, ", "));
}

// Reports each alarm once, because each node reports the alarms of the whole cluster.
void checkAlarms(ObservedCluster cluster, Findings& findings) {
  for (auto node : cluster.getNodes()) {
    auto alarms = kj::strArray(node.getEtcd().getAlarms(), ", ");
    if (alarms.size() == 0) continue;
    findings.add(has(alarms, "NOSPACE") ? Illness::kEtcdNoSpace : Illness::kEtcdAlarm)
        .with("reporter", node.getAddress())
        .with("alarms", alarms);
    return;
  }
}

void checkMembership(ObservedNode node, bool hasCluster, Findings& findings) {
  auto etcd = node.getEtcd();
  auto phase = etcd.getPhase();
  auto message = etcd.getMessage();
  bool removed = has(message, messages::kRemovedByOthers);
  bool refused = removed || hasAny(message, {messages::kCannotJoin, messages::kNotVoting});
  bool waits = phase == "waiting" && hasCluster && message.size() > 0;
  bool joins = waits || refused || phase == "joining" || phase == "learner";
  if (!answers(node) || !node.getControlPlane() || !joins) return;
  findings
      .add(removed                              ? Illness::kEtcdRemoved
           : has(message, messages::kNameTaken) ? Illness::kEtcdNameTaken
           : phase == "learner"                 ? Illness::kEtcdLearner
                                                : Illness::kEtcdJoining,
           node)
      .certainIf(refused)
      .with("phase", phase)
      .with("message", message);
}

// Blames an argument only if etcd has exited: a line from before the newest start may be obsolete.
void checkService(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  KJ_IF_MAYBE (service, downService(node, "etcd")) {
    auto statement = statementOf(*service);
    auto line = newestLine(
        cluster, node, "etcd",
        {.parts = {"flag provided but not defined", "\"level\":\"fatal\"", "invalid value", "panic",
                   "rejected connection on peer endpoint", "\"level\":\"error\""}});
    bool argument = hasAny(line, {"flag provided but not defined", "invalid value"});
    findings
        .add(!has(statement.text, messages::kExitedWithStatus) ? Illness::kEtcdDown
             : argument                                        ? Illness::kEtcdArgument
                                                               : Illness::kEtcdExits,
             node)
        .with(statement)
        .with("line", line);
  }
}

}  // namespace

void checkEtcd(ObservedCluster cluster, Findings& findings) {
  checkBootstrap(cluster, findings);
  checkCertificates(cluster, findings);
  auto reporter = reporterOf(cluster);
  KJ_IF_MAYBE (node, reporter) {
    for (auto member : node->getMembers()) checkMember(cluster, *node, member, findings);
    checkQuorum(*node, findings);
  }
  checkAlarms(cluster, findings);
  for (auto node : cluster.getNodes()) {
    checkMembership(node, reporter != nullptr, findings);
    checkService(cluster, node, findings);
  }
}

}  // namespace talos::talosctl
