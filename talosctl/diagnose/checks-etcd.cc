// etcd: its cluster, its members and its data.
#include <string.h>

#include "talosctl/diagnose/observed.h"

namespace talos::talosctl {
namespace {

using Member = rpc::Etcd::Member::Reader;

constexpr kj::StringPtr kWaitsForCluster = "waiting for a cluster"_kj;

// The address of https://10.5.0.2:2380.
kj::String hostOfMember(Member member) {
  for (auto url : member.getPeerUrls()) return hostOf(url).host;
  return kj::String();
}

kj::String memberName(Member member) {
  auto name = member.getName();
  return name.size() > 0 ? kj::str(name) : kj::str("the member that has not started");
}

bool hasCertificateProblem(kj::StringPtr text) {
  return hasAny(text, {"certificate has expired", "certificate is not yet valid", "not yet valid"});
}

// The members as the first node that tells them with a quorum sees them, else the first at all.
kj::Maybe<SeenNode> teller(Seen seen) {
  kj::Maybe<SeenNode> first;
  for (auto node : seen.getNodes()) {
    if (!answers(node) || node.getMembers().size() == 0) continue;
    if (node.getQuorum()) return node;
    if (first == nullptr) first = node;
  }
  return first;
}

}  // namespace

void checkEtcdBootstrap(Seen seen, Report& report) {
  kj::Maybe<SeenNode> waiting;
  bool all = true;
  for (auto node : seen.getNodes()) {
    if (!answers(node)) {
      // It may have a cluster.
      if (isControlPlane(node) || node.getReach() == Reach::SILENT) all = false;
      continue;
    }
    if (!isControlPlane(node)) continue;
    if (node.getMembers().size() > 0) return;
    auto etcd = node.getEtcd();
    bool waits = etcd.getPhase() == "waiting" && has(etcd.getMessage(), kWaitsForCluster);
    if (!waits) return;
    if (waiting == nullptr) waiting = node;
  }
  KJ_IF_MAYBE (node, waiting) {
    auto& finding =
        all ? report.certain(kj::str("nobody has bootstrapped etcd"))
            : report.likely(
                  kj::str("nobody has bootstrapped etcd, unless a node did that does not answer"));
    finding.shows(*node, "get etcdstatus", node->getEtcd().getMessage()).mend(*node, "bootstrap");
  }
}

void checkEtcdCertificates(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    auto message = node.getEtcd().getMessage();
    if (hasCertificateProblem(message)) {
      report.certain(node, kj::str("a certificate of etcd is out of its times"))
          .shows(node, "get etcdstatus", message)
          .mend(node, "service etcd restart    # it is written anew before each start");
    }
  }
  KJ_IF_MAYBE (node, teller(seen)) {
    for (auto member : node->getMembers()) {
      if (!hasCertificateProblem(member.getProblem())) continue;
      auto host = hostOfMember(member);
      bool told = false;
      for (auto& finding : report.findings) {
        for (auto& there : finding->nodes) {
          told = told || (there == host && finding->check->name == "etcd-certificate");
        }
      }
      if (told) continue;
      auto& finding = report.certain(
          kj::str("the certificate of the member ", memberName(member), " is out of its times"));
      if (host.size() > 0) finding.nodes.add(kj::str(host));
      finding.shows(*node, "etcd members", member.getProblem())
          .mend(kj::str("talosctl -n ", host,
                        " service etcd restart    # it is written anew before each start"));
    }
  }
}

void checkEtcdMembers(Seen seen, Report& report) {
  KJ_IF_MAYBE (node, teller(seen)) {
    for (auto member : node->getMembers()) {
      auto problem = member.getProblem();
      if (problem.size() == 0 || hasCertificateProblem(problem)) continue;
      auto& finding =
          report.certain(kj::str("the member ", memberName(member), " of etcd does not answer"));
      auto host = hostOfMember(member);
      if (host.size() > 0) finding.nodes.add(kj::str(host));
      finding.shows(*node, "etcd members", problem);
      KJ_IF_MAYBE (there, nodeAt(seen, host)) {
        if (answers(*there)) {
          finding.shows(*there, "get etcdstatus", there->getEtcd().getMessage());
          finding.shows(*there, "logs etcd",
                        newestLine(*there, "etcd",
                                   {"\"level\":\"fatal\"", "flag provided but not defined",
                                    "\"level\":\"error\"", "invalid value", "panic"}));
          finding.mend(*there, "service etcd");
          continue;
        }
      }
      finding.mend(kj::str("start the node; or, if it is gone for good: talosctl -n ",
                           node->getAddress(), " etcd remove-member ", memberName(member)));
    }
  }
}

void checkEtcdQuorum(Seen seen, Report& report) {
  KJ_IF_MAYBE (node, teller(seen)) {
    if (node->getQuorum()) return;
    bool known = false;  // who does not answer; etcd may only have been slow to tell
    for (auto member : node->getMembers()) known = known || member.getProblem().size() > 0;
    if (!known) return;
    kj::Vector<kj::String> names;
    auto& finding = report.certain(kj::str());
    for (auto member : node->getMembers()) {
      if (member.getProblem().size() == 0) continue;
      auto host = hostOfMember(member);
      names.add(kj::str(memberName(member), host.size() > 0 ? " " : "", host));
      if (host.size() > 0) finding.nodes.add(kj::mv(host));
      finding.shows(*node, "etcd members", kj::str(memberName(member), ": ", member.getProblem()));
    }
    finding.summary = kj::str("etcd has no quorum: of ", node->getMembers().size(), " members ",
                              names.size(), " do not answer: ", kj::strArray(names, ", "));
    finding.mend(kj::str("start them; if their data is lost: talosctl -n ", node->getAddress(),
                         " bootstrap --recover-from <snapshot>, after a reset"));
  }
}

void checkEtcdAlarms(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    auto alarms = node.getEtcd().getAlarms();
    if (alarms.size() == 0) continue;
    auto text = kj::strArray(alarms, ", ");
    bool space = has(text, "NOSPACE");
    report
        .certain(
            space ? kj::str("etcd takes no writes: its database has reached its quota (", text, ")")
                  : kj::str("etcd has raised an alarm: ", text))
        .shows(node, "get etcdstatus -o yaml", text)
        .mend(space ? kj::str("talosctl -n ", node.getAddress(), " etcd defrag && talosctl -n ",
                              node.getAddress(), " etcd alarm disarm")
                    : kj::str("talosctl -n ", node.getAddress(), " etcd alarm list"));
    return;  // they are those of the whole cluster
  }
}

void checkEtcdJoin(Seen seen, Report& report) {
  bool thereIsACluster = teller(seen) != nullptr;
  for (auto node : seen.getNodes()) {
    auto etcd = node.getEtcd();
    auto phase = etcd.getPhase();
    auto message = etcd.getMessage();
    if (!answers(node) || !isControlPlane(node)) continue;
    bool waits = phase == "waiting" && thereIsACluster && message.size() > 0;
    bool stuck =
        hasAny(message, {"cannot join yet", "not a voting member yet", "have removed this one"});
    if (!waits && !stuck && phase != "joining" && phase != "learner") continue;
    auto text = phase == "learner"
                    ? kj::str("etcd of this node is no voting member yet")
                    : kj::str("etcd of this node is not a member of the cluster yet");
    auto& finding = stuck ? report.certain(node, kj::mv(text)) : report.likely(node, kj::mv(text));
    finding.shows(node, "get etcdstatus", kj::str(phase, ": ", message));
    if (has(message, "have removed this one")) {
      finding.mend(node, "etcd leave");
    } else if (has(message, "has the name")) {
      finding.mend(setInConfig(node, "/machine/network/hostname", "\"<another name>\""));
    } else {
      finding.mend(node, "get etcdstatus -w");
    }
  }
}

void checkEtcdService(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    KJ_IF_MAYBE (service, serviceOf(node, "etcd")) {
      if (isUp(*service)) continue;
      auto told = tells(*service);
      auto line =
          newestLine(node, "etcd",
                     {"flag provided but not defined", "\"level\":\"fatal\"", "invalid value",
                      "panic", "rejected connection on peer endpoint", "\"level\":\"error\""});
      // What it wrote before it was started this time may be over: only its end says that it is
      // not.
      bool crashes = has(told.text, "exited with status");
      bool wrong = has(line, "flag provided but not defined") || has(line, "invalid value");
      auto text =
          !crashes ? kj::str("etcd does not run, or is not healthy")
          : wrong  ? kj::str("etcd does not start: an argument of cluster.etcd.extraArgs is wrong")
                   : kj::str("etcd ends again and again");
      auto& finding =
          crashes ? report.certain(node, kj::mv(text)) : report.likely(node, kj::mv(text));
      finding.shows(node, "service etcd", told.text, told.time)
          .shows(node, "logs etcd", line)
          .mend(node, "logs etcd");
    }
  }
}

}  // namespace talos::talosctl
