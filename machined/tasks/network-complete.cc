#include "machined/tasks/network-complete.h"

#include "common/base/signal.h"
#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kNamespace = "network"_kj;
constexpr kj::StringPtr kAddressSpecs = "AddressSpecs.net.talos.dev"_kj,
                        kNodeAddresses = "NodeAddresses.net.talos.dev"_kj,
                        kOperatorSpecs = "OperatorSpecs.net.talos.dev"_kj,
                        kOperatorStatuses = "OperatorStatuses.net.talos.dev"_kj,
                        kNetworkStatuses = "NetworkStatuses.net.talos.dev"_kj;
// What networkd applies, and counts the versions of.
constexpr kj::StringPtr kApplied[] = {"LinkSpecs.net.talos.dev"_kj, kAddressSpecs,
                                      "RouteSpecs.net.talos.dev"_kj};
constexpr kj::StringPtr kOthers[] = {kNodeAddresses, kOperatorSpecs, kOperatorStatuses,
                                     kNetworkStatuses};

bool hasAddress(Store& store) {
  if (store.list(kNamespace, kAddressSpecs).size() > 0) return true;
  // One that the kernel made of a router's advertisement counts as well.
  KJ_IF_MAYBE (there, store.tryGet(kNamespace, kNodeAddresses, "current")) {
    return there->getSpec().getAs<rpc::NodeAddressSpec>().getAddresses().size() > 0;
  }
  return false;
}

// Where a network has to be asked for an address: that takes longer than to apply what is known.
// One is enough; the other cards may have no cable.
kj::Maybe<kj::String> lackingAddress(Store& store) {
  if (hasAddress(store)) return nullptr;
  kj::Maybe<kj::String> lacking;
  for (auto resource : store.list(kNamespace, kOperatorSpecs)) {
    auto id = resource.getMetadata().getId();
    auto text = kj::str(id, " has assigned no address");
    KJ_IF_MAYBE (status, store.tryGet(kNamespace, kOperatorStatuses, id)) {
      auto spec = status->getSpec().getAs<rpc::OperatorStatusSpec>();
      text = kj::str(text, " (", spec.getState(), ")");
    }
    lacking = kj::mv(text);
  }
  return lacking;
}

kj::Maybe<kj::String> lacking(Store& store) {
  uint64_t wanted = 0;
  for (auto type : kApplied) {
    for (auto resource : store.list(kNamespace, type)) {
      wanted += resource.getMetadata().getVersion();
    }
  }
  KJ_IF_MAYBE (resource, store.tryGet(kNamespace, kNetworkStatuses, "status")) {
    auto status = resource->getSpec().getAs<rpc::NetworkStatusSpec>();
    if (status.getApplied() == wanted) return lackingAddress(store);
    auto text =
        kj::str("networkd has applied ", status.getApplied(), " of ", wanted, " spec versions");
    for (auto problem : status.getProblems()) text = kj::str(text, "; ", problem);
    return kj::mv(text);
  }
  return kj::str("networkd has not reported its status");
}

kj::Promise<void> complete(Store& store, ControllerRuntime& controllers) {
  Signal changed;
  kj::Vector<kj::Own<void>> subscriptions;
  auto follow = [&](kj::StringPtr type) {
    subscriptions.add(store.onChange(kNamespace, type, [&changed]() { changed.raise(); }));
  };
  for (auto type : kApplied) follow(type);
  for (auto type : kOthers) follow(type);
  for (;;) {
    co_await controllers.whenIdle();
    if (lacking(store) == nullptr) co_return;
    co_await changed.wait();
  }
}

}  // namespace

kj::Promise<kj::Maybe<kj::String>> networkComplete(Store& store, ControllerRuntime& controllers,
                                                   kj::Timer& timer, kj::Duration patience) {
  auto late = timer.afterDelay(patience).then([]() { return true; });
  auto done = complete(store, controllers).then([]() { return false; });
  if (!co_await done.exclusiveJoin(kj::mv(late))) co_return nullptr;
  co_return lacking(store).orDefault(kj::str("the controllers are still at work"));
}

}  // namespace talos::machined
