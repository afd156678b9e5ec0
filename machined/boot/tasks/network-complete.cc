#include "machined/boot/tasks/network-complete.h"

#include <string.h>

#include "common/base/node-messages.h"
#include "common/base/signal.h"
#include "rpc/inventory-resources.capnp.h"
#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

bool hasAddress(Store& store) {
  for (auto address : store.list<rpc::AddressSpecSpec>()) {
    if (address.getScope() != "host") return true;  // not one that no other machine reaches
  }
  // An address that the kernel made of a router advertisement counts as well.
  KJ_IF_MAYBE (current, store.tryGet<rpc::NodeAddressSpec>("current")) {
    return current->getAddresses().size() > 0;
  }
  return false;
}

// Asking a network for an address takes longer than applying a spec. One address is enough: the
// other links may have no carrier.
kj::Maybe<kj::String> lackingAddress(Store& store) {
  if (hasAddress(store)) return nullptr;
  kj::Maybe<kj::String> lacking;
  for (auto requested : store.list<rpc::OperatorSpecSpec>()) {
    auto text = kj::str(requested.id(), " has assigned no address");
    KJ_IF_MAYBE (status, store.tryGet<rpc::OperatorStatusSpec>(requested.id())) {
      text = kj::str(text, " (", status->getState(), ")");
    }
    lacking = kj::mv(text);
  }
  return lacking;
}

template <typename... Specs>
uint64_t versions(Store& store) {
  uint64_t sum = 0;
  auto add = [&sum](const auto& list) {
    for (auto& resource : list) sum += resource.version();
  };
  (add(store.list<Specs>()), ...);
  return sum;
}

// Returns true if the status is about the rules of the spec. A spec that was removed and came back
// begins with version 1 again.
bool isAbout(const ResourceOf<rpc::FirewallStatusSpec>& status,
             const ResourceOf<rpc::FirewallSpecSpec>& spec) {
  if (status.getSpecVersion() != spec.version()) return false;
  bool same = status.getIngress() == (spec.getBlock() ? "block"_kj : "accept"_kj) &&
              status.getRules() == spec.getRules().size();
  return same || status.getProblem().size() > 0;
}

// Returns what networkd has not done with the rules of the firewall.
kj::Maybe<kj::String> lackingRules(Store& store) {
  for (auto& spec : store.list<rpc::FirewallSpecSpec>()) {
    auto status = store.tryGet<rpc::FirewallStatusSpec>(spec.id());
    KJ_IF_MAYBE (s, status) {
      if (isAbout(*s, spec)) continue;
    }
    return kj::str("networkd has not set the rules of the firewall");
  }
  for (auto& status : store.list<rpc::FirewallStatusSpec>()) {
    if (store.tryGet<rpc::FirewallSpecSpec>(status.id()) != nullptr) continue;
    return kj::str("networkd has not removed the rules of the firewall");
  }
  return nullptr;
}

// Returns the link to whose driver networkd has not given the settings of the config.
kj::Maybe<kj::String> lackingSettings(Store& store) {
  for (auto& spec : store.list<rpc::EthernetSpecSpec>()) {
    auto status = store.tryGet<rpc::EthernetStatusSpec>(spec.id());
    KJ_IF_MAYBE (s, status) {
      if (s->getSpecVersion() == spec.version()) continue;
    }
    return kj::str("networkd has not set the driver of ", spec.id());
  }
  // A spec that came back would have the version of the removed one.
  for (auto& status : store.list<rpc::EthernetStatusSpec>()) {
    if (status.getSpecVersion() == 0) continue;
    if (store.tryGet<rpc::EthernetSpecSpec>(status.id()) != nullptr) continue;
    return kj::str("networkd still has the settings of the driver of ", status.id());
  }
  return nullptr;
}

// Returns true if the status is about this spec, and says that nothing is left to do. A problem is
// reported by itself.
bool isSettled(const ResourceOf<rpc::HostDnsStatusSpec>& status,
               const ResourceOf<rpc::HostDnsConfigSpec>& spec) {
  if (status.getSpecVersion() != spec.version()) return false;
  bool used =
      status.getListening().size() == spec.getListenAddresses().size() &&
      status.getNameserver().size() > 0 &&
      (spec.getServiceHostDnsAddress().size() == 0) == (status.getPodNameservers().size() == 0);
  return used || status.getProblem().size() > 0;
}

// Returns what networkd has not done with the node's resolver: it should listen, and the resolver
// files should name it.
kj::Maybe<kj::String> lackingResolver(Store& store) {
  auto status = store.tryGet<rpc::HostDnsStatusSpec>("status");
  KJ_IF_MAYBE (spec, store.tryGet<rpc::HostDnsConfigSpec>("config")) {
    if (spec->getEnabled()) {
      KJ_IF_MAYBE (s, status) {
        if (isSettled(*s, *spec)) return nullptr;
      }
      return kj::str("networkd has not started host DNS");
    }
  }
  if (status == nullptr) return nullptr;
  return kj::str("networkd has not stopped host DNS");
}

kj::Maybe<kj::String> lacking(Store& store) {
  // networkd applies these specs and sums their versions.
  auto wanted = versions<rpc::LinkSpecSpec, rpc::AddressSpecSpec, rpc::RouteSpecSpec,
                         rpc::RoutingRuleSpecSpec>(store);
  KJ_IF_MAYBE (status, store.tryGet<rpc::NetworkStatusSpec>("status")) {
    if (status->getApplied() == wanted) {
      for (auto part : {lackingRules, lackingSettings, lackingResolver}) {
        auto text = part(store);
        if (text != nullptr) return text;
      }
      return lackingAddress(store);
    }
    auto text =
        kj::str("networkd has applied ", status->getApplied(), " of ", wanted, " spec versions");
    for (auto problem : status->getProblems()) text = kj::str(text, "; ", problem);
    return kj::mv(text);
  }
  return kj::str("networkd has not reported its status");
}

template <typename... Specs>
void follow(Store& store, Signal& changed, kj::Vector<kj::Own<void>>& subscriptions) {
  (subscriptions.add(store.onChange<Specs>([&changed]() { changed.raise(); })), ...);
}

kj::Promise<void> complete(Store& store, ControllerRuntime& controllers) {
  Signal changed;
  kj::Vector<kj::Own<void>> subscriptions;
  follow<rpc::LinkSpecSpec, rpc::AddressSpecSpec, rpc::RouteSpecSpec, rpc::RoutingRuleSpecSpec,
         rpc::NodeAddressSpec, rpc::OperatorSpecSpec, rpc::OperatorStatusSpec,
         rpc::NetworkStatusSpec, rpc::FirewallSpecSpec, rpc::FirewallStatusSpec,
         rpc::EthernetSpecSpec, rpc::EthernetStatusSpec, rpc::HostDnsConfigSpec,
         rpc::HostDnsStatusSpec>(store, changed, subscriptions);
  for (;;) {
    co_await controllers.whenIdle();
    if (lacking(store) == nullptr) co_return;
    co_await changed.wait();
  }
}

}  // namespace

kj::Promise<kj::Maybe<kj::String>> networkComplete(Store& store, ControllerRuntime& controllers,
                                                   kj::Timer& timer, kj::Duration timeout) {
  auto late = timer.afterDelay(timeout).then([]() { return true; });
  auto done = complete(store, controllers).then([]() { return false; });
  if (!co_await done.exclusiveJoin(kj::mv(late))) co_return nullptr;
  co_return lacking(store).orDefault(kj::str("controllers are still running"));
}

kj::Vector<kj::String> networkProblems(Store& store) {
  kj::Vector<kj::String> problems;
  KJ_IF_MAYBE (status, store.tryGet<rpc::NetworkStatusSpec>("status")) {
    for (auto problem : status->getProblems()) {
      if (strstr(problem.cStr(), messages::kNoCarrier.cStr()) != nullptr) continue;
      problems.add(kj::str(problem));
    }
  }
  for (auto status : store.list<rpc::FirewallStatusSpec>()) {
    if (status.getProblem().size() > 0) problems.add(kj::str("firewall: ", status.getProblem()));
  }
  for (auto status : store.list<rpc::HostDnsStatusSpec>()) {
    if (status.getProblem().size() > 0) problems.add(kj::str("host DNS: ", status.getProblem()));
  }
  return problems;
}

kj::Vector<kj::String> driverProblems(Store& store) {
  kj::Vector<kj::String> problems;
  for (auto status : store.list<rpc::EthernetStatusSpec>()) {
    for (auto problem : status.getProblems()) {
      problems.add(kj::str("EthernetConfig ", status.id(), ": ", problem));
    }
  }
  return problems;
}

kj::Promise<kj::Array<kj::String>> networkNotInEffect(Store& store, ControllerRuntime& controllers,
                                                      kj::Timer& timer, kj::Duration timeout) {
  auto missing = co_await networkComplete(store, controllers, timer, timeout);
  auto problems = networkProblems(store);
  if (problems.empty()) {
    KJ_IF_MAYBE (text, missing) problems.add(kj::mv(*text));
  }
  kj::Vector<kj::String> all;
  for (auto& problem : problems) all.add(kj::str("machine.network: ", problem));
  for (auto& problem : driverProblems(store)) all.add(kj::mv(problem));
  co_return all.releaseAsArray();
}

}  // namespace talos::machined
