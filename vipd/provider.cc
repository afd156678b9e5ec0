#include "vipd/provider.h"

#include "common/base/error.h"
#include "common/base/log.h"

namespace talos::vipd {
namespace {

constexpr Backoff::Pace kProviderPace{
    .first = 1 * kj::SECONDS, .longest = 15 * kj::SECONDS, .chance0 = 0.5, .chance1 = 1.5};
// Hetzner permits 3600 calls in an hour, and one more each second after that.
constexpr kj::Duration kAfterTooManyCalls = 10 * kj::SECONDS;
constexpr kj::Duration kCheckAgain = 60 * kj::SECONDS;

}  // namespace

Assignment::Assignment(const Ip& address, kj::Timer& timer, kj::Function<double()>& chance,
                       kj::Own<Provider> provider, kj::Function<void()> changed)
    : address(address),
      timer(timer),
      chance(chance),
      provider(kj::mv(provider)),
      changed(kj::mv(changed)),
      backoff(kProviderPace) {}

void Assignment::look(Machine now) {
  self = kj::mv(now);
  if (found || task != Task::kNone) return;
  task = Task::kFinding;
  working = find().eagerlyEvaluate(nullptr);
}

kj::Maybe<kj::String> Assignment::obstacle() const {
  if (found) return nullptr;
  if (trouble.size() > 0) return kj::str(trouble);
  return kj::str("looking for this server and the address at ", provider->name());
}

void Assignment::hold() {
  if (task == Task::kKeeping) return;
  task = Task::kKeeping;
  backoff.reset();
  working = keep().eagerlyEvaluate(nullptr);
}

void Assignment::leave() {
  if (task != Task::kKeeping) return;
  task = Task::kNone;
  working = nullptr;
  setTrouble(nullptr);
}

void Assignment::setTrouble(kj::String text) {
  if (text == trouble) return;
  trouble = kj::mv(text);
  changed();
}

// Returns how long to wait after the work: 0 after a success.
kj::Promise<kj::Duration> Assignment::paused(kj::Promise<void> work, kj::StringPtr what) {
  kj::Maybe<kj::Exception> failure;
  try {
    co_await work;
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  KJ_IF_MAYBE (e, failure) {
    auto text = kj::str(what, " at ", provider->name(), ": ", messageOf(*e));
    if (text != trouble) {
      log::warn(kj::str(what, " at ", provider->name(), "; retrying"),
                {{"address", address}, {"error", messageOf(*e)}});
    }
    setTrouble(kj::mv(text));
    auto pause = backoff.next(chance());
    if (kindOf(*e) == ErrorKind::kResourceExhausted) pause = kj::max(pause, kAfterTooManyCalls);
    co_return pause;
  }
  backoff.reset();
  setTrouble(nullptr);
  co_return 0 * kj::SECONDS;
}

kj::Promise<void> Assignment::findOnce() {
  Machine machine{.instance = kj::str(self.instance), .addresses = {}};
  machine.addresses.addAll(self.addresses);
  co_await provider->find(kj::mv(machine));
  found = true;
  stale = false;
}

kj::Promise<void> Assignment::find() {
  while (!found) {
    auto pause = co_await paused(findOnce(), "cannot find this server and the shared address");
    if (!found) co_await timer.afterDelay(pause);
  }
  task = Task::kNone;
  changed();
}

// After a failure everything is looked up again: the address may have been made again, or the
// server attached to another network.
kj::Promise<void> Assignment::keepOnce() {
  if (!found || stale) co_await findOnce();
  stale = true;
  if (co_await provider->assign()) {
    log::info(kj::str("assigned the shared address to this server at ", provider->name()),
              {{"address", address}});
  }
  stale = false;
}

kj::Promise<void> Assignment::keep() {
  for (;;) {
    auto pause = co_await paused(keepOnce(), "cannot assign the shared address to this server");
    co_await timer.afterDelay(pause > 0 * kj::SECONDS ? pause : kCheckAgain);
  }
}

}  // namespace talos::vipd
