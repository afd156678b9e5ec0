#include "machined/config/config-manager.h"

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "common/memory/zeroize.h"
#include "machined/config/trial-plan.h"
#include "machined/resources/store-records.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/secret-resources.capnp.h"
#include "rpc/storage-resources.capnp.h"

namespace talos::machined {
namespace {

// The pace of searches in maintenance.
constexpr Backoff::Pace kSearchPace = {1 * kj::SECONDS, 64 * kj::SECONDS};

// A good change that restarts no kubelet is confirmed within seconds.
constexpr auto kConfirmedWithin = 20 * kj::SECONDS;

bool publishedMaintenance(Store& store) {
  KJ_IF_MAYBE (certificate, store.tryGet<rpc::ApiCertificateSpec>("api"))
    return certificate->getMaintenance();
  return false;
}

bool published(Store& store) {
  return store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId) != nullptr;
}

// Returns the version of the published config: the resource's version counts its changes.
uint64_t publishedVersion(Store& store) {
  KJ_IF_MAYBE (running, store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId)) {
    return running->version();
  }
  return 0;
}

void requireTimes(const ConfigManager::Request& request) {
  if (request.mode == rpc::ApplyMode::TRY &&
      (request.trial < kShortestTrial || request.trial > kLongestTrial)) {
    fail(ErrorKind::kInvalidArgument, "the time of a trial must be 1s to 24h");
  }
  if (request.changeTrial < kShortestChangeTrial || request.changeTrial > kLongestChangeTrial) {
    fail(ErrorKind::kInvalidArgument, "the time of a trial of a change must be 1m to 24h");
  }
}

// A change that cannot be undone waits for the end of a good trial.
kj::Promise<void> awaitConfirmation(ConfigManager::Dependencies& deps, ChangeTrial& changes,
                                    config::Config::Reader wanted) {
  for (auto end = deps.timer.now() + kConfirmedWithin;
       changes.isTrying() && deps.timer.now() < end;) {
    KJ_IF_MAYBE (running, deps.reader.document(deps.store)) {
      if (lastingChange(running->get(), wanted) == nullptr) co_return;
    }
    co_await deps.timer.afterDelay(1 * kj::SECONDS);
  }
}

void addLines(kj::Vector<kj::String>& lines, kj::StringPtr text) {
  for (auto line : Lines(text)) {
    if (line.size() > 0) lines.add(kj::heapString(line));
  }
}

}  // namespace

ConfigManager::ConfigManager(Dependencies given)
    : deps(kj::mv(given)),
      checks(deps.mode, deps.foreign, deps.timer, deps.host),
      trial({.process1 = deps.process1,
             .timer = deps.timer,
             .host = deps.host,
             .checks = checks,
             .tasks = tasks,
             .publish = [this](KnownConfig config) { publish(kj::mv(config)); },
             .applying = [this]() -> kj::Maybe<kj::Promise<void>> {
               return work.map([](Work& w) { return w.done.addBranch(); });
             }}),
      changes({.process1 = deps.process1,
               .timer = deps.timer,
               .host = deps.host,
               .checks = checks,
               .disk = deps.disk,
               .records = deps.trialRecords,
               .tasks = tasks,
               .running = [this]() { return deps.reader.document(deps.store); },
               .applying = [this]() -> kj::Maybe<kj::Promise<void>> {
                 return work.map([](Work& w) { return w.done.addBranch(); });
               },
               .tries = [this]() { return trial.isRunning(); },
               .lasting = [this]() -> kj::Maybe<kj::ArrayPtr<const char>> {
                 KJ_IF_MAYBE (below, trial.before()) return *below;
                 return deps.reader.document(deps.store).map([](const KnownConfig& c) {
                   return c.bytes();
                 });
               },
               .restore = KJ_BIND_METHOD(*this, restore)}),
      steps({.process1 = deps.process1,
             .timer = deps.timer,
             .host = deps.host,
             .disk = deps.disk,
             .keys = deps.keys,
             .store = deps.store,
             .checks = checks,
             .trial = trial,
             .changes = changes,
             .tasks = tasks,
             .running = [this]() { return deps.reader.document(deps.store); },
             .publish = [this](KnownConfig config) { publish(kj::mv(config)); }}),
      tasks(*this) {}
ConfigManager::~ConfigManager() noexcept(false) {}

void ConfigManager::taskFailed(kj::Exception&& e) {
  deps.host.print(kj::str("cannot change the machine config: ", messageOf(e)), Tone::kAlarm);
}

bool ConfigManager::inMaintenance() const {
  return maintenance != nullptr && !deps.host.bootFailed();
}
bool ConfigManager::showsStateToAnybody() const {
  return inMaintenance() || (deps.host.bootFailed() && !published(deps.store));
}

kj::ArrayPtr<const kj::String> ConfigManager::maintenanceReasons() const {
  KJ_IF_MAYBE (m, maintenance) return m->reasons.asPtr();
  return nullptr;
}

// --- recovery after a restart ---

kj::Promise<void> ConfigManager::knowPublished() {
  kj::Maybe<kj::Array<char>> document;
  KJ_IF_MAYBE (stored, deps.store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId)) {
    document = kj::heapArray(stored->getDocument().asArray());
  }
  KJ_IF_MAYBE (text, document) {
    KJ_DEFER(zeroize(*text));
    auto checked = co_await checks.checkAgain(*text);
    for (auto& line : checked.errors) deps.host.print(line, Tone::kAlarm);  // it was valid before
    inheritedErrors = kj::mv(checked.errors);
    deps.reader.know(kj::mv(checked.config));
  }
}

kj::Promise<void> ConfigManager::recover() {
  co_await knowPublished();
  if (!deps.host.bootFailed() && !published(deps.store) && publishedMaintenance(deps.store)) {
    kj::Vector<kj::String> reasons;
    reasons.add(kj::str("no machine config was found; machined restarted and searches again"));
    enterMaintenance(kj::mv(reasons));
  }
  trial.take();
  co_await steps.recover();
  co_await trial.resume();
  co_await changes.recover();
}

// --- at boot ---

kj::Promise<void> ConfigManager::load() {
  if (published(deps.store)) {
    deps.host.print("machine config: kept over a restart of machined", Tone::kInfo);
    co_return;
  }
  bool again = maintenance != nullptr;
  auto platformProblem = deps.sources.platformProblem();
  bool searchable = platformProblem == nullptr;
  kj::Vector<kj::String> reasons;
  KJ_IF_MAYBE (problem, platformProblem) {
    deps.host.print(*problem, Tone::kAlarm);
    reasons.add(kj::str("no machine config: ", *problem));
  }
  if (!again) {
    if (deps.disk.lockedProblem() == nullptr) co_await changes.beginBoot();
    auto kept = co_await takeKept();
    if (kept == Kept::kTaken) co_return co_await changes.follow(true);
    // A mistake in a kernel parameter does not make an owned machine accept a config from anybody.
    bool owned = kept == Kept::kPassedOver || deps.disk.lockedProblem() != nullptr;
    if (searchable || owned) {
      reasons.clear();
      searchable = co_await search(reasons);
    }
    if (published(deps.store)) co_return;
    if (kept == Kept::kPassedOver) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str(deps.disk.name(), " has persist: false, and there is no other config:\n",
                   kj::strArray(reasons, "\n")));
    }
    // A locked copy has an owner, like one that cannot be read.
    KJ_IF_MAYBE (reason, deps.disk.lockedProblem()) {
      KJ_IF_MAYBE (opened, deps.disk.untilOpened())
        co_return co_await opened->then([this]() { return load(); });
      fail(ErrorKind::kFailedPrecondition, kj::str(*reason, "\n", kj::strArray(reasons, "\n")));
    }
    enterMaintenance(kj::mv(reasons));
  } else if (!searchable) {
    setReasons(kj::mv(reasons));
  }
  auto over = KJ_ASSERT_NONNULL(maintenance).over.addBranch();
  if (searchable) over = over.exclusiveJoin(searchOn(again));
  co_await over;
}

// Publishes the copy on disk. A copy that exists and cannot be used means that this machine has an
// owner: the machine takes no other config in its place.
kj::Promise<ConfigManager::Kept> ConfigManager::takeKept() {
  kj::Vector<kj::String> problems;
  kj::Maybe<kj::String> text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { text = deps.disk.read(); })) {
    problems.add(kj::str(deps.disk.name(), " cannot be read: ", messageOf(*e)));
  }
  KJ_IF_MAYBE (kept, text) {
    KJ_DEFER(zeroize(*kept));
    kj::Maybe<CheckedConfig> looked;
    co_await checks.checkKept(kj::heapArray(kept->asArray()), kj::str(deps.disk.name()))
        .then([&](CheckedConfig&& c) { looked = kj::mv(c); },
              [&](kj::Exception&& e) {
                problems.add(kj::str(deps.disk.name(), " cannot be read: ", messageOf(e)));
              });
    KJ_IF_MAYBE (checked, looked) {
      bool good = checked->errors.empty();
      if (good && !checked->config.get().getPersist()) co_return Kept::kPassedOver;
      if (good) {
        deps.host.print(kj::str("machine config: ", deps.disk.name()), Tone::kInfo);
        for (auto& line : checked->warnings)
          deps.host.print(kj::str("warning: ", line), Tone::kInfo);
        publish(kj::mv(checked->config));
        co_return Kept::kTaken;
      }
      problems = kj::mv(checked->errors);
    }
  }
  if (problems.empty()) co_return Kept::kAbsent;
  fail(ErrorKind::kFailedPrecondition, kj::strArray(problems, "\n"));
}

kj::Promise<void> ConfigManager::preferKept() {
  co_await changes.beginBoot();
  bool runs = false;
  auto unreadable = kj::runCatchingExceptions([&]() {
    KJ_IF_MAYBE (kept, deps.disk.read()) {
      KJ_DEFER(zeroize(*kept));
      KJ_IF_MAYBE (running, deps.reader.document(deps.store)) {
        runs = running->bytes() == kept->asArray();
      }
    } else {
      runs = true;  // there is no copy to prefer
    }
  });
  runs = runs && unreadable == nullptr;
  if (!runs) co_await takeKept();  // throws if the copy cannot be read
  co_await changes.follow(!runs);  // load() has begun the trial of the copy that runs
}

// Returns true if any source exists. Publishes a valid document, or adds the errors to `reasons`.
kj::Promise<bool> ConfigManager::search(kj::Vector<kj::String>& reasons) {
  kj::Maybe<ConfigSearch> result;
  auto failure = co_await deps.sources.find().then(
      [&](ConfigSearch&& r) -> kj::Maybe<kj::Exception> {
        result = kj::mv(r);
        return nullptr;
      },
      [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    addLines(reasons, kj::str("no machine config: ", messageOf(*e)));
    co_return true;
  }
  auto& answer = KJ_ASSERT_NONNULL(result);
  KJ_IF_MAYBE (none, answer.tryGet<NoConfig>()) {
    addLines(reasons, kj::str("no machine config: ", none->where));
    co_return false;
  }
  KJ_IF_MAYBE (f, answer.tryGet<FoundConfig>()) {
    auto from = kj::str(f->from);
    kj::Maybe<CheckedConfig> looked;
    co_await checks.checkNew(kj::mv(f->text), kj::str(from))
        .then([&](CheckedConfig&& c) { looked = kj::mv(c); },
              [&](kj::Exception&& e) { reasons.add(messageOf(e)); });
    // An apply that has started meanwhile takes precedence.
    KJ_IF_MAYBE (w, work) co_await w->done.addBranch();
    if (published(deps.store)) co_return true;
    KJ_IF_MAYBE (checked, looked) {
      if (checked->errors.empty()) {
        deps.host.print(kj::str("machine config: ", from), Tone::kInfo);
        for (auto& line : checked->warnings)
          deps.host.print(kj::str("warning: ", line), Tone::kInfo);
        publish(kj::mv(checked->config));
        co_return true;
      }
      reasons.add(kj::str("the machine config is not valid:"));
      for (auto& line : checked->errors) reasons.add(kj::mv(line));
    }
  }
  co_return true;
}

// Resolves when a document is published, from a source or by an apply.
kj::Promise<void> ConfigManager::searchOn(bool atOnce) {
  Backoff backoff(kSearchPace);
  for (;;) {
    if (!atOnce) co_await deps.timer.afterDelay(backoff.next());
    atOnce = false;
    kj::Vector<kj::String> reasons;
    bool named = co_await search(reasons);
    if (published(deps.store)) co_return;
    setReasons(kj::mv(reasons));
    if (!named) co_await kj::Promise<void>(kj::NEVER_DONE);
  }
}

// --- maintenance ---

void ConfigManager::enterMaintenance(kj::Vector<kj::String> reasons) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  maintenance = Maintenance{{}, kj::mv(paf.fulfiller), paf.promise.fork()};
  setReasons(kj::mv(reasons));
}

void ConfigManager::setReasons(kj::Vector<kj::String> reasons) {
  KJ_IF_MAYBE (m, maintenance) {
    bool same = m->reasons.size() == reasons.size();
    for (size_t i = 0; same && i < reasons.size(); i++) same = m->reasons[i] == reasons[i];
    if (same) return;
    for (auto& line : reasons) deps.host.print(kj::str("maintenance: ", line), Tone::kAlarm);
    m->reasons = kj::mv(reasons);
    deps.host.maintenanceChanged();
  }
}

void ConfigManager::publish(KnownConfig config) {
  // This comes first: from now on callers without a certificate are refused.
  auto ended = kj::mv(maintenance);
  maintenance = nullptr;
  auto text = kj::heapString(config.bytes());
  KJ_DEFER(zeroize(text));
  inheritedErrors.clear();
  deps.reader.know(kj::mv(config));
  putRecord<rpc::MachineConfigSpec>(
      deps.store, kMachineConfigId,
      [&](rpc::MachineConfigSpec::Builder spec) { spec.setDocument(text); });
  KJ_IF_MAYBE (m, ended) {
    m->end->fulfill();
    deps.host.maintenanceChanged();
  }
}

// --- tasks of the boot ---

// publish() gets only documents that check() found valid; another check would cost every boot a
// process.
kj::Promise<void> ConfigManager::validate() {
  if (!published(deps.store)) fail(ErrorKind::kNotFound, "no machine config to validate");
  if (inheritedErrors.empty()) return kj::READY_NOW;
  fail(ErrorKind::kInvalidArgument,
       kj::str("the machine config is not valid:\n", kj::strArray(inheritedErrors, "\n")));
}

kj::Promise<void> ConfigManager::save() {
  if (steps.isStagedInBoot()) return kj::READY_NOW;  // staged before a crash of the brain
  KJ_IF_MAYBE (config, deps.reader.document(deps.store)) return keepOnDisk(deps.disk, *config);
  fail(ErrorKind::kNotFound, "no machine config to save");
}

kj::Promise<void> ConfigManager::clearSource() {
  if (!deps.sources.clearable()) co_return;
  // The reason why the next boot would need the source; empty if the running config is on disk.
  kj::String why;
  KJ_IF_MAYBE (config, deps.reader.document(deps.store)) {
    KJ_IF_MAYBE (reason, deps.disk.whyNotDurable()) why = kj::str(*reason);
    if (!config->get().getPersist()) why = kj::str("the config has persist: false");
    if (why.size() == 0 && !isOnDisk(deps.disk, config->bytes()))
      why = kj::str("it differs from the copy on disk");
  } else {
    co_return;
  }
  constexpr auto kRisk = "; every process of this machine can read it"_kj;
  if (why.size() > 0) {
    deps.host.print(
        kj::str("warning: the guest information keeps the machine config, because ", why, kRisk),
        Tone::kInfo);
    co_return;
  }
  kj::Maybe<kj::Exception> failure;
  kj::Array<kj::String> cleared;
  co_await deps.sources.clear().then([&](kj::Array<kj::String> names) { cleared = kj::mv(names); },
                                     [&](kj::Exception&& e) { failure = kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    deps.host.print(kj::str("warning: cannot clear the machine config in the guest information: ",
                            messageOf(*e), kRisk),
                    Tone::kInfo);
  } else if (cleared.size() > 0) {
    deps.host.print(kj::str("cleared the machine config in ", kj::strArray(cleared, ", "),
                            ", as it is in ", deps.disk.name()),
                    Tone::kInfo);
  }
}

// --- apply ---

void ConfigManager::requireMaintenance() const {
  if (inMaintenance()) return;
  fail(ErrorKind::kUnauthenticated,
       published(deps.store) ? "this node has a config now; connect with a client certificate"_kj
                             : "the boot of this node failed, and it accepts no config; talosctl "
                               "status --insecure shows why"_kj);
}

Situation ConfigManager::situation() {
  Situation now;
  now.maintenance = inMaintenance();
  now.failed = deps.host.bootFailed();
  KJ_IF_MAYBE (running, deps.reader.document(deps.store)) {
    now.running = running->get();
  }
  now.identity = identityOf(deps.store);
  KJ_IF_MAYBE (ephemeral, deps.store.tryGet<rpc::VolumeStatusSpec>("EPHEMERAL")) {
    now.ephemeralBytes = ephemeral->getSize();
  }
  // On metal a config applied in maintenance is installed with the system.
  bool installed = now.maintenance && deps.mode == config::Mode::kMetal;
  if (!installed) now.notDurable = deps.disk.whyNotDurable();
  return now;
}

void ConfigManager::checkFree(Caller caller, rpc::ApplyMode mode) {
  if (caller == Caller::kVisitor) requireMaintenance();
  auto sequence = deps.host.sequence();
  requireFree({.applying = work.map([](const Work& w) -> kj::StringPtr { return w.what; }),
               .maintenance = inMaintenance(),
               .sequence = sequence,
               .bootHasSaved = deps.host.bootHasSaved()},
              mode);
}

// Adds warnings about the config that is staged for the next boot, and about a trial that
// continues.
void ConfigManager::warnOfStaged(rpc::ApplyMode mode, kj::Vector<kj::String>& warnings) {
  if (mode != rpc::ApplyMode::TRY) {
    auto staged = steps.staged();
    KJ_IF_MAYBE (text, staged) {
      zeroize(*text);
      warnings.add(kj::str("this config replaces the one that was staged for the next boot"));
    }
  }
  if (mode == rpc::ApplyMode::STAGED && trial.isRunning()) {
    warnings.add(kj::str("the trial continues until its end; this config is for the next boot"));
  }
}

kj::Promise<ConfigManager::Outcome> ConfigManager::apply(Request request) {
  auto& document = request.document;
  KJ_DEFER(zeroize(document));  // also when the caller disconnects
  kj::Maybe<ConfigChecks::Admission> admitted =
      checks.admit(document.size(), request.caller == Caller::kVisitor);
  requireTimes(request);
  bool mayTry = !request.noTrial && request.mode != rpc::ApplyMode::TRY &&
                request.caller == Caller::kAdmin && !inMaintenance();
  kj::Promise<kj::Maybe<kj::Vector<kj::String>>> noting = kj::Maybe<kj::Vector<kj::String>>();
  if (mayTry) noting = changes.duties().eagerlyEvaluate(nullptr);  // while the document is read
  auto copy = kj::heapArray(document.asPtr());
  auto checked = co_await checks.checkNew(kj::mv(copy), kj::str("machine config"));
  admitted = nullptr;
  if (checked.errors.empty()) {
    auto missing = co_await deps.missing(checked.config.get());
    auto image = checked.config.get().getMachine().getInstall().getImage();
    bool installs = inMaintenance() && deps.mode == config::Mode::kMetal && image.size() > 0;
    checkImage(missing, checked, deps.reader.document(deps.store), installs);
  }
  if (!checked.errors.empty()) {
    fail(ErrorKind::kInvalidArgument, kj::strArray(checked.errors, "\n"));
  }
  // A caller that may not see the running config gets no diff.
  if (request.caller == Caller::kVisitor) checkFree(request.caller, request.mode);
  auto duties = co_await kj::mv(noting);
  if (mayTry && !request.dryRun) {
    co_await awaitConfirmation(deps, changes, checked.config.get());
  }
  kj::String diff;
  kj::Maybe<CheckedConfig> before;
  for (bool current = false; !current;) {
    auto version = publishedVersion(deps.store);
    diff = co_await checks.difference(deps.reader.document(deps.store), checked.config);
    before = co_await trial.checkBefore();
    current = version == publishedVersion(deps.store) && (before != nullptr) == trial.isRunning();
  }
  // Nothing suspends between this point and begin(): the decision is still valid then.
  if (!request.dryRun || request.caller == Caller::kVisitor) {
    checkFree(request.caller, request.mode);
  }
  requireVersion(request.ifVersion, publishedVersion(deps.store));
  auto now = situation();
  KJ_IF_MAYBE (b, before) {
    now.trial = RunningTrial{b->config.get(), KJ_ASSERT_NONNULL(revertsIn())};
  }
  auto decision = decide(request.mode, checked.config.get(), now);
  deps.keys.check(checked.config.get(), decision.mode);
  for (auto& warning : decision.warnings) checked.warnings.add(kj::mv(warning));
  warnOfStaged(decision.mode, checked.warnings);
  Outcome outcome{decision.mode, kj::mv(checked.warnings), kj::mv(decision.changes), kj::mv(diff)};
  outcome.confirms = decision.confirms;
  auto plan = planOf(outcome, checked.config, request,
                     before.map([](CheckedConfig& b) -> const KnownConfig& { return b.config; }),
                     kj::mv(duties));
  if (request.dryRun) {
    outcome.wanted = kj::mv(checked.config);
    co_return kj::mv(outcome);
  }
  co_return co_await begin(kj::mv(outcome), kj::mv(checked.config), kj::mv(request), kj::mv(plan));
}

// Plans the trial of a change. `before`: the config from before mode try, which has another one on
// top: that one is not the way back.
kj::Maybe<ChangeTrial::Plan> ConfigManager::planOf(Outcome& outcome, const KnownConfig& wanted,
                                                   const Request& request,
                                                   kj::Maybe<const KnownConfig&> before,
                                                   kj::Maybe<kj::Vector<kj::String>> duties) {
  bool isPossible = !request.noTrial && outcome.mode != rpc::ApplyMode::TRY && !outcome.confirms;
  if (!isPossible || request.caller != Caller::kAdmin || inMaintenance()) return nullptr;
  kj::Maybe<const KnownConfig&> good = deps.reader.document(deps.store);
  KJ_IF_MAYBE (b, before) good = *b;
  // A client that does not wait for a reboot makes no call after it.
  bool callsAgain = request.callsAgain && outcome.mode != rpc::ApplyMode::STAGED &&
                    (outcome.mode == request.mode || outcome.mode != rpc::ApplyMode::REBOOT);
  TrialRequest asked{.timeout = request.changeTrial,
                     .callsAgain = callsAgain,
                     .duringTrial = changes.isUnderWay(),
                     .isBooted = !deps.host.bootFailed() && deps.host.sequence().size() == 0,
                     .duties = kj::mv(duties)};
  kj::Maybe<ChangeTrial::Plan> plan;
  KJ_IF_MAYBE (g, good) plan = planTrial(*g, wanted, kj::mv(asked), outcome.warnings);
  KJ_IF_MAYBE (p, plan) {
    outcome.changeTrial = p->timeout;
    outcome.trialDuties = KJ_MAP(name, p->fulfilled) {
      return kj::str(name);
    };
  }
  return kj::mv(plan);
}

// The work continues if the caller disconnects. After a reboot has been decided no other apply is
// accepted.
kj::Promise<ConfigManager::Outcome> ConfigManager::begin(Outcome outcome, KnownConfig config,
                                                         Request request,
                                                         kj::Maybe<ChangeTrial::Plan> plan) {
  auto mode = outcome.mode;
  bool first = inMaintenance();
  deps.host.print(
      kj::str("machine config: applying a new config, mode ", nameOf(mode),
              first ? kj::str(", the first") : kj::str(", changes: ", outcome.changes.size())),
      Tone::kInfo);
  auto document = kj::mv(request.document);
  bool early = mode == rpc::ApplyMode::NO_REBOOT || request.operation != 0;
  bool operates = early && changesKeys(outcome.changes);
  auto operating = kj::newPromiseAndFulfiller<uint64_t>();
  kj::Maybe<kj::Own<kj::PromiseFulfiller<uint64_t>>> fulfiller;
  if (operates) fulfiller = kj::mv(operating.fulfiller);
  auto doing = occupy(
      mode, mode == rpc::ApplyMode::TRY
                ? trial.begin(request.trial, kj::mv(config), kj::mv(document),
                              deps.reader.document(deps.store))
                : steps.change(Pending(mode, kj::mv(document), request.noTrial), kj::mv(config),
                               request.operation, kj::mv(plan), kj::mv(fulfiller)));
  auto over = doing.addBranch().then([]() -> uint64_t { return 0; });
  if (operates) over = operating.promise.exclusiveJoin(kj::mv(over));
  return over.then([outcome = kj::mv(outcome)](uint64_t number) mutable {
    outcome.operation = number;
    return kj::mv(outcome);
  });
}

// Lets nothing else be applied while `doing` runs.
kj::ForkedPromise<void> ConfigManager::occupy(rpc::ApplyMode mode, kj::Promise<void> promise) {
  auto doing = promise.fork();
  auto settled = doing.addBranch()
                     .then([]() { return true; },
                           [this](kj::Exception&& e) {
                             taskFailed(kj::mv(e));
                             return false;
                           })
                     .then([this, mode](bool good) {
                       if (!good || mode != rpc::ApplyMode::REBOOT) work = nullptr;
                     })
                     .fork();
  work = Work{kj::str("mode ", nameOf(mode)), kj::mv(settled)};
  tasks.add(KJ_ASSERT_NONNULL(work).done.addBranch());
  return doing;
}

// Applies the last good config again (change-trial.h).
kj::Promise<void> ConfigManager::restore(rpc::ApplyMode mode, KnownConfig config) {
  Pending pending(mode, kj::heapArray(config.bytes()));
  co_await occupy(mode, steps.change(kj::mv(pending), kj::mv(config), 0, nullptr, nullptr))
      .addBranch();
}

}  // namespace talos::machined
