#include "networkd/control/operator-manager.h"

#include <algorithm>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/net/text-values.h"
#include "networkd/control/network-pace.h"

namespace talos::networkd {
namespace {

constexpr auto kPublishPause = 1 * kj::SECONDS;

// Sets each row to the text form of the item.
template <typename Builder, typename List>
void fillFormatted(Builder builder, const List& list) {
  for (auto i : kj::indices(list)) builder.set(i, kj::str(list[i]));
}

void fillLease(rpc::OperatorStatusSpec::Builder out, const dhcp::Lease& lease) {
  KJ_IF_MAYBE (prefix, lease.prefix) {
    out.initAddresses(1).set(0, prefix->toString());
    out.setLease(lease.seconds == dhcp::kInfinite ? kj::str("forever")
                                                  : kj::str(lease.seconds, "s"));
  }
  out.setServer(lease.serverName);
  auto routes = out.initRoutes(lease.routes.size());
  for (auto i : kj::indices(lease.routes)) {
    routes[i].setDestination(lease.routes[i].destination.toString());
    auto& gateway = lease.routes[i].gateway;
    if (!gateway.isAny()) routes[i].setGateway(gateway.toString());
  }
  out.setMtu(lease.mtu.orDefault(0));
  fillFormatted(out.initDnsServers(lease.resolvers.size()), lease.resolvers);
  fillFormatted(out.initTimeServers(lease.timeServers.size()), lease.timeServers);
  fillFormatted(out.initSearchDomains(lease.search.size()), lease.search);
  out.setDomainname(lease.domain);
}

// Lists routers' resolvers before those of DHCPv6 (RFC 8106 §5.3.1), each once.
void fillAdvertised(rpc::OperatorStatusSpec::Builder out, const dhcp::Advertised& routers,
                    kj::Maybe<const dhcp::Lease&> lease) {
  auto servers = routers.resolvers();
  auto search = routers.search();
  KJ_IF_MAYBE (more, lease) {
    for (auto& server : more->resolvers) {
      if (std::find(servers.begin(), servers.end(), server) == servers.end()) servers.add(server);
    }
    for (auto& name : more->search) {
      if (std::find(search.begin(), search.end(), name) == search.end()) search.add(kj::str(name));
    }
  }
  fillFormatted(out.initDnsServers(servers.size()), servers);
  fillFormatted(out.initSearchDomains(search.size()), search);
}

}  // namespace

// The operator of one spec, or the problem that prevents it.
struct OperatorManager::Running {
  kj::String kind, link, hostname, duid;
  kj::Maybe<kj::Own<dhcp::Operator>> active;
  kj::String problem;
  kj::String lastHostname;  // of the newest lease, even after its end

  // Returns true if an operator runs on this same link, and passes the link's state to it.
  bool follow(const dhcp::LinkState& now) {
    KJ_IF_MAYBE (there, active) {
      auto& before = (*there)->link();
      if (before.index != now.index || before.hardwareAddress != now.hardwareAddress) return false;
      (*there)->setRunning(now.running);
      return true;
    }
    return false;
  }
  void begin(dhcp::Dependencies deps, dhcp::LinkState state, kj::Function<void()> changed) {
    using Kind = dhcp::Operator6::Kind;
    if (kind == "dhcp4") {
      active = kj::heap<dhcp::Operator4>(deps, link, kj::mv(state), hostname, kj::mv(changed));
    } else if (kind == "dhcp6" || kind == "ra") {
      active = kj::heap<dhcp::Operator6>(kind == "ra" ? Kind::kRouters : Kind::kDhcp, deps, link,
                                         kj::mv(state), kj::mv(changed), identifier());
    } else {
      problem = kj::str("unknown operator \"", kind, "\"");
    }
  }

  // Returns the octets of the DUID; empty if it is made of the hardware address.
  kj::Array<kj::byte> identifier() const {
    KJ_IF_MAYBE (octets, config::parseDuid(duid)) return kj::mv(*octets);
    return nullptr;
  }

  void fill(rpc::OperatorStatusSpec::Builder out) {
    out.setOperator(kind);
    out.setLinkName(link);
    out.setState(problem);
    KJ_IF_MAYBE (there, active) {
      out.setState((*there)->stateName());
      auto lease = (*there)->lease();
      KJ_IF_MAYBE (found, lease) fillLease(out, *found);
      KJ_IF_MAYBE (routers, (*there)->advertised()) {
        fillAdvertised(out, *routers, lease);
      } else KJ_IF_MAYBE (found, lease) {
        lastHostname = kj::str(found->hostname);
      }
    }
    out.setHostname(lastHostname);
  }
};

OperatorManager::OperatorManager(kj::UnixEventPort& port, kj::Timer& timer, StoreClient& store,
                                 netlink::Kernel& kernel, netlink::Monitor& monitor,
                                 kj::StringPtr directoryGiven, bool asksForMtu,
                                 kj::Function<uint64_t()> randomGiven,
                                 kj::Function<void()> changedGiven)
    : timer(timer),
      store(store),
      kernel(kernel),
      monitor(monitor),
      directory(kj::str(directoryGiven)),
      random(kj::mv(randomGiven)),
      changed(kj::mv(changedGiven)),
      deps{port, timer, directory, random, asksForMtu},
      specs(store.watch<rpc::OperatorSpecSpec>([this] { adjust.raise(); })) {}

OperatorManager::~OperatorManager() noexcept(false) = default;

kj::Promise<void> OperatorManager::run() {
  return adjustLoop().exclusiveJoin(linkLoop()).exclusiveJoin(publishLoop());
}

kj::Promise<void> OperatorManager::adjustLoop() {
  for (;;) {
    co_await adjust.wait();
    adjustAll();
  }
}

kj::Promise<void> OperatorManager::linkLoop() {
  for (;;) {
    auto notice = co_await monitor.next();
    if ((notice.links || notice.overrun) && running.size() > 0) adjustAll();
    if (notice.addresses || notice.overrun) seeAddresses();
    co_await timer.afterDelay(kKernelPause);
  }
}

void OperatorManager::adjustAll() {
  if (!specs.synced()) return;
  kj::Vector<kj::String> gone;
  for (auto& entry : running) {
    if (specs.find(entry.key) == nullptr) gone.add(kj::str(entry.key));
  }
  for (auto& id : gone) end(id);
  kj::Vector<kj::String> over;
  for (auto& entry : leaving) {
    bool again = specs.find(entry.key) != nullptr;
    if (again || entry.value->ended()) over.add(kj::str(entry.key));
  }
  for (auto& id : over) leaving.erase(id);
  for (auto spec : specs) adjustOne(spec.id(), spec);
  seeAddresses();
  statusChanged.raise();
}

void OperatorManager::end(kj::StringPtr id) {
  KJ_IF_MAYBE (there, running.find(id)) {
    KJ_IF_MAYBE (active, (*there)->active) {
      (*active)->stop();
      if (!(*active)->ended()) {
        leaving.upsert(kj::str(id), kj::mv(*active),
                       [](auto& old, auto&& now) { old = kj::mv(now); });
      }
    }
    running.erase(id);
  }
}

// Reads addresses only if an operator needs them: there may be thousands.
void OperatorManager::seeAddresses() {
  kj::Vector<dhcp::Operator*> watching;
  auto consider = [&](dhcp::Operator& some) {
    if (some.watches()) watching.add(&some);
  };
  for (auto& entry : running) {
    KJ_IF_MAYBE (there, entry.value->active) consider(**there);
  }
  for (auto& entry : leaving) consider(*entry.value);
  if (watching.size() == 0) return;
  auto failure = kj::runCatchingExceptions([&] {
    auto addresses = kernel.addresses();
    for (auto some : watching) some->see(addresses);
  });
  KJ_IF_MAYBE (e, failure) {
    log::warn("cannot read the addresses of the kernel", {{"error", messageOf(*e)}});
  }
}

void OperatorManager::adjustOne(kj::StringPtr id, rpc::OperatorSpecSpec::Reader spec) {
  auto& entry = *running.findOrCreate(
      id, [&] { return decltype(running)::Entry{kj::str(id), kj::heap<Running>()}; });
  kj::StringPtr link = spec.getLinkName();
  if (entry.kind != spec.getOperator() || entry.link != link ||
      entry.hostname != spec.getHostname() || entry.duid != spec.getDuid()) {
    entry.active = nullptr;
    entry.kind = kj::str(spec.getOperator());
    entry.link = kj::str(link);
    entry.hostname = kj::str(spec.getHostname());
    entry.duid = kj::str(spec.getDuid());
  }
  auto state = dhcp::lookAtLink(link);
  KJ_IF_MAYBE (now, state) {
    if (entry.follow(*now)) return;
    entry.active = nullptr;
    entry.problem = kj::str();
    if (now->hardwareAddress.size() == 0) {
      entry.problem = kj::str("not an Ethernet link");
    } else {
      entry.begin(deps, kj::mv(*now), [this] {
        statusChanged.raise();
        if (leaving.size() > 0) adjust.raise();  // One of the operators may have ended.
        changed();
      });
    }
  } else {
    entry.active = nullptr;
    entry.problem = kj::str("no such link");
  }
}

bool OperatorManager::lost(kj::StringPtr link, const Prefix& address) const {
  bool asked = false;
  for (auto& entry : running) {
    if (entry.value->link != link) continue;
    KJ_IF_MAYBE (active, entry.value->active) {
      if ((*active)->family() != address.address.family()) continue;
      asked = true;
      KJ_IF_MAYBE (lease, (*active)->lease()) {
        if (lease->prefix == address) return false;
      }
    }
  }
  return asked;
}

StoreClient::Wanted OperatorManager::statuses() {
  StoreClient::Wanted wanted;
  for (auto& entry : running) {
    addRecord<rpc::OperatorStatusSpec>(wanted, kj::str(entry.key),
                                       [&](auto spec) { entry.value->fill(spec); });
  }
  return wanted;
}

kj::Promise<void> OperatorManager::publishLoop() {
  for (;;) {
    co_await statusChanged.wait();
    seeAddresses();  // The kernel may have refused the newly leased address long ago.
    auto failure = co_await errorOf([&] {
      return timer.timeoutAfter(kPublishDeadline,
                                store.replaceAll<rpc::OperatorStatusSpec>(statuses()));
    });
    KJ_IF_MAYBE (error, failure) {
      log::warn("cannot report leases; retrying", {{"error", *error}});
      co_await timer.afterDelay(kPublishPause);
      statusChanged.raise();
    }
  }
}

}  // namespace talos::networkd
