#include "vipd/vip-manager.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/memory/process-memory.h"
#include "common/wire/store-adapter.h"

namespace talos::vipd {
namespace {

constexpr kj::Duration kLongestFarewell = 5 * kj::SECONDS, kLastReport = 1 * kj::SECONDS;
constexpr kj::Duration kReadAgain = 1 * kj::SECONDS, kLookAtPeers = 1 * kj::SECONDS;
// Pause between two reports of a lease, which is renewed all the time.
constexpr kj::Duration kReportPause = 1 * kj::SECONDS, kReportRetry = 2 * kj::SECONDS;

}  // namespace

VipManager::VipManager(Dependencies& deps, netlink::Monitor& monitor, VipStore& store, Signal& work)
    : deps(deps), monitor(monitor), store(store), work(work), tasks(*this) {}

VipManager::~VipManager() noexcept(false) = default;

kj::Promise<void> VipManager::run() {
  takeAway(deps.kernel, nullptr);
  co_await followStore()
      .exclusiveJoin(followKernel())
      .exclusiveJoin(publish())
      .exclusiveJoin(watchPeers());
}

kj::Promise<void> VipManager::followStore() {
  for (;;) {
    apply();
    co_await work.wait();
  }
}

kj::Promise<void> VipManager::followKernel() {
  for (;;) {
    auto notice = co_await monitor.next();
    if (notice.links || notice.addresses || notice.overrun) apply();
  }
}

kj::Promise<void> VipManager::watchPeers() {
  bool warned = false;
  for (;;) {
    co_await deps.timer.afterDelay(kLookAtPeers);
    if (addresses.empty()) continue;
    size_t ended = 0;
    auto failure = kj::runCatchingExceptions([&] { ended = deps.endStalledPeers(); });
    KJ_IF_MAYBE (e, failure) {
      if (!warned) {
        log::warn("cannot end stalled connections of etcd; a shared address may be away for longer",
                  {{"error", messageOf(*e)}});
      }
      warned = true;
      continue;
    }
    warned = false;
    if (ended > 0) log::info("ended stalled connections of etcd", {{"connections", ended}});
  }
}

Observed VipManager::look() {
  // Later changes arrive with a new notice.
  (void)monitor.take();
  return {deps.kernel.links(), deps.kernel.addresses()};
}

void VipManager::apply() {
  auto failure = kj::runCatchingExceptions([this] { applyNow(); });
  KJ_IF_MAYBE (e, failure) {
    if (again) return;  // The kernel may send many notices.
    log::error("cannot read links and addresses; retrying", {{"error", messageOf(*e)}});
    again = true;
    tasks.add(deps.timer.afterDelay(kReadAgain).then([this] {
      again = false;
      apply();
    }));
  }
}

void VipManager::applyNow() {
  if (stopping) return;
  auto known = store.wanted();
  KJ_IF_MAYBE (wanted, known) {
    std::map<Ip, const Wanted::Vip*> all;
    for (auto& vip : wanted->vips) all[vip.address] = &vip;
    for (auto i = addresses.begin(); i != addresses.end();) {
      auto there = i++;
      auto vip = all.find(there->first);
      if (vip == all.end()) {
        tasks.add(retire(there, kj::str("no link of this node shares it any more")));
      } else if (vip->second->link != there->second->link() ||
                 vip->second->ttl != there->second->requestedTtl()) {
        tasks.add(retire(there, kj::str("its config has changed")));
      }
    }
    if (all.empty()) return;
    for (auto& [address, vip] : all) {
      if (addresses.contains(address) || leaving.contains(address)) continue;
      addresses[address] = kj::heap<SharedAddress>(deps, address, kj::str(vip->link), vip->ttl,
                                                   [this] { statusChanged.raise(); });
    }
    auto observed = look();
    kj::Maybe<kj::StringPtr> obstacle;
    KJ_IF_MAYBE (cause, wanted->obstacle) obstacle = kj::StringPtr(*cause);
    if (obstacle == nullptr && wanted->host.size() == 0) obstacle = "this node has no name yet"_kj;
    for (auto& [address, shared] : addresses) {
      auto vip = all.find(address);
      if (vip != all.end()) {
        shared->setHcloud(vip->second->hcloud, vip->second->hcloudToken, [this] {
          statusChanged.raise();
          work.raise();
        });
      }
      shared->stand(wanted->host, obstacle, observed, wanted->instance);
    }
  }
}

kj::Promise<void> VipManager::retire(Addresses::iterator which, kj::String cause) {
  auto address = which->first;
  auto node = addresses.extract(which);
  auto& shared = *node.mapped();
  leaving.insert(kj::mv(node));
  co_await shared.retire(cause);
  leaving.erase(address);
  statusChanged.raise();
  work.raise();  // A spec may want the address again.
}

kj::Promise<void> VipManager::stop(kj::StringPtr cause) {
  stopping = true;
  auto farewells = kj::heapArrayBuilder<kj::Promise<void>>(addresses.size() + 1);
  while (!addresses.empty()) farewells.add(retire(addresses.begin(), kj::str(cause)));
  farewells.add(tasks.onEmpty());
  auto all = kj::joinPromises(farewells.finish());
  co_await all.exclusiveJoin(deps.timer.afterDelay(kLongestFarewell));
  KJ_IF_MAYBE (error, co_await errorOf([&] {
                 return deps.timer.timeoutAfter(kLastReport, store.publish(shown()));
               })) {
    log::warn("cannot report that no shared address is held any more", {{"error", *error}});
  }
}

kj::Array<Shown> VipManager::shown() const {
  kj::Vector<Shown> result;
  for (auto* group : {&addresses, &leaving}) {
    for (auto& [address, shared] : *group) {
      result.add(Shown{address, kj::str(shared->link()), shared->status()});
    }
  }
  return result.releaseAsArray();
}

// Reports changes at once, and the end of a lease, which moves all the time, once a second.
kj::Promise<void> VipManager::publish() {
  for (;;) {
    auto all = shown();
    bool holds = false;
    for (auto& one : all) holds = holds || one.status.state == Candidate::State::kHolder;
    settle(all);
    bool reported = store.wanted() != nullptr;
    if (reported) {
      auto failure = co_await errorOf([&] { return store.publish(kj::mv(all)); });
      KJ_IF_MAYBE (error, failure) {
        log::warn("cannot report the holders of shared addresses; retrying", {{"error", *error}});
        reported = false;
      }
    }
    auto again =
        reported ? (holds ? deps.timer.afterDelay(kReportPause) : kj::Promise<void>(kj::NEVER_DONE))
                 : deps.timer.afterDelay(kReportRetry);
    co_await statusChanged.wait().exclusiveJoin(kj::mv(again));
  }
}

// Frees the memory of the start, above all of dialling etcd.
void VipManager::settle(kj::ArrayPtr<const Shown> shown) {
  for (auto& one : shown) {
    if (settled || one.status.state == Candidate::State::kIdle) continue;
    settled = true;
    releaseStartMemory();
  }
}

void VipManager::taskFailed(kj::Exception&& e) {
  log::error("cannot leave an election", {{"error", messageOf(e)}});
}

}  // namespace talos::vipd
