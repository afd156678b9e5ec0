// Checks etcd: its cluster, its members and its data.
#include "common/base/node-messages.h"
#include "common/net/dns-resolver.h"
#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

using Member = rpc::Etcd::Member::Reader;

constexpr auto kRecover = "talosctl -n {all} cluster recover <snapshot>"_kj;
constexpr auto kRecoverNewest =
    "talosctl -n {holders} etcd status -o yaml    # also of any other member that has its data, "
    "once "
    "it runs; with the node of the highest revision: talosctl -n <this node> etcd snapshot <file> "
    "&& "
    "talosctl -n {all} cluster recover <this file>"_kj;

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

// Returns evidence that a cluster has run here: the list of its control plane, which a node keeps
// on STATE, or the kubelet of a worker, which runs only with a certificate of Kubernetes.
kj::Maybe<Statement> pastCluster(ObservedCluster cluster) {
  for (auto node : cluster.getNodes()) {
    auto hosts = node.getPastControlPlane();
    if (hosts.size() == 0) continue;
    return Statement{
        kj::str("talosctl -n ", node.getAddress(), " read /system/state/control-plane-nodes"),
        kj::strArray(hosts, ", ")};
  }
  for (auto node : cluster.getNodes()) {
    if (!answers(node) || node.getControlPlane() || isUnanswered(node, Question::STATUS)) continue;
    KJ_IF_MAYBE (service, serviceOf(node, "kubelet")) {
      if (service->getState() != rpc::ServiceState::RUNNING) continue;
      return Statement{kj::str("talosctl -n ", node.getAddress(), " service kubelet"),
                       kj::str("Running: Kubernetes has given it a certificate")};
    }
  }
  return nullptr;
}

// The control-plane nodes while none of those that answer has data of etcd.
struct WaitingControlPlane {
  kj::Vector<kj::String> waiting, missing;  // addresses; `missing`: may have data
  bool pastKnown = true;                    // it is known if the waiting nodes were in a cluster

  explicit WaitingControlPlane(ObservedCluster cluster) {
    kj::Vector<kj::String> past;  // hosts of the control plane, as the nodes have kept them
    for (auto node : cluster.getNodes()) {
      for (auto host : node.getPastControlPlane()) isFirst(past, host);
    }
    for (auto node : cluster.getNodes()) {
      auto address = node.getAddress();
      bool listed = past.empty() || node.getControlPlane();
      for (auto& host : past) listed = listed || host == address;
      if (mayBeSilentControlPlane(node) && listed) missing.add(kj::str(address));
      if (!answers(node) || !node.getControlPlane()) continue;
      waiting.add(kj::str(address));
      pastKnown = pastKnown && node.getPastRead();
    }
    for (auto& host : past) {
      if (asAddress(host) != nullptr && nodeAt(cluster, host) == nullptr) isFirst(missing, host);
    }
  }
  kj::String all() const {
    return kj::str(kj::strArray(waiting, ","), missing.size() > 0 ? "," : "",
                   kj::strArray(missing, ","));
  }
};

bool waitsForCluster(ObservedNode node) {
  auto etcd = node.getEtcd();
  return etcd.getPhase() == "waiting" && has(etcd.getMessage(), messages::kWaitingForCluster);
}

// Returns why the node is not a voting member; nullptr if it is one, or has no cluster to join.
kj::Maybe<Illness> membershipIllness(ObservedNode node, bool hasCluster) {
  auto etcd = node.getEtcd();
  auto phase = etcd.getPhase();
  auto message = etcd.getMessage();
  bool removed = has(message, messages::kRemovedByOthers);
  bool refused = removed || hasAny(message, {messages::kCannotJoin, messages::kNotVoting});
  bool waits = phase == "waiting" && hasCluster && message.size() > 0;
  bool joins = waits || refused || phase == "joining" || phase == "learner";
  if (!answers(node) || !node.getControlPlane() || !joins) return nullptr;
  return removed                              ? Illness::kEtcdRemoved
         : has(message, messages::kNameTaken) ? Illness::kEtcdNameTaken
         : phase == "learner"                 ? Illness::kEtcdLearner
         : waitsForCluster(node)              ? Illness::kEtcdRejoins
                                              : Illness::kEtcdJoining;
}

// Reports an etcd without a cluster: a new one, which needs a bootstrap, or one that has lost its
// data, for which a bootstrap would be the end.
void checkBootstrap(ObservedCluster cluster, Findings& findings) {
  if (cluster.hasSurvey()) return;  // Kubernetes answers, so a cluster exists
  kj::Maybe<ObservedNode> reporter;
  for (auto node : cluster.getNodes()) {
    if (!answers(node) || !node.getControlPlane()) continue;
    if (node.getMembers().size() > 0 || !waitsForCluster(node)) return;
    if (reporter == nullptr) reporter = node;
  }
  KJ_IF_MAYBE (node, reporter) {
    WaitingControlPlane nodes(cluster);
    bool complete = nodes.missing.empty();
    auto past = pastCluster(cluster);
    auto& finding = findings
                        .add(past == nullptr ? Illness::kEtcdNotBootstrapped
                             : complete      ? Illness::kEtcdDataLost
                                             : Illness::kEtcdAwaitsMembers)
                        .with("reporter", node->getAddress())
                        .with("message", node->getEtcd().getMessage())
                        .with("waiting", kj::strArray(nodes.waiting, ", "))
                        .with("missing", kj::strArray(nodes.missing, ", "))
                        .with("all", nodes.all())
                        .with("unless", complete ? "" : ", unless on a node that does not answer");
    KJ_IF_MAYBE (evidence, past) {
      finding.with("source", evidence->source).with("past", evidence->text);
    } else {
      finding.certainIf(complete && nodes.pastKnown);
    }
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

// Leaves a node without data to the checks of the quorum and of the membership. Without a quorum no
// member can be removed, and the check of the quorum names the members whose nodes are gone.
void checkMember(ObservedCluster cluster, ObservedNode reporter, Member member,
                 Findings& findings) {
  if (member.getProblem().size() == 0 || isCertificateProblem(member.getProblem())) return;
  KJ_IF_MAYBE (node, nodeAt(cluster, addressOf(member))) {
    if (answers(*node)) {
      if (membershipIllness(*node, true) != nullptr) return;
      addMember(findings, Illness::kEtcdMemberFails, reporter, member)
          .alsoBecause({"etcd"})
          .with("peer", node->getAddress())
          .with("message", node->getEtcd().getMessage())
          .with("line",
                newestLine(cluster, *node, "etcd",
                           {.parts = {"\"level\":\"fatal\"", "flag provided but not defined",
                                      "\"level\":\"error\"", "invalid value", "panic"}}));
      return;
    }
  }
  if (reporter.getQuorum()) addMember(findings, Illness::kEtcdMemberGone, reporter, member);
}

// Returns true if the data of the member is gone: its node waits for a cluster that it can join.
bool hasLostData(ObservedCluster cluster, Member member) {
  KJ_IF_MAYBE (node, nodeAt(cluster, addressOf(member))) {
    return answers(*node) && node->getEtcd().getPhase() == "waiting";
  }
  return false;
}

// Returns the addresses of the nodes whose member has its data and answers. A learner may lack
// newer data.
kj::Vector<kj::StringPtr> holdersOf(ObservedCluster cluster) {
  kj::Vector<kj::StringPtr> holders;
  for (auto node : cluster.getNodes()) {
    for (auto member : node.getMembers()) {
      bool holds = member.getLocal() && !member.getLearner() && member.getProblem().size() == 0;
      if (answers(node) && holds) holders.add(node.getAddress());
    }
  }
  return holders;
}

// Members of a cluster without a quorum.
struct LostQuorum {
  kj::Vector<Member> failing, lost;  // lost: without data
  kj::Vector<kj::String> all;        // addresses
  size_t voters = 0;

  LostQuorum(ObservedCluster cluster, ObservedNode reporter) {
    for (auto member : reporter.getMembers()) {
      auto address = addressOf(member);
      if (address.size() > 0) all.add(kj::mv(address));
      if (!member.getLearner()) ++voters;
      if (member.getProblem().size() == 0) continue;
      failing.add(member);
      if (!member.getLearner() && hasLostData(cluster, member)) lost.add(member);
    }
  }
  size_t left() const { return voters - lost.size(); }  // voters that may have their data
  // Returns true if the members that have their data are too few for a quorum.
  bool isFinal() const { return !lost.empty() && left() < voters / 2 + 1; }
};

// Requires a member without an answer; otherwise etcd may only be slow to report its quorum.
void checkQuorum(ObservedCluster cluster, ObservedNode reporter, Findings& findings) {
  LostQuorum quorum(cluster, reporter);
  if (reporter.getQuorum() || quorum.failing.empty()) return;
  bool isFinal = quorum.isFinal();
  auto& finding = findings.add(isFinal ? Illness::kEtcdQuorumLost : Illness::kEtcdNoQuorum)
                      .alsoBecause({"etcd"});
  kj::Vector<kj::String> members;
  for (auto member : isFinal ? quorum.lost : quorum.failing) {
    auto name = memberName(member), address = addressOf(member);
    finding.shows(kj::str("talosctl -n ", reporter.getAddress(), " etcd members"),
                  kj::str(name, ": ", member.getProblem()));
    members.add(kj::str(name, address.size() > 0 ? " " : "", address));
    if (address.size() > 0) finding.on(address);
  }
  auto holders = holdersOf(cluster);
  if (isFinal && holders.empty()) {
    finding.useRemedy(kRecover);
  } else if (isFinal && quorum.left() > 1) {
    finding.useRemedy(kRecoverNewest);
  }
  finding.with("failing", kj::str(quorum.failing.size()))
      .with("lost", kj::str(quorum.lost.size()))
      .with("count", kj::str(reporter.getMembers().size()))
      .with("members", kj::strArray(members, ", "))
      .with("all", kj::strArray(quorum.all, ","))
      .with("holder", holders.empty() ? ""_kj : holders[0])
      .with("holders", kj::strArray(holders, ","));
}

// Reports each alarm once, because each node reports the alarms of the whole cluster.
void checkAlarms(ObservedCluster cluster, Findings& findings) {
  for (auto node : cluster.getNodes()) {
    auto alarms = kj::strArray(node.getEtcd().getAlarms(), ", ");
    if (alarms.size() == 0) continue;
    findings
        .add(has(alarms, "CORRUPT")   ? Illness::kEtcdCorrupt
             : has(alarms, "NOSPACE") ? Illness::kEtcdNoSpace
                                      : Illness::kEtcdAlarm)
        .with("reporter", node.getAddress())
        .with("alarms", alarms);
    return;
  }
}

void checkMembership(ObservedNode node, bool hasCluster, Findings& findings) {
  KJ_IF_MAYBE (illness, membershipIllness(node, hasCluster)) {
    auto message = node.getEtcd().getMessage();
    findings.add(*illness, node)
        .alsoBecause({"etcd"})
        .certainIf(hasAny(
            message, {messages::kRemovedByOthers, messages::kCannotJoin, messages::kNotVoting}))
        .with("phase", node.getEtcd().getPhase())
        .with("message", message);
  }
}

// Blames an argument only if etcd has exited with an error: a line from before the newest start may
// be obsolete, and an etcd that the others have removed exits with status 0.
Illness etcdServiceIllness(rpc::Service::Reader service, kj::StringPtr text, kj::StringPtr line) {
  if (isStopped(service)) return Illness::kEtcdStopped;
  if (has(line, "rejected connection on peer endpoint") && has(line, "certificate")) {
    return Illness::kEtcdOfOtherCluster;
  }
  if (!exitedWithError(text)) return Illness::kEtcdDown;
  bool argument = hasAny(line, {"flag provided but not defined", "invalid value"});
  return argument ? Illness::kEtcdArgument : Illness::kEtcdExits;
}

// Returns true if the service shows by itself why etcd does not run, so it is no consequence of the
// membership. An etcd that is no member may exit for that.
bool explainsItself(Illness illness, bool isMember) {
  switch (illness) {
    case Illness::kEtcdStopped:
    case Illness::kEtcdArgument:
      return true;
    case Illness::kEtcdExits:
    case Illness::kEtcdOfOtherCluster:
      return isMember;
    default:
      return false;
  }
}

void checkService(ObservedCluster cluster, ObservedNode node, Findings& findings) {
  KJ_IF_MAYBE (service, downService(node, "etcd")) {
    auto statement = statementOf(*service);
    auto line = newestLine(
        cluster, node, "etcd",
        {.parts = {"flag provided but not defined", "\"level\":\"fatal\"", "invalid value", "panic",
                   "rejected connection on peer endpoint", "\"level\":\"error\""}});
    auto illness = etcdServiceIllness(*service, statement.text, line);
    bool stopped = illness == Illness::kEtcdStopped;
    auto& finding =
        findings.add(illness, node).with(statement).with("line", stopped ? ""_kj : line);
    if (stopped) finding.isItsOwnCause();
    if (explainsItself(illness, membershipIllness(node, true) == nullptr)) {
      finding.precedes("etcd-member");
    }
  }
}

}  // namespace

void checkEtcd(ObservedCluster cluster, Findings& findings) {
  checkBootstrap(cluster, findings);
  checkCertificates(cluster, findings);
  auto reporter = reporterOf(cluster);
  KJ_IF_MAYBE (node, reporter) {
    for (auto member : node->getMembers()) checkMember(cluster, *node, member, findings);
    checkQuorum(cluster, *node, findings);
  }
  checkAlarms(cluster, findings);
  for (auto node : cluster.getNodes()) {
    checkMembership(node, reporter != nullptr || cluster.hasSurvey(), findings);
    checkService(cluster, node, findings);
  }
}

}  // namespace talos::talosctl
