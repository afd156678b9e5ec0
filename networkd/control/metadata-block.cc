#include "networkd/control/metadata-block.h"

#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/wire/store-adapter.h"
#include "networkd/control/network-pace.h"
#include "networkd/plan/status-records.h"
#include "rpc/network-resources.capnp.h"

namespace talos::networkd {

// --- the kernel
namespace {

class KernelFilter final : public MetadataFilter {
 public:
  kj::Vector<FilterRule> rules() override { return socket.rules(kMetadataTable); }
  void replace(kj::ArrayPtr<const Ip> addresses) override {
    socket.write(encodeMetadataRules(addresses));
  }

 private:
  FilterSocket socket;
};

}  // namespace

kj::Own<MetadataFilter> openMetadataFilter() {
  return kj::heap<KernelFilter>();
}

// --- the loop
MetadataBlock::MetadataBlock(MetadataFilter& filter, kj::Timer& timer, Signal& work, Read read,
                             Publish publish)
    : filter(filter), timer(timer), work(work), read(kj::mv(read)), publish(kj::mv(publish)) {}

kj::Promise<void> MetadataBlock::run() {
  return lookForEver(timer, work, [this] { return look(); });
}

MetadataBlock::Outcome MetadataBlock::make(kj::ArrayPtr<const Ip> addresses) {
  Outcome outcome;
  auto wanted = metadataRules(addresses);
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 auto found = filter.rules();
                 if (!sameRules(found, wanted)) {
                   filter.replace(addresses);
                   if (addresses.size() > 0) {
                     log::info("pods are kept from the metadata service of the platform",
                               {{"address", kj::strArray(addresses, ", ")}});
                   } else {
                     log::info("pods may reach the metadata service of the platform");
                   }
                   found = filter.rules();
                 }
                 for (auto& rule : found) outcome.dropped += rule.packets;
               })) {
    // Without nf_tables there are no rules to remove.
    if (addresses.size() > 0 || kindOf(*e) != ErrorKind::kUnimplemented) {
      outcome.problem = messageOf(*e);
    }
  }
  outcome.made = outcome.problem.size() == 0;
  return outcome;
}

MetadataBlock::Outcome MetadataBlock::makeAll(kj::ArrayPtr<const Wanted> all) {
  kj::Vector<Ip> addresses;
  for (auto& one : all) {
    for (auto& text : one.addresses) addresses.add(Ip::require(text));  // written by machined
  }
  auto outcome = make(addresses);
  if (outcome.problem.size() > 0 && outcome.problem != logged) {
    log::error("cannot keep pods from the metadata service of the platform",
               {{"error", outcome.problem}});
  }
  logged = kj::str(outcome.problem);
  return outcome;
}

// Returns false if the report has to be repeated.
kj::Promise<bool> MetadataBlock::report(kj::ArrayPtr<const Wanted> all, const Outcome& outcome) {
  Records records;
  for (auto& one : all) {
    insert<rpc::MetadataBlockStatusSpec>(
        records, kj::str(one.id), [&](rpc::MetadataBlockStatusSpec::Builder spec) {
          if (outcome.made) fillTexts(spec.initAddresses(one.addresses.size()), one.addresses);
          spec.setDropped(outcome.dropped);
          spec.setProblem(outcome.problem);
        });
  }
  auto failure = co_await errorOf(
      [&] { return timer.timeoutAfter(kPublishDeadline, publish(kj::mv(records))); });
  KJ_IF_MAYBE (error, failure) {
    log::warn("cannot report what keeps pods from the metadata service; retrying",
              {{"error", *error}});
    co_return false;
  }
  co_return true;
}

kj::Promise<MetadataBlock::Next> MetadataBlock::look() {
  auto found = read();
  if (found == nullptr) co_return Next::kAtChange;
  auto& state = KJ_ASSERT_NONNULL(found);
  auto& all = state.wanted;
  if (!state.reported) {
    if (all.empty()) co_return Next::kAtChange;
    if (!co_await report(all, {})) co_return Next::kSoon;
  }
  auto outcome = makeAll(all);
  // The status stays if its rules could not be removed.
  if (all.empty() && !outcome.made) co_return Next::kSoon;
  if (!co_await report(all, outcome) || !outcome.made) co_return Next::kSoon;
  co_return all.empty() ? Next::kAtChange : Next::kAfterPause;
}

}  // namespace talos::networkd
