#include "networkd/control/operator-manager.h"

#include <kj/encoding.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/base/log.h"
#include "networkd/control/network-pace.h"

namespace talos::networkd {
namespace {

constexpr auto kPublishPause = 1 * kj::SECONDS;

template <typename Builder, typename List>
void fillTexts(Builder builder, const List& list) {
  for (auto i : kj::indices(list)) builder.set(i, kj::str(list[i]));
}

void fillLease(rpc::OperatorStatusSpec::Builder out, const dhcp::Lease4& lease) {
  out.initAddresses(1).set(0, lease.address.toString());
  out.setServer(lease.server.toString());
  out.setLease(lease.seconds == dhcp::kInfinite ? kj::str("forever") : kj::str(lease.seconds, "s"));
  auto routes = out.initRoutes(lease.routes.size());
  for (auto i : kj::indices(lease.routes)) {
    routes[i].setDestination(lease.routes[i].destination.toString());
    auto& gateway = lease.routes[i].gateway;
    if (!gateway.isAny()) routes[i].setGateway(gateway.toString());
  }
  out.setMtu(lease.mtu.orDefault(0));
  fillTexts(out.initDnsServers(lease.resolvers.size()), lease.resolvers);
  fillTexts(out.initTimeServers(lease.timeServers.size()), lease.timeServers);
  fillTexts(out.initSearchDomains(lease.search.size()), lease.search);
  out.setDomainname(lease.domain);
}

void fillLease(rpc::OperatorStatusSpec::Builder out, const dhcp::Lease6& lease) {
  KJ_IF_MAYBE (address, lease.address) {
    out.initAddresses(1).set(0, Prefix::host(*address).toString());
    out.setLease(lease.seconds == dhcp::kInfinite ? kj::str("forever")
                                                  : kj::str(lease.seconds, "s"));
  }
  out.setServer(kj::encodeHex(lease.server));
  fillTexts(out.initDnsServers(lease.resolvers.size()), lease.resolvers);
  fillTexts(out.initTimeServers(lease.timeServers.size()), lease.timeServers);
  fillTexts(out.initSearchDomains(lease.search.size()), lease.search);
}

// Routers' resolvers before those of DHCPv6 (RFC 8106 §5.3.1).
void fillAdvertised(rpc::OperatorStatusSpec::Builder out, const dhcp::Operator6& network) {
  auto& routers = network.advertised();
  auto servers = routers.resolvers();
  auto search = routers.search();
  KJ_IF_MAYBE (client, network.client()) {
    KJ_IF_MAYBE (more, client->lease()) {
      fillLease(out, *more);
      for (auto& server : more->resolvers) {
        if (std::find(servers.begin(), servers.end(), server) == servers.end()) servers.add(server);
      }
      for (auto& name : more->search) {
        if (std::find(search.begin(), search.end(), name) == search.end())
          search.add(kj::str(name));
      }
    }
  }
  fillTexts(out.initDnsServers(servers.size()), servers);
  fillTexts(out.initSearchDomains(search.size()), search);
}

}  // namespace

// What runs for one spec, or why nothing does.
struct Operators::Running {
  kj::String kind, link, hostname;
  kj::Maybe<kj::Own<dhcp::Operator4>> four;
  kj::Maybe<kj::Own<dhcp::Operator6>> six;
  kj::String problem;
  kj::String lastHostname;  // of the newest lease, also when that has ended

  void end() {
    four = nullptr;
    six = nullptr;
  }
  void stop() {
    KJ_IF_MAYBE (there, four) (*there)->stop();
    KJ_IF_MAYBE (there, six) (*there)->stop();
  }
  // What is not over with stop().
  kj::Maybe<kj::Own<dhcp::Operator6>> rest() {
    KJ_IF_MAYBE (there, six) {
      if (!(*there)->ended()) return kj::mv(*there);
    }
    return nullptr;
  }
  // Whether one runs on this very link, which it is then told of.
  bool goesOn(const dhcp::LinkState& now) {
    auto tell = [&](auto& there) {
      auto& before = there.link();
      if (before.index != now.index || before.hardwareAddress != now.hardwareAddress) return false;
      there.setRunning(now.running);
      return true;
    };
    KJ_IF_MAYBE (there, four) return tell(**there);
    KJ_IF_MAYBE (there, six) return tell(**there);
    return false;
  }
  void begin(dhcp::Surroundings around, dhcp::LinkState state, kj::Function<void()> changed) {
    if (kind == "dhcp4") {
      four = kj::heap<dhcp::Operator4>(around, link, kj::mv(state), hostname, kj::mv(changed));
    } else if (kind == "dhcp6" || kind == "ra") {
      auto what = kind == "ra" ? dhcp::Operator6::Kind::kRouters : dhcp::Operator6::Kind::kDhcp;
      six = kj::heap<dhcp::Operator6>(what, around, link, kj::mv(state), kj::mv(changed));
    } else {
      problem = kj::str("unknown operator \"", kind, "\"");
    }
  }

  // None: nobody asks for an address of this family. Else it, or none.
  kj::Maybe<kj::Maybe<Prefix>> addressOf(int family) const {
    kj::Maybe<Prefix> address;
    KJ_IF_MAYBE (there, four) {
      if (family != AF_INET) return nullptr;
      KJ_IF_MAYBE (lease, (*there)->client().lease()) address = lease->address;
      return kj::mv(address);
    }
    KJ_IF_MAYBE (there, six) {
      if (family != AF_INET6 || kind != "dhcp6") return nullptr;
      KJ_IF_MAYBE (client, (*there)->client()) {
        KJ_IF_MAYBE (lease, client->lease()) address = lease->address.map(Prefix::host);
      }
      return kj::mv(address);
    }
    return nullptr;
  }

  void fill(rpc::OperatorStatusSpec::Builder out) {
    out.setOperator(kind);
    out.setLinkName(link);
    out.setState(problem);
    KJ_IF_MAYBE (there, four) {
      out.setState((*there)->word());
      KJ_IF_MAYBE (lease, (*there)->client().lease()) {
        fillLease(out, *lease);
        lastHostname = kj::str(lease->hostname);
      }
    }
    KJ_IF_MAYBE (there, six) {
      out.setState((*there)->word());
      if (kind == "ra") {
        fillAdvertised(out, **there);
      } else {
        KJ_IF_MAYBE (client, (*there)->client()) {
          KJ_IF_MAYBE (lease, client->lease()) {
            fillLease(out, *lease);
            lastHostname = kj::str(lease->hostname);
          }
        }
      }
    }
    out.setHostname(lastHostname);
  }
};

Operators::Operators(kj::UnixEventPort& port, kj::Timer& timer, StoreClient& store,
                     netlink::Kernel& kernel, netlink::Monitor& monitor,
                     kj::StringPtr directoryGiven, kj::Function<uint64_t()> randomGiven,
                     kj::Function<void()> changedGiven)
    : timer(timer),
      store(store),
      kernel(kernel),
      monitor(monitor),
      directory(kj::str(directoryGiven)),
      random(kj::mv(randomGiven)),
      changed(kj::mv(changedGiven)),
      around{port, timer, directory, random},
      specs(store.watch<rpc::OperatorSpecSpec>([this] { adjust.raise(); })) {}

Operators::~Operators() noexcept(false) = default;

kj::Promise<void> Operators::run() {
  return adjustLoop().exclusiveJoin(linkLoop()).exclusiveJoin(publishLoop());
}

kj::Promise<void> Operators::adjustLoop() {
  for (;;) {
    co_await adjust.wait();
    adjustAll();
  }
}

kj::Promise<void> Operators::linkLoop() {
  for (;;) {
    auto notice = co_await monitor.next();
    if ((notice.links || notice.overrun) && running.size() > 0) adjustAll();
    if (notice.addresses || notice.overrun) seeAddresses();
    co_await timer.afterDelay(kKernelPause);
  }
}

void Operators::adjustAll() {
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
  tell.raise();
}

void Operators::end(kj::StringPtr id) {
  KJ_IF_MAYBE (there, running.find(id)) {
    (*there)->stop();
    KJ_IF_MAYBE (rest, (*there)->rest()) {
      leaving.upsert(kj::str(id), kj::mv(*rest), [](auto& old, auto&& now) { old = kj::mv(now); });
    }
    running.erase(id);
  }
}

// Read only where somebody wants to know: there may be thousands.
void Operators::seeAddresses() {
  kj::Vector<dhcp::Operator6*> watching;
  auto consider = [&](dhcp::Operator6& some) {
    if (some.watches()) watching.add(&some);
  };
  for (auto& entry : running) {
    KJ_IF_MAYBE (there, entry.value->six) consider(**there);
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

void Operators::adjustOne(kj::StringPtr id, rpc::OperatorSpecSpec::Reader spec) {
  auto& entry = *running.findOrCreate(
      id, [&] { return decltype(running)::Entry{kj::str(id), kj::heap<Running>()}; });
  kj::StringPtr link = spec.getLinkName();
  if (entry.kind != spec.getOperator() || entry.link != link ||
      entry.hostname != spec.getHostname()) {
    entry.end();
    entry.kind = kj::str(spec.getOperator());
    entry.link = kj::str(link);
    entry.hostname = kj::str(spec.getHostname());
  }
  auto state = dhcp::lookAtLink(link);
  KJ_IF_MAYBE (now, state) {
    if (entry.goesOn(*now)) return;
    entry.end();
    entry.problem = kj::str();
    if (now->hardwareAddress.size() == 0) {
      entry.problem = kj::str("not an Ethernet link");
    } else {
      entry.begin(around, kj::mv(*now), [this] {
        tell.raise();
        if (leaving.size() > 0) adjust.raise();  // one of them may have ended
        changed();
      });
    }
  } else {
    entry.end();
    entry.problem = kj::str("no such link");
  }
}

bool Operators::lost(kj::StringPtr link, const Prefix& address) const {
  bool asked = false;
  for (auto& entry : running) {
    if (entry.value->link != link) continue;
    KJ_IF_MAYBE (own, entry.value->addressOf(address.address.family())) {
      asked = true;
      KJ_IF_MAYBE (prefix, *own) {
        if (*prefix == address) return false;
      }
    }
  }
  return asked;
}

StoreClient::Wanted Operators::statuses() {
  StoreClient::Wanted wanted;
  for (auto& entry : running) {
    auto message = kj::heap<capnp::MallocMessageBuilder>();
    entry.value->fill(message->initRoot<rpc::OperatorStatusSpec>());
    wanted.insert(kj::str(entry.key), kj::mv(message));
  }
  return wanted;
}

kj::Promise<void> Operators::publishLoop() {
  for (;;) {
    co_await tell.wait();
    seeAddresses();  // the kernel may have refused long ago what was only leased now
    kj::Maybe<kj::String> failure;
    try {
      co_await timer.timeoutAfter(kPublishDeadline,
                                  store.replaceAll<rpc::OperatorStatusSpec>(statuses()));
    } catch (...) {
      failure = messageOf(kj::getCaughtExceptionAsKj());
    }
    KJ_IF_MAYBE (why, failure) {
      log::warn("cannot report leases; retrying", {{"error", *why}});
      co_await timer.afterDelay(kPublishPause);
      tell.raise();
    }
  }
}

}  // namespace talos::networkd
