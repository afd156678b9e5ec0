#include "talosctl/cluster/nodes/node-power.h"

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"

namespace talos::cluster {
namespace {

constexpr kj::Duration kShortest = 1 * kj::SECONDS;  // from one start to the next, at a reboot

// The disks of a machine that do not decide what is lost: it is killed without.
constexpr kj::Duration kCutWithin = 10 * kj::SECONDS;

kj::String lateCut() {
  return kj::str("its disks did not answer within ", kCutWithin / kj::SECONDS, " s");
}

}  // namespace

NodePower::NodePower(kj::Timer& timer, kj::String name, kj::Function<kj::Own<Instance>()> make,
                     kj::Duration stopWithin)
    : timer(timer),
      nodeName(kj::mv(name)),
      make(kj::mv(make)),
      stopWithin(stopWithin),
      started(timer.now()),
      runs(*this) {}

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
      if (now == State::kFailed) fail(ErrorKind::kFailedPrecondition, why);
      return kj::READY_NOW;
    case rpc::PowerAction::STOP:
      if (off) refuse("is already off");
      if (now == State::kPaused) refuse("is paused; resume it first, or kill it");
      return stop();
    case rpc::PowerAction::KILL:
      if (off) refuse("is already off");
      return kill().ignoreResult();
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
      return kill().then([this](auto&&) { return act(rpc::PowerAction::START); });
  }
  refuse("cannot do that: this supervisor is of an older version");
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

// One run, and the next one if it ends in a reboot.
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
    cut();  // between two runs: there is no second one
    co_return;
  }
  auto ended = onOff();
  stopping = true;
  try {
    co_await KJ_ASSERT_NONNULL(instance)->shutDown();
  } catch (...) {
    stopping = false;  // it was not told
    throw;
  }
  co_await within(timer, stopWithin, kj::mv(ended),
                  kj::str(nodeName, " did not shut down within ", stopWithin / kj::SECONDS,
                          " s; `talosctl cluster node kill` cuts its power"));
}

kj::Promise<disk::Cut> NodePower::cutPower(uint64_t atWrite, uint64_t seed) {
  if (now == State::kOff || now == State::kFailed) refuse("is already off");
  if (atWrite > 0 && now == State::kPaused) refuse("is paused; resume it first");
  return kill(atWrite, seed);
}

kj::Promise<disk::MachineDisks::Recording> NodePower::record(disk::RecordRequest wish) {
  if (now == State::kOff || now == State::kFailed) {
    refuse("is off; a recording ends with the run of a node");
  }
  KJ_IF_MAYBE (it, instance) return (*it)->record(kj::mv(wish));
  refuse("is rebooting; try again");
}

kj::Promise<disk::Cut> NodePower::kill(uint64_t atWrite, uint64_t seed) {
  if (instance == nullptr) {
    if (atWrite > 0 || seed > 0) refuse("is rebooting; try again");
    cut();
    co_return disk::Cut();
  }
  auto ended = onOff();
  bool atOnce = atWrite == 0;
  killed = killed || atOnce;
  kj::Maybe<kj::Exception> failure;
  disk::Cut result;
  try {
    auto cutting = KJ_ASSERT_NONNULL(instance)->cutPower(atWrite, seed);
    result =
        co_await (atOnce ? within(timer, kCutWithin, kj::mv(cutting), lateCut()) : kj::mv(cutting));
  } catch (...) {
    failure = kj::getCaughtExceptionAsKj();
  }
  KJ_IF_MAYBE (e, failure) {
    bool off = now == State::kOff || now == State::kFailed;
    if (off && atOnce) co_return result;
    if (off) refuse(kj::str("ended before write ", atWrite));
    bool refused = kindOf(*e) == ErrorKind::kFailedPrecondition;
    if (!atOnce || refused) {
      killed = killed && !atOnce;
      kj::throwFatalException(kj::mv(*e));
    }
    KJ_IF_MAYBE (it, instance) (*it)->kill();
    co_await ended;
    fail(kindOf(*e), kj::str(nodeName, " is off, but has lost nothing: ", messageOf(*e)));
  }
  co_await ended;
  co_return result;
}

kj::Promise<void> NodePower::onOff() {
  auto pair = kj::newPromiseAndFulfiller<void>();
  waiting.add(kj::mv(pair.fulfiller));
  return kj::mv(pair.promise);
}

void NodePower::become(State state, kj::String reason) {
  now = state;
  why = kj::mv(reason);
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
