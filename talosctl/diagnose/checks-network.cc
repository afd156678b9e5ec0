// Checks links, addresses, routes, names and time.
#include "common/base/node-messages.h"
#include "common/net/ip.h"
#include "talosctl/diagnose/pull-failure.h"

#include <algorithm>
#include <vector>

namespace talos::talosctl {
namespace {

constexpr int64_t kToleratedNs = 5 * kSecondNs;  // difference that certificates and leases tolerate

void checkLinks(ObservedNode node, Findings& findings) {
  for (auto problem : node.getNetwork().getProblems()) {
    if (has(problem, messages::kNoCarrier)) continue;
    findings.add(Illness::kNetworkConfig, node).with("problem", problem);
  }
  for (auto link : node.getLinks()) {
    auto status = link.getStatus();
    bool wired = status.getType() == "ether" && status.getKind().size() == 0;
    if (status.getLinkState() || !wired) continue;
    // A link that the config does not name may be down.
    for (auto problem : node.getNetwork().getProblems()) {
      if (!has(problem, kj::str(link.getName(), messages::kNoCarrier))) continue;
      findings.add(Illness::kLinkWithoutCarrier, node)
          .with("link", link.getName())
          .with("problem", problem);
      break;
    }
  }
}

bool hasAddress(ObservedNode node, kj::StringPtr link) {
  for (auto address : node.getAddresses()) {
    if (address.getLinkName() == link && address.getFamily() == "inet4" &&
        address.getScope() == "global") {
      return true;
    }
  }
  return false;
}

void checkAddresses(ObservedNode node, Findings& findings) {
  for (auto lease : node.getLeases()) {
    auto link = lease.getLinkName();
    if (lease.getAddresses().size() > 0 || lease.getOperator() != "dhcp4") continue;
    if (hasAddress(node, link) || !lists(node.getLinkSpecs(), link)) continue;
    findings.add(Illness::kNoLease, node)
        .with("link", link)
        .with("lease", kj::str(lease.getId(), ": ", lease.getState()));
  }
  bool known = answers(node) && node.hasNetwork();
  if (known && !node.getNetwork().getAddressReady() && node.getNodeAddresses().size() == 0) {
    findings.add(Illness::kNoAddress, node);
  }
}

void checkOverlaps(ObservedNode node, Findings& findings) {
  auto pods = node.getFacts().getPodSubnets(), services = node.getFacts().getServiceSubnets();
  auto compare = [&](kj::StringPtr key, capnp::List<capnp::Text>::Reader subnets,
                     kj::StringPtr owner, kj::StringPtr other, kj::StringPtr source) {
    for (auto subnet : subnets) {
      KJ_IF_MAYBE (network, overlap(subnet, other)) {
        findings.add(Illness::kNetworkOverlap, node)
            .with("key", key)
            .with("subnet", subnet)
            .with("owner", owner)
            .with("network", network->toString())
            .with("other", other)
            .with("source", source);
      }
    }
  };
  for (auto subnet : services) {
    compare("podSubnets", pods, "services", subnet, "get machineconfig -o yaml");
  }
  for (auto address : node.getAddresses()) {
    if (!isOfTheNode(node, address)) continue;
    compare("podSubnets", pods, "the node", address.getAddress(), "get addresses");
    compare("serviceSubnets", services, "the node", address.getAddress(), "get addresses");
  }
}

void checkMetadataService(ObservedNode node, Findings& findings) {
  auto problem = node.getMetadataBlock().getProblem();
  if (problem.size() > 0) {
    findings.add(Illness::kMetadataReached, node).with("problem", problem);
  }
}

// A status without the default action is from before networkd has tried to set the rules.
void checkFirewall(ObservedNode node, Findings& findings) {
  auto status = node.getFirewall();
  if (status.getProblem().size() > 0) {
    findings.add(Illness::kFirewallFailed, node).with("problem", status.getProblem());
  } else if (node.getFirewallSpecs().size() > 0 && status.getIngress().size() == 0 &&
             !isUnanswered(node, Question::FIREWALL)) {
    findings.add(Illness::kFirewallUnset, node).with("problem", "networkd has reported no rules");
  }
}

bool hasDefaultRoute(ObservedNode node) {
  for (auto route : node.getRoutes()) {
    auto to = route.getDestination();
    bool all = to.size() == 0 || to == "0.0.0.0/0" || to == "::/0";
    if (all && route.getType() != "blackhole" && route.getType() != "unreachable") return true;
  }
  return false;
}

// Requires a complaint that shows the need: a node that needs nothing outside its network may lack
// a default route.
void checkDefaultRoute(ObservedNode node, Findings& findings) {
  if (!answers(node) || node.getRoutes().size() == 0 || hasDefaultRoute(node)) return;
  for (auto& complaint : complaintsOf(node)) {
    if (!hasAny(complaint.text, {"unreachable", "no route to host", "timeout", "no answer"}))
      continue;
    findings.add(Illness::kNoDefaultRoute, node).with(complaint);
    return;
  }
}

// Returns false for a pull through mirrors, for which the registry's name need not resolve.
bool needsName(ObservedNode node, const Statement& complaint) {
  KJ_IF_MAYBE (pull, pullFailureOf(node, Statement{{}, kj::str(complaint.text)})) {
    return pull->failure == FailureKind::kUnknownName ||
           pull->failure == FailureKind::kNoNameServer;
  }
  return true;
}

void checkResolver(ObservedNode node, Findings& findings) {
  for (auto& complaint : complaintsOf(node)) {
    auto failure = failureOf(complaint.text);
    bool silent = failure == FailureKind::kNoNameServer;
    if ((!silent && failure != FailureKind::kUnknownName) || !needsName(node, complaint)) continue;
    bool none = silent && answers(node) && node.hasResolvers() && node.getResolvers().size() == 0;
    findings
        .add(none     ? Illness::kNoNameServers
             : silent ? Illness::kNameServersSilent
                      : Illness::kNameUnknown,
             node)
        .with(complaint)
        .with("servers", kj::strArray(node.getResolvers(), ", "));
    return;
  }
}

void checkTimeSync(ObservedNode node, Findings& findings) {
  auto time = node.getTime();
  if (!answers(node) || !node.hasTime() || time.getSynced() || time.getSyncDisabled()) return;
  auto problem = time.getProblem();
  findings
      .add(problem.size() == 0                            ? Illness::kNoTimeServerYet
           : has(problem, messages::kTimeServersDisagree) ? Illness::kTimeServersDisagree
                                                          : Illness::kTimeNotSynchronised,
           node)
      .with("problem", time.getProblem());
}

// Adds a clock that is wrong, by what it follows; `two`: there are only this clock and that of this
// host, so that either may be wrong.
void addClock(ObservedNode node, bool two, int64_t offset, Findings& findings) {
  auto time = node.getTime();
  bool known = time.getSyncDisabled() || time.getSynced();
  auto illness = time.getSyncDisabled() ? Illness::kClockNotSet
                 : time.getSynced()     ? Illness::kClockOfTimeServer
                 : two                  ? Illness::kClocksDiffer
                                        : Illness::kClockWrong;
  auto& finding = findings.add(illness, node)
                      .with("difference", clockDifference(offset))
                      .with("others", two ? "that of this host" : "those of the others")
                      .with("server", time.getServer());
  if (known) finding.certainIf(!two);
}

// Compares each clock, including this host's, with the median: a clock that differs from it is
// wrong.
void checkClocks(ObservedCluster cluster, Findings& findings) {
  std::vector<int64_t> offsets = {0};
  for (auto node : cluster.getNodes()) {
    if (node.getClock() != 0) offsets.push_back(node.getClock() - node.getClockAt());
  }
  std::sort(offsets.begin(), offsets.end());
  bool two = offsets.size() == 2;
  auto median = two ? 0 : offsets[offsets.size() / 2];
  auto tolerated = [](int64_t offset) { return offset >= -kToleratedNs && offset <= kToleratedNs; };
  for (auto node : cluster.getNodes()) {
    auto offset = node.getClock() - node.getClockAt() - median;
    if (node.getClock() == 0 || tolerated(offset)) continue;
    addClock(node, two, offset, findings);
  }
  if (!tolerated(median)) {
    findings.add(Illness::kHostClockWrong).with("difference", clockDifference(-median));
  }
}

}  // namespace

void checkNetworks(ObservedCluster cluster, Findings& findings) {
  for (auto node : cluster.getNodes()) {
    checkLinks(node, findings);
    checkAddresses(node, findings);
    checkOverlaps(node, findings);
    checkMetadataService(node, findings);
    checkFirewall(node, findings);
    checkDefaultRoute(node, findings);
    checkResolver(node, findings);
    checkTimeSync(node, findings);
  }
  checkClocks(cluster, findings);
}

}  // namespace talos::talosctl
