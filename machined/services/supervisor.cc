#include "machined/services/supervisor.h"

#include <capnp/message.h>
#include <kj/debug.h>
#include <kj/map.h>
#include <signal.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"
#include "machined/services/child.h"
#include "machined/services/lifecycle.h"
#include "machined/services/record.h"

namespace talos::machined {
namespace {

constexpr auto kGrace = 10 * kj::SECONDS;
constexpr auto kStopAllPatience = 30 * kj::SECONDS;
constexpr auto kRecheck = 1 * kj::SECONDS;
constexpr auto kAnswerFirst = 100 * kj::MILLISECONDS;

kj::String seconds(kj::Duration d) {
  auto tenths = d / (100 * kj::MILLISECONDS);
  return kj::str(tenths / 10, ".", tenths % 10, " s");
}

}  // namespace

struct Supervisor::Impl final : private kj::TaskSet::ErrorHandler {
  struct Entry {
    ServiceDefinition definition;
    bool self = false;
    bool again = false;  // start once it is down
    bool unloaded = false;
    ServicePhase phase = ServicePhase::kIdle;
    ServiceRecord record;
    RestartPolicy policy;
    int pid = 0;  // 0: no process
    kj::TimePoint startedAt = kj::origin<kj::TimePoint>();
    kj::String reason;                // why the last thing ended or failed
    kj::Maybe<Process1::Exit> early;  // an exit that came before the answer to its spawn
    // What the phase is busy with; replaced at every step. An input that it gives belongs to
    // `turn`.
    kj::Promise<void> work = nullptr;
    kj::Promise<void> health = nullptr;
    kj::Promise<void> part = nullptr;
    uint64_t turn = 0;
  };

  World world;
  kj::TreeMap<kj::String, kj::Own<Entry>> entries;
  kj::Vector<kj::Own<Entry>> unloaded;  // of which a promise may know still
  kj::Vector<Process1::Survivor> survivors;
  bool closed = false;  // stopAll() was called
  kj::Own<kj::PromiseFulfiller<void>> changeFulfiller;
  kj::ForkedPromise<void> change = nullptr;
  kj::TaskSet tasks;

  explicit Impl(World w)
      : world(kj::mv(w)), survivors(world.process1.takeSurvivors()), tasks(*this) {
    renewChange();
    tasks.add(reap());
  }

  void taskFailed(kj::Exception&& e) override {
    log::error("a task of the service supervisor failed", {{"error", messageOf(e)}});
  }

  void requireOpen(kj::StringPtr id) const {
    if (closed) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("service \"", id, "\" is not started: the machine is going down"));
    }
  }

  Entry& find(kj::StringPtr id) {
    return const_cast<Entry&>(kj::implicitCast<const Impl*>(this)->find(id));
  }
  const Entry& find(kj::StringPtr id) const {
    KJ_IF_MAYBE (entry, entries.find(id)) return **entry;
    fail(ErrorKind::kNotFound, kj::str("service \"", id, "\" is not known on this node"));
  }

  // --- telling ---

  void renewChange() {
    auto paf = kj::newPromiseAndFulfiller<void>();
    changeFulfiller = kj::mv(paf.fulfiller);
    change = paf.promise.fork();
  }
  void changed() {
    auto fulfiller = kj::mv(changeFulfiller);
    renewChange();
    fulfiller->fulfill();
  }

  void tell(Entry& entry, kj::StringPtr message) { tell(entry, shown(entry.phase), message); }
  void tell(Entry& entry, rpc::ServiceState state, kj::StringPtr message) {
    entry.record.add(state, message, world.clock.now());
    capnp::MallocMessageBuilder scratch;
    auto event = scratch.initRoot<rpc::ServiceStateEvent>();
    event.setService(entry.definition.id);
    event.setState(state);
    event.setMessage(message);
    entry.record.fillHealth(event.initHealth());
    world.announce(event.asReader());
    auto file = writeServiceFile(entry.record, entry.definition.id, entry.pid);
    auto held = world.process1.hold(kj::str("service/", entry.definition.id), file.get());
    tasks.add(held.attach(kj::mv(file)));
    changed();
  }

  // --- the table, and the doing ---

  // A promise must not be destroyed by what runs inside it, so the old work is let go one turn
  // later; its inputs no longer count, because their turn is over.
  void replace(kj::Promise<void>& slot, kj::Promise<void> next) {
    tasks.add(kj::evalLater([old = kj::mv(slot)]() {}));
    slot = kj::mv(next);
  }
  void idle(kj::Promise<void>& slot) { replace(slot, nullptr); }
  // Begins one turn later, so that it finds itself in its slot when it takes the next step.
  void busy(kj::Promise<void>& slot, kj::Function<kj::Promise<void>()> begin) {
    replace(slot, kj::evalLater(kj::mv(begin)).eagerlyEvaluate([this](kj::Exception&& e) {
      taskFailed(kj::mv(e));
    }));
  }

  void feedIf(Entry& entry, uint64_t turn, ServiceInput input) {
    if (entry.turn == turn) feed(entry, input);
  }
  void feed(Entry& entry, ServiceInput input) {
    if (entry.unloaded) return;
    auto next = step(entry.phase, input);
    if (next.next == entry.phase && next.action == ServiceAction::kNone) return;
    entry.phase = next.next;
    ++entry.turn;
    act(entry, next.action);
  }

  void act(Entry& entry, ServiceAction action) {
    auto& id = entry.definition.id;
    switch (action) {
      case ServiceAction::kNone:
        // The only such step: a spawn overtaken by a stop. It goes on, to have a process to end.
        return tell(entry,
                    kj::str("Stopping as soon as ", entry.definition.command, " has started"));
      case ServiceAction::kAwait:
        entry.policy = RestartPolicy();
        entry.reason = nullptr;
        return busy(entry.work, [&, turn = entry.turn]() { return awaitConditions(entry, turn); });
      case ServiceAction::kPrepare:
        tell(entry, "Running pre state");
        return busy(entry.work, [&, turn = entry.turn]() { return prepare(entry, turn); });
      case ServiceAction::kSpawn:
        if (entry.phase == ServicePhase::kStarting) tell(entry, "Creating service runner");
        if (entry.definition.part != nullptr) return feedLater(entry, ServiceInput::kStarted);
        return busy(entry.work, [&]() { return spawn(entry); });
      case ServiceAction::kAttend:
        entry.startedAt = world.timer.now();
        entry.record.forgetHealth();
        tell(entry, entry.definition.part != nullptr
                        ? kj::str("Started ", entry.definition.command)
                        : kj::str("Started ", entry.definition.command, " (PID ", entry.pid, ")"));
        attend(entry);
        return;
      case ServiceAction::kPause: {
        auto delay = entry.policy.next(world.timer.now() - entry.startedAt, world.random());
        ended(entry);
        tell(entry, delay == 0 * kj::SECONDS
                        ? kj::str(entry.reason, "; starting again")
                        : kj::str(entry.reason, "; starting again in ", seconds(delay)));
        entry.reason = nullptr;
        return pauseFor(entry, delay);
      }
      case ServiceAction::kTerminate:
        idle(entry.health);
        if (entry.definition.part != nullptr) {
          tell(entry, kj::str("Ending ", entry.definition.command));
          idle(entry.part);
          return feedLater(entry, ServiceInput::kExited);
        }
        tell(entry,
             kj::str("Sending SIGTERM to ", entry.definition.command, " (PID ", entry.pid, ")"));
        world.process1.signal(id, SIGTERM);
        return pauseFor(entry, kGrace);
      case ServiceAction::kKill:
        tell(entry, kj::str("Sending SIGKILL to ", entry.definition.command, " (PID ", entry.pid,
                            "), which has not ended within 10 s"));
        world.process1.signal(id, SIGKILL);
        return idle(entry.work);
      case ServiceAction::kConclude:
        ended(entry);
        tell(entry, entry.reason == nullptr ? kj::str("Service stopped")
                                            : kj::str("Service stopped: ", entry.reason));
        entry.reason = nullptr;
        idle(entry.work);
        if (entry.again && !closed) start(entry);
        return;
      case ServiceAction::kGiveUp:
        ended(entry);
        tell(entry, entry.reason);
        return idle(entry.work);
    }
  }

  void start(Entry& entry) {
    entry.again = shown(entry.phase) == rpc::ServiceState::STOPPING;
    feed(entry, ServiceInput::kStart);
  }

  void restart(Entry& entry) {
    entry.again = true;
    feed(entry, ServiceInput::kStop);
    if (machined::isDown(entry.phase)) start(entry);
  }

  void ended(Entry& entry) {
    entry.pid = 0;
    entry.record.forgetHealth();
    idle(entry.health);
    idle(entry.part);
  }

  // --- parts of this program ---

  void feedLater(Entry& entry, ServiceInput input) {
    busy(entry.work, [this, &entry, input]() -> kj::Promise<void> {
      feed(entry, input);
      return kj::READY_NOW;
    });
  }

  kj::Promise<void> runPart(Entry& entry, uint64_t turn) {
    auto why = co_await kj::evalNow([&]() { return KJ_ASSERT_NONNULL(entry.definition.part)(); })
                   .then([]() { return kj::str("it is over"); },
                         [](kj::Exception&& e) { return messageOf(e); });
    if (entry.turn != turn) co_return;
    entry.reason = kj::str(entry.definition.command, " ended: ", why);
    feed(entry, ServiceInput::kExited);
  }

  // --- waiting and starting ---

  kj::Vector<kj::String> unmet(const Entry& entry) {
    kj::Vector<kj::String> missing;
    for (auto& condition : entry.definition.conditions) {
      if (!condition->met()) missing.add(condition->description());
    }
    for (auto& other : entry.definition.dependsOn) {
      if (!isUp(other)) missing.add(kj::str("service \"", other, "\" to be \"up\""));
    }
    return missing;
  }

  kj::Promise<void> awaitConditions(Entry& entry, uint64_t turn) {
    kj::String shownText;
    for (;;) {
      auto missing = unmet(entry);
      if (missing.empty()) break;
      auto text = kj::str("Waiting for ", kj::strArray(missing, ", "));
      if (text != shownText) {
        tell(entry, text);
        shownText = kj::mv(text);
        if (entry.turn != turn) co_return;
      }
      co_await change.addBranch().exclusiveJoin(world.timer.afterDelay(kRecheck));
    }
    feedIf(entry, turn, ServiceInput::kReady);
  }

  kj::Promise<void> prepare(Entry& entry, uint64_t turn) {
    kj::Maybe<kj::Exception> broken;
    KJ_IF_MAYBE (work, entry.definition.preWork) {
      broken = co_await kj::evalNow([&]() { return (*work)(); })
                   .then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
                         [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
    }
    KJ_IF_MAYBE (e, broken) {
      if (entry.turn == turn) entry.reason = kj::str("Pre state failed: ", messageOf(*e));
      feedIf(entry, turn, ServiceInput::kBroken);
    } else {
      feedIf(entry, turn, ServiceInput::kPrepared);
    }
  }

  kj::Promise<Process1::Started> askForChild(Entry& entry) {
    auto output = co_await world.output(entry.definition.id);
    auto& d = entry.definition;
    Environment environment;
    KJ_IF_MAYBE (make, world.environment) {
      environment = (*make)(d.id, d.environment);
    } else {
      environment = KJ_MAP(e, d.environment) {
        return kj::str(e);
      };
    }
    co_return co_await world.process1.spawn(spawnRequest(d, kj::mv(environment), output.get()));
  }

  // Whatever was decided meanwhile, a child that came to be has to be taken notice of: no turn
  // here.
  kj::Promise<void> spawn(Entry& entry) {
    entry.early = nullptr;
    kj::Maybe<kj::Exception> broken;
    auto started = co_await askForChild(entry).then(
        [](Process1::Started s) -> kj::Maybe<Process1::Started> { return kj::mv(s); },
        [&broken](kj::Exception&& e) -> kj::Maybe<Process1::Started> {
          broken = kj::mv(e);
          return nullptr;
        });
    KJ_IF_MAYBE (s, started) {
      entry.pid = s->pid;
      auto early = kj::mv(entry.early);
      entry.early = nullptr;
      feed(entry, ServiceInput::kStarted);
      KJ_IF_MAYBE (exit, early) {
        if (exit->pid == entry.pid) exited(entry, exit->status);
      }
    }
    KJ_IF_MAYBE (e, broken) {
      entry.reason = kj::str("Starting ", entry.definition.command, " failed: ", messageOf(*e));
      feed(entry, ServiceInput::kBroken);
    }
  }

  kj::Promise<void> pause(Entry& entry, uint64_t turn, kj::Duration delay) {
    if (delay > 0 * kj::SECONDS) co_await world.timer.afterDelay(delay);
    feedIf(entry, turn, ServiceInput::kDue);
  }

  void pauseFor(Entry& entry, kj::Duration delay) {
    busy(entry.work,
         [this, &entry, turn = entry.turn, delay]() { return pause(entry, turn, delay); });
  }

  // --- running ---

  void attend(Entry& entry) {
    idle(entry.work);
    if (entry.definition.part != nullptr) {
      busy(entry.part, [this, &entry, turn = entry.turn]() { return runPart(entry, turn); });
    }
    if (entry.definition.health == nullptr) return idle(entry.health);
    busy(entry.health, [this, &entry, turn = entry.turn]() { return watchHealth(entry, turn); });
  }

  kj::Promise<void> watchHealth(Entry& entry, uint64_t turn) {
    auto& health = KJ_ASSERT_NONNULL(entry.definition.health);
    co_await world.timer.afterDelay(health.delay);
    while (entry.turn == turn) {
      auto problem = co_await checkOnce(health, world.timer);
      if (entry.turn != turn) co_return;
      bool good = problem == nullptr;
      auto words = kj::mv(problem).orDefault(kj::String());
      if (entry.record.setHealth(good, words, world.clock.now())) {
        tell(entry,
             good ? kj::str("Health check successful") : kj::str("Health check failed: ", words));
      }
      co_await world.timer.afterDelay(health.period);
    }
  }

  void exited(Entry& entry, int status) {
    entry.reason = kj::str("Process (PID ", entry.pid, ") ", describeExit(status));
    feed(entry, ServiceInput::kExited);
  }

  // An exit is acknowledged by asking for the next one, so only after it has been dealt with.
  kj::Promise<void> reap() {
    for (;;) {
      auto exit = co_await world.process1.nextExit();
      KJ_IF_MAYBE (found, entries.find(exit.slot)) {
        auto& entry = **found;
        if (entry.pid == exit.pid) {
          exited(entry, exit.status);
        } else {
          entry.early = kj::mv(exit);
        }
      }
    }
  }

  // --- what the predecessor left ---

  rpc::ServiceState restore(Entry& entry) {
    auto& id = entry.definition.id;
    KJ_IF_MAYBE (fd, world.process1.takeHeld(kj::str("service/", id))) {
      KJ_IF_MAYBE (stored, readServiceFile(fd->get(), id)) {
        entry.record = kj::mv(stored->record);
      }
    }
    return entry.record.state();
  }

  void takeUp(Entry& entry) {
    auto& id = entry.definition.id;
    int pid = 0;
    for (auto& s : survivors) {
      if (s.slot == id) pid = s.pid;
    }
    auto before = restore(entry);
    if (pid != 0) return adopt(entry, pid, before);
    entry.record.forgetHealth();  // of what is gone
    using St = rpc::ServiceState;
    if (entry.definition.part != nullptr && before == St::RUNNING) before = St::WAITING;
    switch (before) {
      case St::RUNNING:
        // Its exit may still be on its way; the pause lets that be acknowledged first.
        entry.phase = ServicePhase::kPausing;
        ended(entry);
        tell(entry, "Process ended while machined was away; starting again");
        return pauseFor(entry, 100 * kj::MILLISECONDS);
      case St::PREPARING:
      case St::WAITING:
        return feed(entry, ServiceInput::kStart);
      case St::STOPPING:
        entry.phase = ServicePhase::kFinished;
        ended(entry);
        return tell(entry, "Service stopped while machined was away");
      case St::FINISHED:
        entry.phase = ServicePhase::kFinished;
        return;
      case St::FAILED:
        entry.phase = ServicePhase::kFailed;
        return;
      default:
        return tell(entry, "Service loaded");
    }
  }

  void adopt(Entry& entry, int pid, rpc::ServiceState before) {
    entry.pid = pid;
    entry.phase = ServicePhase::kRunning;
    ++entry.turn;
    entry.startedAt = world.timer.now();
    tell(entry, kj::str("Adopted running process (PID ", pid, ") after a restart of machined"));
    attend(entry);
    if (before == rpc::ServiceState::STOPPING) feed(entry, ServiceInput::kStop);
  }

  // --- stopping ---

  bool isUp(kj::StringPtr id) const {
    KJ_IF_MAYBE (found, entries.find(id)) {
      auto& e = **found;
      if (e.phase == ServicePhase::kFinished) return true;
      if (e.phase != ServicePhase::kRunning) return false;
      return e.definition.health == nullptr || e.record.healthy();
    }
    return false;
  }

  kj::Promise<void> stop(Entry& entry) {
    entry.again = false;
    feed(entry, ServiceInput::kStop);
    auto deadline = world.timer.now() + kGrace + kGrace;
    while (!machined::isDown(entry.phase)) {
      if (world.timer.now() >= deadline) {
        fail(ErrorKind::kDeadlineExceeded,
             kj::str("service \"", entry.definition.id, "\" (PID ", entry.pid,
                     ") has not ended within 10 s after SIGKILL"));
      }
      co_await change.addBranch().exclusiveJoin(world.timer.atTime(deadline));
    }
  }

  bool hasDependants(kj::StringPtr id) {
    for (auto& item : entries) {
      auto& e = *item.value;
      if (e.self || machined::isDown(e.phase)) continue;
      for (auto& on : e.definition.dependsOn) {
        if (on == id) return true;
      }
    }
    return false;
  }

  kj::Promise<void> stopInTurn(Entry& entry, kj::TimePoint patience) {
    while (hasDependants(entry.definition.id) && world.timer.now() < patience) {
      co_await change.addBranch().exclusiveJoin(world.timer.atTime(patience));
    }
    co_await stop(entry);
  }

  kj::Promise<void> stopAll() {
    closed = true;
    auto patience = world.timer.now() + kStopAllPatience;
    kj::Vector<kj::Promise<void>> all;
    for (auto& item : entries) {
      if (!item.value->self) all.add(stopInTurn(*item.value, patience));
    }
    return kj::joinPromises(all.releaseAsArray());
  }
};

Supervisor::Supervisor(World world) : impl(kj::heap<Impl>(kj::mv(world))) {}
Supervisor::~Supervisor() noexcept(false) = default;

void Supervisor::load(ServiceDefinition definition) {
  auto entry = kj::heap<Impl::Entry>();
  entry->definition = kj::mv(definition);
  auto& ref = *entry;
  impl->entries.insert(kj::str(ref.definition.id), kj::mv(entry));
  impl->takeUp(ref);
}

void Supervisor::unload(kj::StringPtr id, kj::StringPtr why) {
  auto& entry = impl->find(id);
  KJ_REQUIRE(entry.definition.part != nullptr, id);
  entry.phase = ServicePhase::kFinished;
  ++entry.turn;
  entry.unloaded = true;
  impl->ended(entry);
  impl->idle(entry.work);
  impl->tell(entry, kj::str("Service unloaded: ", why));
  // A successor that loads it begins it: nobody has stopped it.
  impl->tasks.add(impl->world.process1.drop(kj::str("service/", id)));
  impl->unloaded.add(kj::mv(KJ_ASSERT_NONNULL(impl->entries.find(id))));
  impl->entries.erase(entry.definition.id);
  impl->changed();
}

void Supervisor::loadSelf(kj::StringPtr id) {
  auto entry = kj::heap<Impl::Entry>();
  entry->definition.id = kj::str(id);
  entry->definition.mayBeStarted = entry->definition.mayBeStopped = false;
  entry->self = true;
  entry->phase = ServicePhase::kRunning;
  entry->pid = getpid();
  auto& ref = *entry;
  impl->entries.insert(kj::str(id), kj::mv(entry));
  impl->restore(ref);
  impl->tell(ref, kj::str("Started ", id, " (PID ", ref.pid, ")"));
}

void Supervisor::start(kj::StringPtr id) {
  auto& entry = impl->find(id);
  impl->requireOpen(id);
  impl->start(entry);
}

void Supervisor::restart(kj::StringPtr id) {
  auto& entry = impl->find(id);
  impl->requireOpen(id);
  impl->tasks.add(impl->world.timer.afterDelay(kAnswerFirst).then([impl = impl.get(), &entry]() {
    if (!impl->closed) impl->restart(entry);
  }));
}

void Supervisor::signal(kj::StringPtr id, int number) {
  auto& entry = impl->find(id);
  if (entry.definition.part != nullptr) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("service \"", id, "\" has no process of its own; it can be restarted"));
  }
  if (entry.pid == 0) {
    fail(ErrorKind::kFailedPrecondition, kj::str("service \"", id, "\" does not run"));
  }
  auto send = [impl = impl.get(), &entry, pid = entry.pid, number]() {
    if (entry.pid != pid) return;  // gone meanwhile
    if (entry.self) {
      KJ_SYSCALL(::kill(pid, number));
    } else {
      impl->world.process1.signal(entry.definition.id, number);
    }
  };
  impl->tasks.add(impl->world.timer.afterDelay(kAnswerFirst).then(kj::mv(send)));
}

kj::Promise<void> Supervisor::stop(kj::StringPtr id) {
  return impl->stop(impl->find(id));
}
kj::Promise<void> Supervisor::stopAll() {
  return impl->stopAll();
}

kj::Promise<void> Supervisor::whenUp(kj::StringPtr name) {
  auto& entry = impl->find(name);
  while (!impl->isUp(entry.definition.id)) {
    if (entry.phase == ServicePhase::kFailed || entry.unloaded) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("service \"", entry.definition.id, "\" is down: ", entry.record.lastMessage()));
    }
    co_await impl->change.addBranch();
  }
}

bool Supervisor::isUp(kj::StringPtr id) const {
  return impl->isUp(id);
}
bool Supervisor::isAwaited(kj::StringPtr id) const {
  return impl->find(id).definition.awaited;
}
bool Supervisor::mayBeStarted(kj::StringPtr id) const {
  return impl->find(id).definition.mayBeStarted;
}
bool Supervisor::mayBeStopped(kj::StringPtr id) const {
  return impl->find(id).definition.mayBeStopped;
}

void Supervisor::fill(kj::StringPtr id, rpc::Service::Builder out) const {
  auto& entry = impl->find(id);
  out.setId(id);
  out.setPid(entry.pid);
  entry.record.fill(out);
}

kj::Vector<kj::String> Supervisor::ids() const {
  kj::Vector<kj::String> result;
  for (auto& item : impl->entries) result.add(kj::str(item.key));
  return result;
}
}  // namespace talos::machined
