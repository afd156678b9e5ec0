#include "machined/oom/oom-controller.h"

#include <map>

#include "common/base/date.h"
#include "common/base/error.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/hardware-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr unsigned kMebibyte = 20;  // as a shift

struct Action {
  kj::String time, score, cgroup, className, trigger;
  uint64_t memoryBytes;
  uint32_t processes;
};

Action actionOf(rpc::OomActionSpec::Reader spec) {
  return {.time = kj::str(spec.getTime()),
          .score = kj::str(spec.getScore()),
          .cgroup = kj::str(spec.getCgroup()),
          .className = kj::str(spec.getClass()),
          .trigger = kj::str(spec.getTrigger()),
          .memoryBytes = spec.getMemoryBytes(),
          .processes = spec.getProcesses()};
}

OomSettings settingsOf(config::OutOfMemory::Reader config) {
  return {.trigger = kj::str(config.getTriggerExpression()),
          .ranking = kj::str(config.getRankingExpression()),
          .strictClasses = !config.getIgnoresClasses(),
          .interval = config.getIntervalMs() * kj::MILLISECONDS};
}

class OomController final : public Controller {
 public:
  explicit OomController(OomDependencies deps) : deps(kj::mv(deps)) {}

  kj::StringPtr name() const override { return "runtime.OOMController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override { return typeNames<rpc::OomActionSpec>(); }
  void wakeBy(kj::Function<void()> function) override { wake = kj::mv(function); }

  kj::Promise<void> reconcile(Store& store) override {
    restore(store);
    OomSettings settings;
    auto config = deps.readConfig(store);
    KJ_IF_MAYBE (c, config) settings = settingsOf(c->getMachine().getOutOfMemory());
    begin(kj::mv(settings));
    publish(store);
    return kj::READY_NOW;
  }

 private:
  OomDependencies deps;
  kj::Function<void()> wake = [] {};
  kj::Maybe<OomHandler> handler;
  kj::Promise<void> watch = kj::READY_NOW;
  kj::Promise<void> releasing = kj::READY_NOW;
  bool restored = false;
  bool measured = true, found = true;  // the latest sample, and a victim; false was reported
  kj::String failure = kj::str();      // the latest that was reported since the last kill
  std::map<uint64_t, Action> actions;  // by number

  // Takes over the actions that an earlier brain has published.
  void restore(Store& store) {
    if (restored) return;
    restored = true;
    for (auto action : store.list<rpc::OomActionSpec>()) {
      auto number = action.id().tryParseAs<uint64_t>();
      KJ_IF_MAYBE (n, number) actions.emplace(*n, actionOf(action));
    }
  }

  void begin(OomSettings settings) {
    KJ_IF_MAYBE (h, handler) {
      if (h->current() == settings) return;
    }
    handler = OomHandler(kj::mv(settings), deps.timer.now());
    watch = samples().eagerlyEvaluate(nullptr);
  }

  kj::Promise<void> samples() {
    for (;;) {
      co_await deps.timer.afterDelay(KJ_ASSERT_NONNULL(handler).current().interval);
      KJ_IF_MAYBE (e, kj::runCatchingExceptions([this] { step(); })) reportFailure(messageOf(*e));
    }
  }

  // Reports a failure once, because the same one may follow at each sample.
  void reportFailure(kj::String text) {
    if (text == failure) return;
    deps.alarm(kj::str("cannot handle the shortage of memory: ", text));
    failure = kj::mv(text);
  }

  // Reports a state when it begins.
  void report(bool& good, bool now, kj::StringPtr text) {
    if (good && !now) deps.alarm(text);
    good = now;
  }

  void step() {
    auto& h = KJ_ASSERT_NONNULL(handler);
    auto sample = deps.memory.sample();
    report(
        measured, sample != nullptr,
        "the kernel does not measure the pressure of memory (PSI), so no cgroup is killed before "
        "the memory is used up");
    KJ_IF_MAYBE (s, sample) {
      bool triggered = h.triggers(*s, deps.timer.now());
      if (triggered) {
        auto victim = h.choose(deps.memory.candidates());
        report(found, victim != nullptr,
               "memory is short, and no cgroup has a rank above 0, so none is killed");
        KJ_IF_MAYBE (v, victim) kill(*s, kj::mv(*v));
      }
    }
    KJ_IF_MAYBE (mistake, h.newMistake()) {
      deps.alarm(kj::str("an expression of OOMConfig has no result, ", *mistake));
    }
  }

  void kill(const MemorySample& sample, Victim victim) {
    auto& cgroup = victim.cgroup;
    auto memory = cgroup.uses[kCurrent].orDefault(0);
    auto killed = deps.memory.kill(cgroup.path);
    failure = kj::str();
    auto score = kj::str(victim.score);
    deps.alarm(kj::str("out of memory: killed the cgroup ", cgroup.path, " of the class ",
                       cel::nameOf(cgroup.cgroupClass), " with ", memory >> kMebibyte, " MiB and ",
                       killed.processes, " processes; score ", score, ", pressure of 10 s: some ",
                       sample.node.values[kSomeAvg10], " %, full ", sample.node.values[kFullAvg10],
                       " %"));
    auto number = actions.empty() ? 1 : actions.rbegin()->first + 1;
    actions.emplace(
        number,
        Action{.time = dateText(deps.clock.now()),
               .score = kj::mv(score),
               .cgroup = kj::mv(cgroup.path),
               .className = kj::str(cel::nameOf(cgroup.cgroupClass)),
               .trigger = kj::str(cel::triggerOf(KJ_ASSERT_NONNULL(handler).current().trigger)),
               .memoryBytes = memory,
               .processes = killed.processes});
    while (actions.size() > kKeptActions) actions.erase(actions.begin());
    releasing = deps.blocking([fds = kj::mv(killed.pidfds)] { releaseMemory(fds); })
                    .catch_([](kj::Exception&&) {})  // the processes end anyway
                    .eagerlyEvaluate(nullptr);
    wake();
  }

  void publish(Store& store) const {
    Outputs<rpc::OomActionSpec> outputs(name());
    for (auto& [number, action] : actions) {
      auto spec = outputs.add(kj::str(number));
      spec.setTime(action.time);
      spec.setScore(action.score);
      spec.setCgroup(action.cgroup);
      spec.setClass(action.className);
      spec.setMemoryBytes(action.memoryBytes);
      spec.setProcesses(action.processes);
      spec.setTrigger(action.trigger);
    }
    outputs.apply(store);
  }
};

}  // namespace

kj::Own<Controller> oomController(OomDependencies deps) {
  return kj::heap<OomController>(kj::mv(deps));
}

}  // namespace talos::machined
