// Links, addresses, routes, names and time.
#include "common/net/ip.h"
#include "talosctl/diagnose/observed.h"
#include "talosctl/diagnose/pull-failure.h"

#include <algorithm>
#include <vector>

namespace talos::talosctl {
namespace {

constexpr int64_t kMostApart = 5 * 1'000'000'000ll;  // clocks: certificates and leases bear that

bool listed(capnp::List<capnp::Text>::Reader list, kj::StringPtr text) {
  for (auto one : list) {
    if (one == text) return true;
  }
  return false;
}

bool hasDefaultRoute(SeenNode node) {
  for (auto route : node.getRoutes()) {
    auto to = route.getDestination();
    bool all = to.size() == 0 || to == "0.0.0.0/0" || to == "::/0";
    if (all && route.getType() != "blackhole" && route.getType() != "unreachable") return true;
  }
  return false;
}

// Not of a bridge or a tunnel that a network plugin made for pods.
bool isOfTheNode(SeenNode node, rpc::AddressStatusSpec::Reader address) {
  if (listed(node.getLinkSpecs(), address.getLinkName())) return true;
  KJ_IF_MAYBE (prefix, Prefix::parse(address.getAddress())) {
    auto ip = prefix->address.toString();
    return ip == node.getAddress() || listed(node.getKubelet().getNodeIPs(), ip);
  }
  return false;
}

bool overlap(const Prefix& one, const Prefix& other) {
  if (one.address.family() != other.address.family()) return false;
  auto& wide = one.length <= other.length ? one : other;
  auto& narrow = one.length <= other.length ? other : one;
  return wide.masked().contains(narrow.address);
}

}  // namespace

void checkCarrier(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    for (auto link : node.getLinks()) {
      auto status = link.getStatus();
      if (status.getLinkState() || status.getType() != "ether" || status.getKind().size() > 0)
        continue;
      auto name = link.getName();
      kj::StringPtr told;
      for (auto problem : node.getNetwork().getProblems()) {
        if (has(problem, kj::str(name, ": no carrier"))) told = problem;
      }
      if (told.size() > 0) {
        report.certain(node, kj::str("the link ", name, " has no carrier"))
            .shows(node, "get netstatus -o yaml", told)
            .mend(kj::str("look at the cable of ", name, " and the port of the switch"));
      }
    }
  }
}

void checkNetworkPlan(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    for (auto problem : node.getNetwork().getProblems()) {
      if (has(problem, ": no carrier")) continue;
      report.certain(node, kj::str("the network of the config cannot be made: ", problem))
          .shows(node, "get netstatus -o yaml", problem)
          .mend(node, "edit machineconfig --mode=no-reboot");
    }
  }
}

void checkAddress(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    for (auto lease : node.getLeases()) {
      if (lease.getAddresses().size() > 0 || lease.getOperator() != "dhcp4") continue;
      bool other = false;
      for (auto address : node.getAddresses()) {
        other = other || (address.getLinkName() == lease.getLinkName() &&
                          address.getFamily() == "inet4" && address.getScope() == "global");
      }
      if (other || !listed(node.getLinkSpecs(), lease.getLinkName())) continue;
      report.likely(node, kj::str("no DHCP server has given ", lease.getLinkName(), " an address"))
          .shows(node, "get leases", kj::str(lease.getId(), ": ", lease.getState()))
          .mend(node, "logs networkd");
    }
    bool asked = answers(node) && node.hasNetwork();
    if (asked && !node.getNetwork().getAddressReady() && node.getNodeAddresses().size() == 0) {
      report.certain(node, kj::str("the node has no address of its own"))
          .shows(node, "get netstatus", "ADDRESS false")
          .mend(node, "get addresses");
    }
  }
}

void checkNetworkOverlap(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    auto facts = node.getFacts();
    auto look = [&](kj::StringPtr key, kj::StringPtr text, kj::StringPtr against,
                    kj::StringPtr other, kj::StringPtr source) {
      KJ_IF_MAYBE (one, Prefix::parse(text)) {
        KJ_IF_MAYBE (two, Prefix::parse(other)) {
          if (!overlap(*one, *two)) return;
          report
              .certain(node, kj::str("cluster.network.", key, " ", text, " overlaps ", against, " ",
                                     two->masked()))
              .shows(node, source, other)
              .mend(kj::str("choose ", key,
                            " that nothing else uses, in the configs of all nodes; a "
                            "running cluster has to be made anew for that"));
        }
      }
    };
    for (auto pods : facts.getPodSubnets()) {
      for (auto services : facts.getServiceSubnets()) {
        look("podSubnets", pods, "the network of services,", services, "get machineconfig -o yaml");
      }
      for (auto address : node.getAddresses()) {
        if (!isOfTheNode(node, address)) continue;
        look("podSubnets", pods, "the network of the node,", address.getAddress(), "get addresses");
      }
    }
    for (auto services : facts.getServiceSubnets()) {
      for (auto address : node.getAddresses()) {
        if (!isOfTheNode(node, address)) continue;
        look("serviceSubnets", services, "the network of the node,", address.getAddress(),
             "get addresses");
      }
    }
  }
}

// A node that needs nothing outside of its network may be without one.
void checkDefaultRoute(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    if (!answers(node) || node.getRoutes().size() == 0 || hasDefaultRoute(node)) continue;
    for (auto& complaint : complaintsOf(node)) {
      if (!hasAny(complaint.text, {"unreachable", "no route to host", "timeout", "no answer"}))
        continue;
      report.likely(node, kj::str("the node has no default route, and cannot reach what it needs"))
          .shows(node, complaint.source, complaint.text, complaint.time)
          .shows(node, "get routes", "no route to 0.0.0.0/0 or ::/0")
          .mend(node,
                "edit machineconfig --mode=no-reboot    # machine.network.interfaces[].routes");
      break;
    }
  }
}

void checkResolver(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    for (auto& complaint : complaintsOf(node)) {
      auto failure = failureOf(complaint.text);
      if (failure != DialFailure::kNoNameServer && failure != DialFailure::kUnknownName) continue;
      KJ_IF_MAYBE (pull, readPullFailure(complaint.text)) {
        blameMirrors(node, *pull);
        if (pull->reason != PullFailure::Reason::kName) continue;  // no name had to be known
      }
      auto servers = kj::strArray(node.getResolvers(), ", ");
      auto& finding =
          failure == DialFailure::kNoNameServer
              ? report.likely(node, kj::str("the name servers do not answer (", servers, ")"))
              : report.likely(node,
                              kj::str("a name is not known to the name servers (", servers, ")"));
      finding.shows(node, complaint.source, complaint.text, complaint.time)
          .mend(setInConfig(node, "/machine/network/nameservers", "[\"<address>\"]"));
      break;
    }
  }
}

void checkTimeSync(Seen seen, Report& report) {
  for (auto node : seen.getNodes()) {
    auto time = node.getTime();
    if (!answers(node) || !node.hasTime() || time.getSynced() || time.getSyncDisabled()) continue;
    auto problem = time.getProblem();
    auto& finding = problem.size() > 0
                        ? report.certain(node, kj::str("the clock is not synchronised"))
                        : report.likely(node, kj::str("no time server has answered yet"));
    finding.shows(node, "get timestatus", problem)
        .mend(setInConfig(node, "/machine/time/servers", "[\"<address>\"]"));
  }
}

// A clock is wrong when it is alone: each is compared with the middle one, this host's among them.
void checkClocks(Seen seen, Report& report) {
  std::vector<int64_t> offsets = {0};
  for (auto node : seen.getNodes()) {
    if (node.getClock() != 0) offsets.push_back(node.getClock() - node.getClockAt());
  }
  if (offsets.size() < 2) return;
  std::sort(offsets.begin(), offsets.end());
  auto middle = offsets[offsets.size() / 2];
  bool two = offsets.size() == 2;
  if (two) middle = 0;
  for (auto node : seen.getNodes()) {
    if (node.getClock() == 0) continue;
    auto off = node.getClock() - node.getClockAt() - middle;
    if (off >= -kMostApart && off <= kMostApart) continue;
    auto direction = off > 0 ? "ahead of"_kj : "behind"_kj;
    auto text = two ? kj::str("the clock is ", apart(off), " ", direction,
                              " that of this host: one of "
                              "the two is wrong")
                    : kj::str("the clock is ", apart(off), " ", direction, " those of the others");
    auto& finding = two ? report.likely(node, kj::mv(text)) : report.certain(node, kj::mv(text));
    finding.shows(node, "time", kj::str("it is ", apart(off), " ", direction, " the others"))
        .mend(node, "time    # and machine.time.servers of its config");
  }
  if (!two && (middle > kMostApart || middle < -kMostApart)) {
    report
        .likely(kj::str("the clock of this host is ", apart(middle), " ",
                        middle > 0 ? "behind" : "ahead of", " those of the nodes"))
        .shows("talosctl time",
               kj::str("the nodes' clocks differ from this host's by ", apart(middle)));
  }
}

}  // namespace talos::talosctl
