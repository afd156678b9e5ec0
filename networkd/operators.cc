#include "networkd/operators.h"

#include "common/error.h"
#include "common/log.h"

namespace talos::networkd {
namespace {

constexpr kj::StringPtr kSpecs = "OperatorSpecs.net.talos.dev"_kj,
                        kStatuses = "OperatorStatuses.net.talos.dev"_kj;
constexpr auto kKernelPause = 20 * kj::MILLISECONDS;
constexpr auto kPublishDeadline = 10 * kj::SECONDS, kPublishPause = 1 * kj::SECONDS;

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

}  // namespace

// What runs for one spec, or why nothing does.
struct Operators::Running {
  kj::String kind, link, hostname;
  kj::Maybe<kj::Own<dhcp::Operator4>> dhcp4;
  kj::String problem;
  kj::String lastHostname;  // of the newest lease, also when that has ended

  void fill(rpc::OperatorStatusSpec::Builder out) {
    out.setOperator(kind);
    out.setLinkName(link);
    out.setState(problem);
    KJ_IF_MAYBE (there, dhcp4) {
      auto& client = (*there)->client();
      out.setState(nameOf(client.state()));
      KJ_IF_MAYBE (lease, client.lease()) {
        fillLease(out, *lease);
        lastHostname = kj::str(lease->hostname);
      }
    }
    out.setHostname(lastHostname);
  }
};

Operators::Operators(kj::UnixEventPort& port, kj::Timer& timer, StoreClient& store,
                     netlink::Monitor& monitor, kj::StringPtr directoryGiven,
                     kj::Function<uint64_t()> randomGiven)
    : timer(timer),
      store(store),
      monitor(monitor),
      directory(kj::str(directoryGiven)),
      random(kj::mv(randomGiven)),
      around{port, timer, directory, random},
      specs(store.watch(kSpecs, [this] { adjust.set(); })) {}

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
    co_await timer.afterDelay(kKernelPause);
  }
}

void Operators::adjustAll() {
  if (!specs->synced()) return;
  kj::Vector<kj::String> gone;
  for (auto& entry : running) {
    if (specs->resources().find(entry.key) == nullptr) gone.add(kj::str(entry.key));
  }
  for (auto& id : gone) {
    KJ_IF_MAYBE (there, running.find(id)) {
      KJ_IF_MAYBE (client, (*there)->dhcp4) (*client)->stop();
    }
    running.erase(id);
  }
  for (auto& [id, held] : specs->resources()) adjustOne(id, held.spec<rpc::OperatorSpecSpec>());
  tell.set();
}

void Operators::adjustOne(kj::StringPtr id, rpc::OperatorSpecSpec::Reader spec) {
  auto& entry = *running.findOrCreate(
      id, [&] { return decltype(running)::Entry{kj::str(id), kj::heap<Running>()}; });
  kj::StringPtr link = spec.getLinkName();
  if (entry.kind != spec.getOperator() || entry.link != link ||
      entry.hostname != spec.getHostname()) {
    entry.dhcp4 = nullptr;
    entry.kind = kj::str(spec.getOperator());
    entry.link = kj::str(link);
    entry.hostname = kj::str(spec.getHostname());
  }
  entry.problem = kj::str();
  auto state = dhcp::lookAtLink(link);
  KJ_IF_MAYBE (now, state) {
    KJ_IF_MAYBE (client, entry.dhcp4) {
      auto& before = (*client)->link();
      if (before.index == now->index && before.hardwareAddress == now->hardwareAddress) {
        (*client)->setRunning(now->running);
        return;
      }
    }
    entry.dhcp4 = nullptr;
    if (entry.kind != "dhcp4") {
      entry.problem = kj::str("there is no operator \"", entry.kind, "\"");
    } else if (now->hardwareAddress.size() == 0) {
      entry.problem = kj::str("not an Ethernet");
    } else {
      entry.dhcp4 = kj::heap<dhcp::Operator4>(around, link, kj::mv(*now), entry.hostname, false,
                                              [this] { tell.set(); });
    }
  } else {
    entry.dhcp4 = nullptr;
    entry.problem = kj::str("no such link");
  }
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
    kj::Maybe<kj::String> failure;
    try {
      co_await timer.timeoutAfter(kPublishDeadline,
                                  store.replaceAll<rpc::OperatorStatusSpec>(kStatuses, statuses()));
    } catch (...) {
      failure = messageOf(kj::getCaughtExceptionAsKj());
    }
    KJ_IF_MAYBE (why, failure) {
      log::warn("leases could not be told", {{"error", *why}});
      co_await timer.afterDelay(kPublishPause);
      tell.set();
    }
  }
}

}  // namespace talos::networkd
