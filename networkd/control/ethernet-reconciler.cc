#include "networkd/control/ethernet-reconciler.h"

#include <kj/debug.h>
#include <net/if_arp.h>

#include <algorithm>
#include <set>

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::networkd {

using netlink::EthernetGroup;
using netlink::EthernetState;
using netlink::SetEthernet;

namespace {

constexpr kj::Duration kFirstEthernetPause = 1 * kj::SECONDS;

// True for hardware; links of pods, tunnels and bonds have drivers, too, which are of no interest.
bool isCard(const netlink::Link& link) {
  return link.type == ARPHRD_ETHER && link.kind.size() == 0 && !link.loopback();
}

// Returns true if both states have the same settings of the group.
bool isSame(EthernetGroup group, const EthernetState& one, const EthernetState& other) {
  switch (group) {
    case EthernetGroup::kRings:
      return one.rings == other.rings;
    case EthernetGroup::kFeatures:
      return one.features == other.features;
    case EthernetGroup::kChannels:
      return one.channels == other.channels;
    case EthernetGroup::kWakeOnLan:
      return one.wakeOnLan == other.wakeOnLan;
  }
  KJ_UNREACHABLE;
}

}  // namespace

struct EthernetReconciler::Result {
  Records records;
  std::string problems;  // of all links, for the log
  bool failed = false;   // the kernel has refused to read or to set something
};

EthernetReconciler::EthernetReconciler(netlink::Kernel& kernel, netlink::Monitor& monitor,
                                       netlink::Ethtool& ethtool, kj::Timer& timer, Signal& work,
                                       EthernetInputs inputs)
    : kernel(kernel),
      monitor(monitor),
      ethtool(ethtool),
      timer(timer),
      work(work),
      inputs(kj::mv(inputs)) {}

kj::Promise<void> EthernetReconciler::run() {
  CheckPace pace(timer, kFirstEthernetPause, kPause);
  for (;;) {
    (void)monitor.take();  // The check covers the notices until now.
    // Before the check, so that no change is missed.
    auto change = work.wait().exclusiveJoin(
        monitor.next().then([this](netlink::Notice) { return timer.afterDelay(kLinkPause); }));
    auto next = co_await check();
    co_await pace.due(next, kj::mv(change));
  }
}

kj::Promise<NextCheck> EthernetReconciler::check() {
  auto specs = inputs.read();
  if (specs == nullptr) co_return NextCheck::kAtChange;
  auto& wanted = KJ_ASSERT_NONNULL(specs);
  kj::Maybe<Result> result;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { result = reconcile(wanted); })) {
    log::error("cannot read the links of the kernel", {{"error", messageOf(*e)}});
    co_return NextCheck::kSoon;
  }
  auto& reached = KJ_ASSERT_NONNULL(result);
  logProblems(reached);
  auto failure = co_await errorOf([&] {
    return timer.timeoutAfter(kPublishDeadline, inputs.publish(kj::mv(reached.records)));
  });
  KJ_IF_MAYBE (error, failure) {
    log::warn("cannot report the settings of the drivers of links; retrying", {{"error", *error}});
    co_return NextCheck::kSoon;
  }
  if (reached.failed) co_return NextCheck::kSoon;
  co_return wanted.empty() ? NextCheck::kAtChange : NextCheck::kAfterPause;
}

EthernetReconciler::Result EthernetReconciler::reconcile(const std::vector<WantedEthernet>& specs) {
  Result result;
  auto links = kernel.links();
  std::set<std::string> wanted;
  for (auto& spec : specs) {
    wanted.insert(spec.link);
    const netlink::Link* found = nullptr;
    for (auto& link : links) {
      if (link.name == spec.link.c_str()) found = &link;
    }
    ensure(spec, found, result);
  }
  for (auto& link : links) {
    if (isCard(link) && wanted.count(link.name.cStr()) == 0) readCard(link, result);
  }
  std::erase_if(settled, [&](auto& entry) { return wanted.count(entry.first) == 0; });
  return result;
}

// Reports the settings of a card without a spec. A card that is gone by now, or whose driver fails,
// has no status.
void EthernetReconciler::readCard(const netlink::Link& link, Result& result) {
  auto failure = kj::runCatchingExceptions(
      [&] { addEthernetStatus(result.records, link.name, ethtool.read(link.index), 0, nullptr); });
  (void)failure;
}

void EthernetReconciler::ensure(const WantedEthernet& wanted, const netlink::Link* link,
                                Result& result) {
  kj::Vector<kj::String> problems;
  EthernetState found;
  if (link == nullptr) {
    settled.erase(wanted.link);
    problems.add(kj::str("there is no link with this name; its settings are made when it appears"));
  } else {
    auto failure = kj::runCatchingExceptions([&] {
      found = ethtool.read(link->index);
      problems = apply(wanted, link->index, found, result);
    });
    KJ_IF_MAYBE (e, failure) {
      result.failed = true;
      problems.add(messageOf(*e));
    }
  }
  for (auto& problem : problems) {
    result.problems += kj::str(wanted.link.c_str(), ": ", problem, "; ").cStr();
  }
  addEthernetStatus(result.records, wanted.link.c_str(), found, wanted.version, problems);
}

// Returns true if the driver has accepted the step before, and nothing has changed since.
bool EthernetReconciler::isSettled(const WantedEthernet& wanted, const SetEthernet& step,
                                   const EthernetState& found) const {
  auto entry = settled.find(wanted.link);
  if (entry == settled.end()) return false;
  auto& known = entry->second;
  return known.version == wanted.version && isSame(step.group, known.found, found) &&
         std::find(known.steps.begin(), known.steps.end(), step) != known.steps.end();
}

// Makes the steps that are left to do, and returns the problems after them; `found` is then what
// the driver has. A refused group does not repeat the steps of the other groups.
kj::Vector<kj::String> EthernetReconciler::apply(const WantedEthernet& wanted, unsigned index,
                                                 EthernetState& found, Result& result) {
  auto planned = plan(wanted, found, index);
  kj::Vector<kj::String> problems;
  std::set<EthernetGroup> refused;
  bool changed = false;
  for (auto& step : planned.steps) {
    if (isSettled(wanted, step, found)) continue;
    changed = true;
    KJ_IF_MAYBE (error, ethtool.set(step)) {
      refused.insert(step.group);
      problems.add(kj::str(describe(step), ": ", *error));
    } else {
      log::info("changed the settings of a link's driver",
                {{"link", wanted.link.c_str()}, {"settings", describe(step)}});
    }
  }
  if (changed) {
    found = ethtool.read(index);
    planned = plan(wanted, found, index);
  }
  if (!refused.empty()) result.failed = true;
  std::erase_if(planned.steps, [&](auto& step) { return refused.count(step.group) > 0; });
  for (auto& problem : planned.problems) problems.add(kj::mv(problem));
  auto stepsLeft = kj::arrayPtr(planned.steps.data(), planned.steps.size());
  for (auto& problem : notTaken(stepsLeft, found)) problems.add(kj::mv(problem));
  settled[wanted.link] = {wanted.version, std::move(planned.steps), found};
  return problems;
}

void EthernetReconciler::logProblems(const Result& result) {
  if (result.problems != logged && !result.problems.empty()) {
    log::warn("drivers of links do not have the settings of the config",
              {{"problems", result.problems.c_str()}});
  }
  logged = result.problems;
}

// --- the store
EthernetSpecs::EthernetSpecs(StoreClient& store)
    : store(store), watches(store, [this] { changed.raise(); }) {
  watches.watch(specs);
}

EthernetInputs EthernetSpecs::inputs() {
  return {[this]() -> kj::Maybe<std::vector<WantedEthernet>> {
            if (!watches.synced()) return nullptr;
            std::vector<WantedEthernet> wanted;
            for (auto spec : specs)
              wanted.push_back(wantedEthernet(spec.id(), spec.version(), spec));
            return kj::mv(wanted);
          },
          [this](Records records) {
            return store.replaceAll<rpc::EthernetStatusSpec>(kj::mv(records));
          }};
}

}  // namespace talos::networkd
