#include "vipd/vip-manager.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/memory/process-memory.h"

namespace talos::vipd {
namespace {

constexpr kj::Duration kLongestFarewell = 5 * kj::SECONDS, kLastWord = 1 * kj::SECONDS;
constexpr kj::Duration kReadAgain = 1 * kj::SECONDS;
// Of what is told of a lease that is renewed all the time.
constexpr kj::Duration kTellPause = 1 * kj::SECONDS, kTellAgain = 2 * kj::SECONDS;

}  // namespace

Vips::Vips(World& world, netlink::Monitor& monitor, Board& board, Signal& work)
    : world(world), monitor(monitor), board(board), work(work), tasks(*this) {}

Vips::~Vips() noexcept(false) = default;

kj::Promise<void> Vips::run() {
  takeAway(world.kernel, nullptr);
  co_await followBoard().exclusiveJoin(followKernel()).exclusiveJoin(publish());
}

kj::Promise<void> Vips::followBoard() {
  for (;;) {
    apply();
    co_await work.wait();
  }
}

kj::Promise<void> Vips::followKernel() {
  for (;;) {
    auto notice = co_await monitor.next();
    if (notice.links || notice.addresses || notice.overrun) apply();
  }
}

Seen Vips::look() {
  // What changes from here on is told by a new notice.
  (void)monitor.take();
  return {world.kernel.links(), world.kernel.addresses()};
}

void Vips::apply() {
  auto failure = kj::runCatchingExceptions([this] { applyNow(); });
  KJ_IF_MAYBE (e, failure) {
    if (again) return;  // notices of the kernel may be many
    log::error("cannot read links and addresses; retrying", {{"error", messageOf(*e)}});
    again = true;
    tasks.add(world.timer.afterDelay(kReadAgain).then([this] {
      again = false;
      apply();
    }));
  }
}

void Vips::applyNow() {
  if (stopping) return;
  auto known = board.wanted();
  KJ_IF_MAYBE (wanted, known) {
    std::map<Ip, const Wanted::Vip*> all;
    for (auto& vip : wanted->vips) all[vip.address] = &vip;
    for (auto i = addresses.begin(); i != addresses.end();) {
      auto there = i++;
      auto vip = all.find(there->first);
      if (vip == all.end()) {
        tasks.add(retire(there, kj::str("no link of this node shares it any more")));
      } else if (vip->second->link != there->second->link() ||
                 vip->second->ttl != there->second->asked()) {
        tasks.add(retire(there, kj::str("its config has changed")));
      }
    }
    if (all.empty()) return;
    for (auto& [address, vip] : all) {
      if (addresses.contains(address) || leaving.contains(address)) continue;
      addresses[address] = kj::heap<SharedAddress>(world, address, kj::str(vip->link), vip->ttl,
                                                   [this] { tell.raise(); });
    }
    auto seen = look();
    kj::Maybe<kj::StringPtr> obstacle;
    KJ_IF_MAYBE (why, wanted->obstacle) obstacle = kj::StringPtr(*why);
    if (obstacle == nullptr && wanted->host.size() == 0) obstacle = "this node has no name yet"_kj;
    for (auto& [address, shared] : addresses) shared->stand(wanted->host, obstacle, seen);
  }
}

kj::Promise<void> Vips::retire(Addresses::iterator which, kj::String why) {
  auto address = which->first;
  auto node = addresses.extract(which);
  auto& shared = *node.mapped();
  leaving.insert(kj::mv(node));
  co_await shared.retire(why);
  leaving.erase(address);
  tell.raise();
  work.raise();  // it may be wanted again
}

kj::Promise<void> Vips::stop(kj::StringPtr why) {
  stopping = true;
  auto farewells = kj::heapArrayBuilder<kj::Promise<void>>(addresses.size() + 1);
  while (!addresses.empty()) farewells.add(retire(addresses.begin(), kj::str(why)));
  farewells.add(tasks.onEmpty());
  auto all = kj::joinPromises(farewells.finish());
  co_await all.exclusiveJoin(world.timer.afterDelay(kLongestFarewell));
  try {
    co_await world.timer.timeoutAfter(kLastWord, board.publish(shown()));
  } catch (...) {
    log::warn("cannot tell that no shared address is held any more",
              {{"error", messageOf(kj::getCaughtExceptionAsKj())}});
  }
}

kj::Array<Shown> Vips::shown() const {
  kj::Vector<Shown> result;
  for (auto* group : {&addresses, &leaving}) {
    for (auto& [address, shared] : *group) {
      result.add(Shown{address, kj::str(shared->link()), shared->status()});
    }
  }
  return result.releaseAsArray();
}

// What changes is told at once, the end of a lease, which is another one all the time, once a
// second.
kj::Promise<void> Vips::publish() {
  for (;;) {
    auto all = shown();
    bool holds = false;
    for (auto& one : all) holds = holds || one.status.state == Candidate::State::kHolder;
    settle(all);
    bool told = board.wanted() != nullptr;
    if (told) {
      kj::Maybe<kj::String> failure;
      try {
        co_await board.publish(kj::mv(all));
      } catch (...) {
        failure = messageOf(kj::getCaughtExceptionAsKj());
      }
      KJ_IF_MAYBE (why, failure) {
        log::warn("cannot tell who holds shared addresses; retrying", {{"error", *why}});
        told = false;
      }
    }
    auto again =
        told ? (holds ? world.timer.afterDelay(kTellPause) : kj::Promise<void>(kj::NEVER_DONE))
             : world.timer.afterDelay(kTellAgain);
    co_await tell.wait().exclusiveJoin(kj::mv(again));
  }
}

// Much of what was needed to come so far, to dial etcd above all, is not needed any more.
void Vips::settle(kj::ArrayPtr<const Shown> shown) {
  for (auto& one : shown) {
    if (settled || one.status.state == Candidate::State::kIdle) continue;
    settled = true;
    releaseStartMemory();
  }
}

void Vips::taskFailed(kj::Exception&& e) {
  log::error("cannot leave an election", {{"error", messageOf(e)}});
}

}  // namespace talos::vipd
