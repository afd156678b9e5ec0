#include "machined/config/config-keeper.h"

#include <string.h>

#include "common/base/diff.h"
#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/lines.h"
#include "machined/config/config-redact.h"
#include "machined/resources/store-records.h"
#include "rpc/types.capnp.h"

namespace talos::machined {
namespace {

constexpr auto kLongestPause = 64 * kj::SECONDS;  // between searches in maintenance

// The resource has a few words beside the document.
constexpr size_t kLargestDocument = kLargestResource - 4096;

// Checked on the loop when that takes less than a moment.
constexpr size_t kCheckedAtOnce = 64u << 10;

// Anybody may send documents in maintenance mode, and looking at one costs memory.
constexpr unsigned kMostChecks = 4;

bool toldMaintenance(Store& store) {
  KJ_IF_MAYBE (told, store.tryGet<rpc::ApiCertificateSpec>("api")) return told->getMaintenance();
  return false;
}

bool published(Store& store) {
  return store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId) != nullptr;
}

void addLines(kj::Vector<kj::String>& lines, kj::StringPtr text) {
  for (auto line : Lines(text)) {
    if (line.size() > 0) lines.add(kj::heapString(line));
  }
}

}  // namespace

ConfigKeeper::ConfigKeeper(World world) : world(kj::mv(world)), tasks(*this) {}
ConfigKeeper::~ConfigKeeper() noexcept(false) {}

void ConfigKeeper::taskFailed(kj::Exception&& e) {
  world.say(kj::str("a change of the machine config failed: ", messageOf(e)), Tone::kAlarm);
}

kj::ArrayPtr<const kj::String> ConfigKeeper::maintenanceReasons() const {
  KJ_IF_MAYBE (m, maintenance) return m->reasons.asPtr();
  return nullptr;
}

// --- looking at a document ---

ConfigKeeper::Checked ConfigKeeper::check(kj::ArrayPtr<const char> text, kj::StringPtr file,
                                          config::Mode mode) {
  Checked result{config::parse(text, file), {}, {}};
  Problems problems;
  if (!result.config.empty()) config::checkMode(result.config, mode, file, problems);
  auto sort = [&](const Problems& list) {
    for (auto& p : list) {
      auto& into = p.severity == Problem::Severity::kError ? result.errors : result.warnings;
      into.add(p.toString());
    }
  };
  sort(result.config.problems());
  sort(problems);
  if (result.config.empty()) {
    result.errors.add(
        kj::str(file, ": this is not a machine config: there is no document with the key machine"));
  }
  if (text.size() > kLargestDocument) {
    result.errors.add(kj::str(file, ": a machine config has at most ", kLargestDocument,
                              " bytes, this one has ", text.size()));
  }
  return result;
}

kj::Promise<ConfigKeeper::Checked> ConfigKeeper::checkOffLoop(kj::Array<char> text,
                                                              kj::String file) {
  if (text.size() <= kCheckedAtOnce) {
    KJ_DEFER(zeroize(text));
    return check(text, file, world.mode);
  }
  // It goes on in the pool when the caller has gone, so until then it counts.
  ++checking;
  auto paf = kj::newPromiseAndFulfiller<Checked>();
  auto looking =
      world.uv.blocking([text = kj::mv(text), file = kj::mv(file), mode = world.mode]() mutable {
        KJ_DEFER(zeroize(text));
        return check(text, file, mode);
      });
  tasks.add(looking.attach(kj::defer([this]() { --checking; }))
                .then([fulfiller = kj::mv(paf.fulfiller)](Checked&& checked) mutable {
                  fulfiller->fulfill(kj::mv(checked));
                }));
  return kj::mv(paf.promise);
}

// --- what the predecessor left ---

kj::Promise<void> ConfigKeeper::recover() {
  if (!published(world.store) && toldMaintenance(world.store)) {
    kj::Vector<kj::String> reasons;
    reasons.add(kj::str("no machine config was found; machined was started again and looks anew"));
    enterMaintenance(kj::mv(reasons));
  }
  trial = takeTrial(world.process1);
  KJ_IF_MAYBE (pending, takePending(world.process1)) {
    auto mode = pending->mode;
    world.say(kj::str("machine config: finishing what machined had begun before it was started ",
                      "again (mode ", nameOf(mode), ")"),
              Tone::kInfo);
    auto checked = check(pending->text, "machine config", world.mode);
    if (checked.errors.empty()) {
      co_await finish(mode, kj::mv(checked.config)).catch_([this](kj::Exception&& e) {
        taskFailed(kj::mv(e));
      });
    } else {  // it was good a moment ago
      world.say("machine config: what was left of it cannot be read; nothing is changed",
                Tone::kAlarm);
    }
    co_await dropPending(world.process1);
  }
  co_await takeUpTrial();
}

// --- at boot ---

kj::Promise<void> ConfigKeeper::load() {
  if (published(world.store)) {
    world.say("machine config: that of this boot, from before machined was started again",
              Tone::kInfo);
    co_return;
  }
  bool again = maintenance != nullptr;
  bool searchable = true;
  if (!again) {
    kj::Vector<kj::String> reasons;
    if (takeKept(reasons)) co_return;
    searchable = co_await search(reasons);
    if (published(world.store)) co_return;
    enterMaintenance(kj::mv(reasons));
  }
  auto over = KJ_ASSERT_NONNULL(maintenance).over.addBranch();
  if (searchable) over = over.exclusiveJoin(searchOn(again));
  co_await over;
}

// A copy that cannot be used is told and passed over: what it was saved by may have been an older
// version, or a disk that lost it.
bool ConfigKeeper::takeKept(kj::Vector<kj::String>& reasons) {
  kj::Maybe<kj::String> text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { text = world.disk.read(); })) {
    reasons.add(kj::str(world.disk.name(), ": ", messageOf(*e)));
  }
  KJ_IF_MAYBE (kept, text) {
    KJ_DEFER(zeroize(*kept));
    auto checked = check(kept->asArray(), world.disk.name(), world.mode);
    if (checked.errors.empty() && checked.config.get().getPersist()) {
      world.say(kj::str("machine config: ", world.disk.name()), Tone::kInfo);
      for (auto& line : checked.warnings) world.say(kj::str("warning: ", line), Tone::kInfo);
      publish(kj::mv(checked.config));
      return true;
    }
    for (auto& line : checked.errors) reasons.add(kj::mv(line));
  }
  for (auto& line : reasons) world.say(kj::str("passed over: ", line), Tone::kAlarm);
  return false;
}

// Whether there is any source. A good document is published, and otherwise `reasons` tells why
// there is none.
kj::Promise<bool> ConfigKeeper::search(kj::Vector<kj::String>& reasons) {
  kj::Maybe<FoundConfig> found;
  bool named = true;
  auto failure = co_await world.sources.find().then(
      [&](kj::Maybe<FoundConfig>&& f) -> kj::Maybe<kj::Exception> {
        found = kj::mv(f);
        named = found != nullptr;
        return nullptr;
      },
      [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
  KJ_IF_MAYBE (e, failure) {
    addLines(reasons, kj::str("no machine config: ", messageOf(*e)));
  }
  KJ_IF_MAYBE (f, found) {
    auto from = kj::str(f->from);
    auto checked = co_await checkOffLoop(kj::mv(f->text), kj::str(from));
    // An apply may be under way meanwhile: it was first.
    KJ_IF_MAYBE (w, work) co_await w->done.addBranch();
    if (published(world.store)) co_return true;
    if (checked.errors.empty()) {
      world.say(kj::str("machine config: ", from), Tone::kInfo);
      for (auto& line : checked.warnings) world.say(kj::str("warning: ", line), Tone::kInfo);
      publish(kj::mv(checked.config));
      co_return true;
    }
    reasons.add(kj::str("the machine config that was found cannot be used:"));
    for (auto& line : checked.errors) reasons.add(kj::mv(line));
  }
  if (!named) {
    reasons.add(
        kj::str("no machine config: the kernel parameter talos.config is absent or none, "
                "and no volume has one"));
  }
  co_return named;
}

// Ends when a document was published, by whomever.
kj::Promise<void> ConfigKeeper::searchOn(bool atOnce) {
  auto pause = 1 * kj::SECONDS;
  for (;;) {
    if (!atOnce) {
      co_await world.timer.afterDelay(pause);
      pause = kj::min(pause * 2, kLongestPause);
    }
    atOnce = false;
    kj::Vector<kj::String> reasons;
    bool named = co_await search(reasons);
    if (published(world.store)) co_return;
    setReasons(kj::mv(reasons));
    if (!named) co_await kj::Promise<void>(kj::NEVER_DONE);
  }
}

// --- maintenance ---

void ConfigKeeper::enterMaintenance(kj::Vector<kj::String> reasons) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  maintenance = Maintenance{{}, kj::mv(paf.fulfiller), paf.promise.fork()};
  setReasons(kj::mv(reasons));
}

void ConfigKeeper::setReasons(kj::Vector<kj::String> reasons) {
  KJ_IF_MAYBE (m, maintenance) {
    bool same = m->reasons.size() == reasons.size();
    for (size_t i = 0; same && i < reasons.size(); i++) same = m->reasons[i] == reasons[i];
    if (same) return;
    for (auto& line : reasons) world.say(kj::str("maintenance: ", line), Tone::kAlarm);
    m->reasons = kj::mv(reasons);
    world.changed();
  }
}

void ConfigKeeper::publish(config::MachineConfig config) {
  // First: from here on nobody without a certificate is served.
  auto ended = kj::mv(maintenance);
  maintenance = nullptr;
  auto text = kj::heapString(config.bytes());
  KJ_DEFER(zeroize(text));
  world.reader.know(kj::mv(config));
  putRecord<rpc::MachineConfigSpec>(
      world.store, kMachineConfigId,
      [&](rpc::MachineConfigSpec::Builder spec) { spec.setDocument(text); });
  KJ_IF_MAYBE (m, ended) {
    m->end->fulfill();
    world.changed();
  }
}

// --- tasks of the boot ---

void ConfigKeeper::validate() {
  KJ_IF_MAYBE (config, world.reader.document(world.store)) {
    auto checked = check(config->bytes(), "machine config", world.mode);
    if (checked.errors.empty()) return;
    fail(ErrorKind::kInvalidArgument,
         kj::str("the machine config cannot be used:\n", kj::strArray(checked.errors, "\n")));
  }
  fail(ErrorKind::kNotFound, "there is no machine config to validate");
}

kj::Promise<void> ConfigKeeper::save() {
  KJ_IF_MAYBE (config, world.reader.document(world.store)) return toDisk(*config);
  fail(ErrorKind::kNotFound, "there is no machine config to save");
}

// With persist: false an older copy must not be the one of the next boot.
kj::Promise<void> ConfigKeeper::toDisk(const config::MachineConfig& config) {
  if (!config.get().getPersist()) return world.disk.remove();
  return world.disk.write(kj::heapArray(config.bytes()));
}

// --- apply ---

Situation ConfigKeeper::situation() {
  Situation now;
  now.maintenance = inMaintenance();
  now.failed = world.failed();
  now.canReboot = world.mode != config::Mode::kContainer;
  KJ_IF_MAYBE (running, world.reader.document(world.store)) {
    if (running->good() && !running->empty()) now.running = running->get();
  }
  now.notDurable = world.disk.whyNotDurable();
  return now;
}

void ConfigKeeper::checkFree(Caller caller) {
  if (caller == Caller::kVisitor && !inMaintenance()) {
    fail(ErrorKind::kUnauthenticated,
         "this machine has a config now: connect again, with a client certificate");
  }
  KJ_IF_MAYBE (w, work) {
    fail(ErrorKind::kConflict,
         kj::str("another config is being applied (", w->what, "); nothing of this one was done"));
  }
  auto sequence = world.sequence();
  if (!inMaintenance() && sequence.size() > 0) {
    fail(ErrorKind::kConflict,
         kj::str("the sequence ", sequence, " runs; nothing was done, try again when it is over"));
  }
}

// Resources count their changes, so it tells whether anybody else made one.
void ConfigKeeper::checkVersion(uint64_t ifVersion) {
  if (ifVersion == 0) return;
  uint64_t version = 0;
  KJ_IF_MAYBE (running, world.store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId)) {
    version = running->version();
  }
  if (version == ifVersion) return;
  fail(ErrorKind::kConflict,
       kj::str("the config was changed meanwhile: this document was made from version ", ifVersion,
               ", and version ", version,
               " runs now; nothing was done, make the change again in that one"));
}

kj::Promise<ConfigKeeper::Outcome> ConfigKeeper::apply(Request request) {
  auto& document = request.document;
  KJ_DEFER(zeroize(document));  // whatever comes, also a caller that goes away
  if (checking >= kMostChecks && document.size() > kCheckedAtOnce) {
    fail(ErrorKind::kResourceExhausted,
         kj::str(checking, " documents are being checked already; try again"));
  }
  if (request.mode == rpc::ApplyMode::TRY &&
      (request.trial < kShortestTrial || request.trial > kLongestTrial)) {
    fail(ErrorKind::kInvalidArgument, "a config is tried for 1s at least and 24h at most");
  }
  auto copy = kj::heapArray(document.asPtr());
  auto checked = co_await checkOffLoop(kj::mv(copy), kj::str("machine config"));
  if (!checked.errors.empty()) {
    fail(ErrorKind::kInvalidArgument, kj::strArray(checked.errors, "\n"));
  }
  if (!request.dryRun || request.caller == Caller::kVisitor) checkFree(request.caller);
  checkVersion(request.ifVersion);
  auto decision = decide(request.mode, checked.config.get(), situation());
  for (auto& warning : decision.warnings) checked.warnings.add(kj::mv(warning));
  if (decision.mode != rpc::ApplyMode::TRY && isStaged()) {
    checked.warnings.add(
        kj::str("the config that was put on disk for the next boot, and does not run yet, is ",
                "replaced by this one"));
  }
  if (decision.mode == rpc::ApplyMode::STAGED && trial != nullptr) {
    checked.warnings.add(
        kj::str("the config that is on trial goes on until its time is over; this one is for the "
                "next boot"));
  }
  Outcome outcome{decision.mode, kj::mv(checked.warnings), kj::mv(decision.changes),
                  difference(checked.config)};
  if (request.dryRun) {
    outcome.wanted = kj::mv(checked.config);
    co_return kj::mv(outcome);
  }
  co_return co_await begin(kj::mv(outcome), kj::mv(checked.config), kj::mv(request));
}

// Whether the next boot has another config than this one; a trial ends with this boot anyway.
bool ConfigKeeper::isStaged() {
  auto differs = [&](kj::ArrayPtr<const char> running) {
    kj::Maybe<kj::String> text;
    auto unreadable = kj::runCatchingExceptions([&]() { text = world.disk.read(); });
    if (unreadable != nullptr) return false;  // writing will tell
    KJ_IF_MAYBE (kept, text) {
      KJ_DEFER(zeroize(*kept));
      return kept->asArray() != running;
    }
    return false;
  };
  KJ_IF_MAYBE (t, trial) return differs(t->before);
  KJ_IF_MAYBE (running, world.reader.document(world.store)) {
    if (!running->good() || running->empty()) return false;
    return differs(running->bytes());
  }
  return false;
}

// From the config that runs; a machine without one has nothing to compare with.
kj::String ConfigKeeper::difference(const config::MachineConfig& wanted) {
  KJ_IF_MAYBE (running, world.reader.document(world.store)) {
    auto shown = config::redact(running->bytes(), wanted.bytes());
    return unifiedDiff(shown.from, shown.to, "running", "new");
  }
  return kj::str();
}

// The work goes on whether or not the caller waits for it. After a reboot has been decided there is
// no other.
kj::Promise<ConfigKeeper::Outcome> ConfigKeeper::begin(Outcome outcome,
                                                       config::MachineConfig config,
                                                       Request request) {
  auto mode = outcome.mode;
  bool first = inMaintenance();
  world.say(
      kj::str("machine config: a new one is applied, mode ", nameOf(mode),
              first ? kj::str(", the first") : kj::str(", changes: ", outcome.changes.size())),
      Tone::kInfo);
  auto document = kj::mv(request.document);
  auto doing =
      (mode == rpc::ApplyMode::TRY ? beginTrial(request.trial, kj::mv(config), kj::mv(document))
                                   : carryOut(Pending(mode, kj::mv(document)), kj::mv(config)))
          .fork();
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
  return doing.addBranch().then([outcome = kj::mv(outcome)]() mutable { return kj::mv(outcome); });
}

kj::Promise<void> ConfigKeeper::carryOut(Pending pending, config::MachineConfig config) {
  auto mode = pending.mode;
  co_await holdPending(world.process1, pending);
  auto failure = co_await finish(mode, kj::mv(config))
                     .then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
                           [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); });
  co_await dropPending(world.process1);
  KJ_IF_MAYBE (e, failure) kj::throwFatalException(kj::mv(*e));
  if (mode == rpc::ApplyMode::REBOOT) world.reboot();
}

// Steps 3 and 4; the same when they are done again.
kj::Promise<void> ConfigKeeper::finish(rpc::ApplyMode mode, config::MachineConfig config) {
  co_await toDisk(config);
  switch (mode) {
    case rpc::ApplyMode::NO_REBOOT:
      publish(kj::mv(config));
      co_await endTrial("the config that was applied stays; nothing is on trial any more");
      break;
    case rpc::ApplyMode::REBOOT:
      co_await world.intendReboot();
      break;
    default:  // staged
      break;
  }
}

// --- trials ---

kj::Maybe<kj::Duration> ConfigKeeper::revertsIn() const {
  return trial.map(
      [this](const Trial& t) { return kj::max(t.deadline - world.timer.now(), 0 * kj::SECONDS); });
}

kj::Promise<void> ConfigKeeper::beginTrial(kj::Duration length, config::MachineConfig config,
                                           kj::Array<char> document) {
  kj::Array<char> before;
  KJ_IF_MAYBE (t, trial) {
    before = kj::heapArray(t->before.asPtr());
  } else KJ_IF_MAYBE (running, world.reader.document(world.store)) {
    before = kj::heapArray(running->bytes());
  }
  Trial next(world.timer.now() + length, kj::mv(before), kj::mv(document));
  co_await holdTrial(world.process1, next);
  zeroize(next.tried);  // process 1 has it, and the store is about to
  next.tried = nullptr;
  trial = kj::mv(next);
  publish(kj::mv(config));
  arm();
  world.trialChanged("a config is on trial");
}

// What the predecessor left, unless what it left beside has ended it.
kj::Promise<void> ConfigKeeper::takeUpTrial() {
  KJ_IF_MAYBE (t, trial) {
    if (world.timer.now() >= t->deadline) {
      co_await revert();
      co_return;
    }
    auto checked = check(t->tried, "machine config", world.mode);
    if (checked.errors.empty()) publish(kj::mv(checked.config));
    arm();
    world.trialChanged("a config is on trial; machined was started again meanwhile");
  }
}

void ConfigKeeper::arm() {
  KJ_IF_MAYBE (t, trial) {
    // The end replaces this promise, so it is not a part of it.
    alarm = world.timer.atTime(t->deadline)
                .then([this]() { tasks.add(kj::evalLater([this]() { return revert(); })); })
                .eagerlyEvaluate(nullptr);
  }
}

kj::Promise<void> ConfigKeeper::revert() {
  // What is under way may make another config stay, or begin the time anew.
  KJ_IF_MAYBE (w, work) co_await w->done.addBranch();
  KJ_IF_MAYBE (t, trial) {
    if (world.timer.now() < t->deadline) co_return;
    auto checked = check(t->before, "machine config", world.mode);
    if (checked.errors.empty()) {
      publish(kj::mv(checked.config));
      co_await endTrial("the time of the config on trial is over; that of before is back");
    } else {  // it ran
      co_await endTrial(
          "the time of the config on trial is over, but that of before is not usable");
    }
  }
}

kj::Promise<void> ConfigKeeper::endTrial(kj::StringPtr why) {
  if (trial == nullptr) co_return;
  trial = nullptr;
  alarm = kj::READY_NOW;
  world.trialChanged(why);
  co_await dropTrial(world.process1);
}

}  // namespace talos::machined
