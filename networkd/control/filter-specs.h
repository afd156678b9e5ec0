// The stored specs of networkd's two tables in the kernel's packet filter, as inputs of
// packet-table.h: the block of the platform's metadata service, and the ingress firewall of the
// node. Holds no state that a crash could lose.
#pragma once

#include "common/wire/store-adapter.h"
#include "networkd/control/packet-table.h"
#include "networkd/plan/firewall-rules.h"
#include "networkd/plan/metadata-rules.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

// Keeps pods from the metadata service of the platform.
struct MetadataFilter {
  using Spec = rpc::MetadataBlockSpecSpec;
  using Status = rpc::MetadataBlockStatusSpec;
  static constexpr TableTexts kTexts{
      .table = kMetadataTable,
      .removed = "pods may reach the metadata service of the platform"_kj,
      .notReplaced = "cannot keep pods from the metadata service of the platform"_kj,
      .notReported = "cannot report what keeps pods from the metadata service; retrying"_kj};
  // Returns nullptr without specs. Throws for an address that is not valid.
  static kj::Maybe<kj::Own<WantedTable>> wanted(kj::ArrayPtr<const ResourceOf<Spec>> specs);
};

// The ingress firewall of the node.
struct FirewallFilter {
  using Spec = rpc::FirewallSpecSpec;
  using Status = rpc::FirewallStatusSpec;
  static constexpr TableTexts kTexts{
      .table = kFirewallTable,
      .removed = "the firewall is off: every packet is accepted"_kj,
      .notReplaced = "cannot set the rules of the firewall"_kj,
      .notReported = "cannot report the rules of the firewall; retrying"_kj};
  // Returns nullptr without a spec. Throws for a network that is not valid.
  static kj::Maybe<kj::Own<WantedTable>> wanted(kj::ArrayPtr<const ResourceOf<Spec>> specs);
};

// The watched specs and statuses of a table.
template <typename Filter>
class FilterSpecs {
 public:
  explicit FilterSpecs(StoreClient& store)
      : store(store), watches(store, [this] { changed.raise(); }) {
    watches.watch(specs);
    // This process's own writes must not cause a read.
    watches.watch(statuses, "", [this] {
      if (!known) watches.announce();
      known = statuses.synced();
    });
  }
  KJ_DISALLOW_COPY_AND_MOVE(FilterSpecs);

  // Raised at each change of a spec, and when specs and statuses have arrived.
  Signal changed;

  // Returns inputs that are valid as long as this object.
  TableInputs tableInputs() {
    return {Filter::kTexts, [this] { return read(); },
            [this](Records records) {
              return store.replaceAll<typename Filter::Status>(kj::mv(records));
            }};
  }

 private:
  StoreClient& store;
  StoreInputs watches;
  bool known = false;  // The statuses of the previous networkd have arrived.
  Watched<typename Filter::Spec> specs;
  Watched<typename Filter::Status> statuses;

  kj::Maybe<TableSpecs> read() {
    if (!watches.synced()) return nullptr;
    kj::Vector<ResourceOf<typename Filter::Spec>> all;
    for (auto spec : specs) all.add(spec);
    return TableSpecs{Filter::wanted(all), statuses.begin() != statuses.end()};
  }
};

}  // namespace talos::networkd
