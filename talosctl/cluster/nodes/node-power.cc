#include "talosctl/cluster/nodes/node-power.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"

namespace talos::cluster {
namespace {

constexpr kj::Duration kShortest = 1 * kj::SECONDS;  // least time between two starts at a reboot

}  // namespace

NodePower::NodePower(kj::Timer& timer, kj::String name, kj::Function<kj::Own<Instance>()> make,
                     kj::Duration stopWithin)
    : timer(timer),
      nodeName(kj::mv(name)),
      make(kj::mv(make)),
      stopWithin(stopWithin),
      started(timer.now()),
      runs(*this) {}

int NodePower::pid() const {
  KJ_IF_MAYBE (it, instance) return (*it)->pid();
  return 0;
}

kj::StringPtr NodePower::stateName() const {
  switch (now) {
    case State::kOff:
      return "off"_kj;
    case State::kRunning:
      return "running"_kj;
    case State::kPaused:
      return "paused"_kj;
    case State::kFailed:
      return "failed"_kj;
  }
  KJ_UNREACHABLE;
}

kj::Promise<void> NodePower::act(rpc::PowerAction action) {
  bool off = now == State::kOff || now == State::kFailed;
  switch (action) {
    case rpc::PowerAction::START:
      if (now == State::kRunning) refuse("is already running");
      if (now == State::kPaused) refuse("is paused; resume it");
      start();
      if (now == State::kFailed) fail(ErrorKind::kFailedPrecondition, failure);
      return kj::READY_NOW;
    case rpc::PowerAction::STOP:
      if (off) refuse("is already off");
      if (now == State::kPaused) refuse("is paused; resume it first, or kill it");
      return stop();
    case rpc::PowerAction::KILL:
      if (off) refuse("is already off");
      return kill();
    case rpc::PowerAction::PAUSE:
      if (off) refuse("is off");
      if (now == State::kPaused) refuse("is already paused");
      KJ_IF_MAYBE (it, instance) {
        (*it)->pause();
      } else {
        refuse("is rebooting; try again");
      }
      become(State::kPaused);
      return kj::READY_NOW;
    case rpc::PowerAction::RESUME:
      if (now != State::kPaused) refuse(off ? "is off; start it" : "is not paused");
      KJ_ASSERT_NONNULL(instance)->resume();
      become(State::kRunning);
      return kj::READY_NOW;
    case rpc::PowerAction::RESET:
      if (off) refuse("is off; start it");
      return kill().then([this] { return act(rpc::PowerAction::START); });
  }
  refuse("does not support this action: its supervisor is of an older version");
}

void NodePower::cut() {
  runs.clear();
  instance = nullptr;
  become(State::kOff);
}

void NodePower::start() {
  killed = stopping = false;
  started = timer.now();
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] { instance = make(); })) {
    become(State::kFailed, messageOf(*e));
    return;
  }
  log::info("node started", {{"node", nodeName}, {"pid", KJ_ASSERT_NONNULL(instance)->pid()}});
  become(State::kRunning);
  runs.add(run());
}

// Follows one run, and starts the next one if it ends in a reboot.
kj::Promise<void> NodePower::run() {
  auto end = co_await KJ_ASSERT_NONNULL(instance)->onEnd();
  instance = nullptr;
  log::info("node ended", {{"node", nodeName}, {"outcome", end.how}});
  bool reboot = end.kind == End::Kind::kReboot;
  if (reboot && !killed && !stopping) {
    if (timer.now() - started < kShortest) co_await timer.atTime(started + kShortest);
    start();
    co_return;
  }
  bool good = killed || reboot || end.kind == End::Kind::kOff;
  become(good ? State::kOff : State::kFailed, good ? kj::str() : kj::mv(end.how));
}

kj::Promise<void> NodePower::stop() {
  if (instance == nullptr) {
    cut();  // between two runs: the next run is not started
    co_return;
  }
  auto ended = onOff();
  stopping = true;
  try {
    co_await KJ_ASSERT_NONNULL(instance)->shutDown();
  } catch (...) {
    stopping = false;  // the request did not arrive
    throw;
  }
  co_await within(timer, stopWithin, kj::mv(ended),
                  kj::str(nodeName, " did not shut down within ", stopWithin / kj::SECONDS,
                          " s; `talosctl cluster node kill` cuts its power"));
}

kj::Promise<void> NodePower::kill() {
  if (instance == nullptr) {
    cut();
    co_return;
  }
  auto ended = onOff();
  killed = true;
  KJ_ASSERT_NONNULL(instance)->kill();
  co_await ended;
}

kj::Promise<void> NodePower::onOff() {
  auto pair = kj::newPromiseAndFulfiller<void>();
  waiting.add(kj::mv(pair.fulfiller));
  return kj::mv(pair.promise);
}

void NodePower::become(State state, kj::String error) {
  now = state;
  failure = kj::mv(error);
  if (state != State::kOff && state != State::kFailed) return;
  for (auto& one : waiting) one->fulfill();
  waiting.clear();
}

void NodePower::refuse(kj::StringPtr what) {
  fail(ErrorKind::kFailedPrecondition, kj::str(nodeName, " ", what));
}

void NodePower::taskFailed(kj::Exception&& e) {
  instance = nullptr;
  become(State::kFailed, messageOf(e));
}

}  // namespace talos::cluster
