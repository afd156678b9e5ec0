// Chooses the names of network-config-plan.h: host name, resolvers, search domains and time
// servers, each from the highest layer that has them.
#include <algorithm>

#include "common/net/text-values.h"
#include "common/text/texts.h"
#include "machined/config/network/network-config-plan.h"

namespace talos::machined {
namespace {

constexpr size_t kMostResolvers = 3;      // resolv.conf(5)
constexpr size_t kMostSearchDomains = 6;  // limit that every C library reads
constexpr kj::StringPtr kDefaultTimeServer = "pool.ntp.org"_kj;
constexpr kj::StringPtr kDefaultResolvers[] = {"1.1.1.1"_kj, "8.8.8.8"_kj};

// Returns talos-10-0-0-2, talos-fd00--2.
kj::String nameOf(const Ip& address) {
  auto name = kj::str("talos-", address);
  for (char& c : name.asArray()) {
    if (c == '.' || c == ':') c = '-';
  }
  // An address like fd00:: would leave hyphens at the end.
  size_t length = name.size();
  while (name[length - 1] == '-') --length;
  return kj::heapString(name.begin(), length);
}

class Chooser {
 public:
  Chooser(const KernelArguments& arguments, kj::Maybe<config::Machine::Reader> machine,
          kj::Maybe<const PlatformNetwork&> platform, const kj::Maybe<IpParameter>& ip,
          kj::ArrayPtr<const Lease* const> leases, NetworkPlan& plan)
      : arguments(arguments),
        machine(machine),
        platform(platform),
        ip(ip),
        leases(leases),
        plan(plan) {}

  void run() {
    chooseHostname();
    chooseResolvers();
    chooseSearch();
    chooseTimeServers();
  }

 private:
  const KernelArguments& arguments;
  kj::Maybe<config::Machine::Reader> machine;
  kj::Maybe<const PlatformNetwork&> platform;
  const kj::Maybe<IpParameter>& ip;
  kj::ArrayPtr<const Lease* const> leases;
  NetworkPlan& plan;

  template <typename... Parts>
  void problem(Parts&&... parts) {
    plan.problems.add(kj::str(kj::fwd<Parts>(parts)...));
  }

  bool ignoresHostname(const Lease& lease) const {
    for (auto& one : plan.operators) {
      if (one.link == lease.link && one.kind == lease.kind) return one.ignoreHostname;
    }
    return false;
  }

  bool takeHostname(kj::StringPtr name, kj::StringPtr source, kj::StringPtr layer) {
    if (name.size() == 0) return false;
    KJ_IF_MAYBE (reason, config::hostNameProblem(name)) {
      problem(source, ": \"", name, "\" is not a valid host name: ", *reason);
      return false;
    }
    KJ_IF_MAYBE (dot, name.findFirst('.')) {
      plan.hostname = kj::heapString(name.begin(), *dot);
      plan.domain = kj::str(name.slice(*dot + 1));
    } else {
      plan.hostname = kj::str(name);
    }
    plan.hostnameLayer = layer;
    return true;
  }

  void chooseHostname() {
    KJ_IF_MAYBE (m, machine) {
      if (takeHostname(m->getNetwork().getHostname(), "machine.network.hostname",
                       kLayerConfiguration))
        return;
    }
    KJ_IF_MAYBE (p, platform) {
      if (takeHostname(p->network.getHostname(), "the platform", kLayerPlatform)) return;
    }
    if (takeHostname(arguments.first("talos.hostname").orDefault(""),
                     "talos.hostname=", kLayerCmdline))
      return;
    KJ_IF_MAYBE (parameter, ip) {
      if (takeHostname(parameter->hostname, "ip=", kLayerCmdline)) return;
    }
    for (auto lease : leases) {
      if (ignoresHostname(*lease)) continue;
      bool whole = lease->hostname.findFirst('.') != nullptr || lease->domain.size() == 0;
      auto name = whole ? kj::str(lease->hostname) : kj::str(lease->hostname, ".", lease->domain);
      if (lease->hostname.size() > 0 &&
          takeHostname(name, kj::str("DHCP on ", lease->link), kLayerOperator)) {
        return;
      }
    }
    for (int family : {AF_INET, AF_INET6}) {
      for (auto& address : plan.addresses) {
        auto& ip = address.prefix.address;
        if (ip.family() != family || ip.isLinkLocal()) continue;
        takeHostname(nameOf(ip), "", kLayerDefault);
        return;
      }
    }
    // Before there is a config this name would soon change again.
    if (machine != nullptr) takeHostname("talos-127-0-1-1", "", kLayerDefault);
  }

  void chooseResolvers() {
    auto take = [&](Ip address, kj::StringPtr layer) {
      if (plan.resolvers.size() == kMostResolvers) return;
      auto& list = plan.resolvers;
      if (std::find(list.begin(), list.end(), address) == list.end()) list.add(address);
      plan.resolversLayer = layer;
    };
    KJ_IF_MAYBE (m, machine) {
      for (auto text : m->getNetwork().getNameservers()) {
        KJ_IF_MAYBE (address, Ip::parse(text)) {
          take(*address, kLayerConfiguration);
        } else {
          problem("machine.network.nameservers: \"", text, "\" is not an IP address");
        }
      }
    }
    if (plan.resolvers.size() > 0) return;
    for (auto lease : leases) {
      for (auto& address : lease->resolvers) take(address, kLayerOperator);
    }
    if (plan.resolvers.size() > 0) return;
    KJ_IF_MAYBE (p, platform) {
      for (auto text : p->network.getNameservers()) {
        KJ_IF_MAYBE (address, Ip::parse(text)) take(*address, kLayerPlatform);
      }
    }
    if (plan.resolvers.size() > 0) return;
    KJ_IF_MAYBE (parameter, ip) {
      for (auto& address : parameter->resolvers) take(address, kLayerCmdline);
    }
    if (plan.resolvers.size() > 0) return;
    for (auto text : kDefaultResolvers) take(KJ_ASSERT_NONNULL(Ip::parse(text)), kLayerDefault);
  }

  // The machine's domain comes first.
  void chooseSearch() {
    auto take = [&](kj::StringPtr domain) {
      if (domain.size() == 0 || plan.search.size() == kMostSearchDomains) return;
      addOnce(plan.search, kj::str(domain));
    };
    config::Network::Reader network;
    KJ_IF_MAYBE (m, machine) network = m->getNetwork();
    if (!network.getDisableSearchDomain()) take(plan.domain);
    if (network.hasSearchDomains()) {
      for (auto domain : network.getSearchDomains()) take(domain);
      return;
    }
    for (auto lease : leases) {
      for (auto& domain : lease->search) take(domain);
      if (lease->search.size() == 0) take(lease->domain);
    }
  }

  void chooseTimeServers() {
    auto take = [&](kj::StringPtr server, kj::StringPtr layer) {
      addOnce(plan.timeServers, kj::str(server));
      plan.timeServersLayer = layer;
    };
    KJ_IF_MAYBE (m, machine) {
      for (auto server : m->getTime().getServers()) take(server, kLayerConfiguration);
    }
    if (plan.timeServers.size() > 0) return;
    for (auto lease : leases) {
      for (auto& server : lease->timeServers) take(server, kLayerOperator);
    }
    if (plan.timeServers.size() > 0) return;
    KJ_IF_MAYBE (p, platform) {
      for (auto& server : p->timeServers) take(server, kLayerPlatform);
    }
    if (plan.timeServers.size() == 0) take(kDefaultTimeServer, kLayerDefault);
  }
};

}  // namespace

void chooseNames(const KernelArguments& arguments, kj::Maybe<config::Machine::Reader> machine,
                 kj::Maybe<const PlatformNetwork&> platform, const kj::Maybe<IpParameter>& ip,
                 kj::ArrayPtr<const Lease* const> leases, NetworkPlan& plan) {
  Chooser(arguments, machine, platform, ip, leases, plan).run();
}

}  // namespace talos::machined
