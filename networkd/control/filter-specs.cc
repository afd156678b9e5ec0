#include "networkd/control/filter-specs.h"

#include "common/base/log.h"
#include "networkd/plan/status-records.h"

namespace talos::networkd {
namespace {

class WantedMetadataBlock final : public WantedTable {
 public:
  explicit WantedMetadataBlock(kj::ArrayPtr<const ResourceOf<MetadataFilter::Spec>> specs) {
    for (auto& spec : specs) {
      auto& service = services.add(Service{kj::str(spec.id()), textsOf(spec.getAddresses())});
      for (auto& text : service.addresses) addresses.add(Ip::require(text));
    }
  }

  kj::Vector<FilterRule> rules() const override { return metadataRules(addresses); }
  kj::Vector<kj::Array<kj::byte>> transaction() const override {
    return encodeMetadataRules(addresses);
  }
  // Only the rule that drops packets counts them.
  uint64_t dropped(kj::ArrayPtr<const FilterRule> found) const override {
    uint64_t packets = 0;
    for (auto& rule : found) packets += rule.packets;
    return packets;
  }
  Records records(const TableStatus& status) const override {
    Records records;
    for (auto& service : services) {
      insert<MetadataFilter::Status>(
          records, kj::str(service.id), [&](MetadataFilter::Status::Builder spec) {
            if (status.inEffect) {
              fillTexts(spec.initAddresses(service.addresses.size()), service.addresses);
            }
            spec.setDropped(status.dropped);
            spec.setProblem(status.problem);
          });
    }
    return records;
  }
  void logReplaced() const override {
    log::info("pods are kept from the metadata service of the platform",
              {{"address", kj::strArray(addresses, ", ")}});
  }

 private:
  struct Service {
    kj::String id;
    kj::Array<kj::String> addresses;
  };
  kj::Vector<Service> services;
  kj::Vector<Ip> addresses;  // of all services
};

class WantedFirewall final : public WantedTable {
 public:
  explicit WantedFirewall(const ResourceOf<FirewallFilter::Spec>& spec)
      : id(kj::str(spec.id())), version(spec.version()), table(firewallTable(spec)) {}

  kj::Vector<FilterRule> rules() const override { return table.listed(); }
  kj::Vector<kj::Array<kj::byte>> transaction() const override { return encodeFirewall(table); }
  uint64_t dropped(kj::ArrayPtr<const FilterRule> found) const override {
    return table.dropped(found);
  }
  Records records(const TableStatus& status) const override {
    Records records;
    insert<FirewallFilter::Status>(records, kj::str(id), [&](FirewallFilter::Status::Builder spec) {
      if (status.inEffect) {
        spec.setIngress(action());
        spec.setRules(table.count);
      }
      // A status that only says that there may be rules is about no version.
      if (status.inEffect || status.problem.size() > 0) spec.setSpecVersion(version);
      spec.setDropped(status.dropped);
      spec.setProblem(status.problem);
    });
    return records;
  }
  void logReplaced() const override {
    log::info("the firewall has new rules", {{"default", action()}, {"count", table.count}});
  }

 private:
  kj::String id;
  uint64_t version;  // of the spec
  FirewallTable table;

  kj::StringPtr action() const { return table.block ? "block"_kj : "accept"_kj; }
};

}  // namespace

kj::Maybe<kj::Own<WantedTable>> MetadataFilter::wanted(kj::ArrayPtr<const ResourceOf<Spec>> specs) {
  if (specs.size() == 0) return nullptr;
  return kj::Own<WantedTable>(kj::heap<WantedMetadataBlock>(specs));
}

kj::Maybe<kj::Own<WantedTable>> FirewallFilter::wanted(kj::ArrayPtr<const ResourceOf<Spec>> specs) {
  if (specs.size() == 0) return nullptr;
  return kj::Own<WantedTable>(kj::heap<WantedFirewall>(specs.front()));  // there is one
}

}  // namespace talos::networkd
