// For tests: the config manager with models of process 1, the disk and the sources.
#pragma once

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/encoding.h>

#include <set>
#include <string>

#include "common/base/error.h"
#include "common/config/config.h"
#include "common/tls/pki.h"
#include "machined/config/config-manager.h"
#include "machined/confined/parser/test-direct-foreign.h"
#include "machined/process1/test-process1.h"
#include "machined/resources/store-records.h"
#include "machined/resources/test-store.h"

namespace talos::machined {

using rpc::ApplyMode;

// Returns a worker's config for mode cloud, identified by its host name.
inline kj::String document(kj::StringPtr hostname, kj::StringPtr more = "", bool persist = true) {
  static const auto authority = pki::makeAuthority({.organization = "x"});
  static const auto crt = kj::encodeBase64(authority.certificate.asBytes());
  return kj::str("version: v1alpha1\npersist: ", persist,
                 "\nmachine:\n  type: worker\n  token: aaaaaa.0123456789abcdef\n"
                 "  ca: {crt: ",
                 crt, "}\n  network:\n    hostname: ", hostname, "\n", more,
                 "cluster:\n  token: bbbbbb.0123456789abcdef\n  ca: {crt: ", crt,
                 "}\n"
                 "  controlPlane:\n    endpoint: https://10.0.0.1:6443\n");
}
// Differs from document("…") in a key that needs a reboot.
constexpr kj::StringPtr kEnv = "  env: {a: b}\n"_kj;

// The disk outlives the brain.
struct ModelConfigDisk : public ConfigDisk {
  kj::Maybe<kj::String> content;
  bool broken = false, unreadable = false, removable = true;
  kj::Maybe<kj::String> volatileBecause, lockedBecause;
  unsigned writes = 0, removals = 0;
  kj::Maybe<kj::Promise<void>> gate;  // the next write waits for this promise

  kj::StringPtr name() const override { return "config.yaml"; }
  kj::Maybe<kj::String> lockedProblem() override {
    return lockedBecause.map([](kj::String& why) { return kj::str(why); });
  }
  kj::Maybe<kj::Promise<void>> opening;  // of a locked disk
  kj::Maybe<kj::Promise<void>> untilOpened() override {
    KJ_IF_MAYBE (o, opening) {
      auto only = kj::mv(*o);
      opening = nullptr;
      return kj::mv(only);
    }
    return nullptr;
  }
  kj::Maybe<kj::String> read() override {
    if (unreadable) fail(ErrorKind::kUnavailable, "config.yaml: Input/output error");
    return content.map([](kj::String& c) { return kj::str(c); });
  }
  kj::Promise<void> write(kj::Array<char> text) override {
    ++writes;
    if (broken) return error(ErrorKind::kResourceExhausted, "config.yaml: no space left on device");
    auto put = [this, text = kj::mv(text)]() { content = kj::str(text.asPtr()); };
    KJ_IF_MAYBE (g, gate) {
      auto waiting = kj::mv(*g);
      gate = nullptr;
      return waiting.then(kj::mv(put));
    }
    put();
    return kj::READY_NOW;
  }
  kj::Promise<void> remove() override {
    ++removals;
    if (!removable) return error(ErrorKind::kUnavailable, "config.yaml: Input/output error");
    content = nullptr;
    return kj::READY_NOW;
  }
  kj::Maybe<kj::String> whyNotDurable() override {
    return volatileBecause.map([](kj::String& why) { return kj::str(why); });
  }
};

struct ModelSources final : public ConfigSources {
  // The results of the next searches, in turn; the last one stays. "": no config; "!…": an error.
  kj::Vector<kj::String> answers;
  unsigned searches = 0;
  kj::Maybe<kj::Promise<void>> gate;
  kj::Maybe<kj::String> wrongPlatform;

  kj::Maybe<kj::String> platformProblem() override {
    return wrongPlatform.map([](kj::String& problem) { return kj::str(problem); });
  }
  // The names that clear() returns; nullptr if no source can be cleared.
  kj::Maybe<kj::Vector<kj::String>> readable;
  kj::Maybe<kj::String> refusal;  // the error of clear()
  bool clearable() override { return readable != nullptr; }
  kj::Promise<kj::Array<kj::String>> clear() override {
    KJ_IF_MAYBE (why, refusal) return error(ErrorKind::kUnavailable, *why);
    auto& there = KJ_ASSERT_NONNULL(readable);
    auto names = there.releaseAsArray();
    there = kj::Vector<kj::String>();
    return kj::mv(names);
  }
  kj::Promise<ConfigSearch> find(kj::Duration) override {
    auto& answer = answers[kj::min(searches++, answers.size() - 1)];
    kj::Promise<void> first = kj::READY_NOW;
    KJ_IF_MAYBE (g, gate) {
      first = kj::mv(*g);
      gate = nullptr;
    }
    return first.then([text = kj::str(answer)]() mutable -> ConfigSearch {
      if (text.size() == 0) return NoConfig{kj::str("http://source/ has no user data")};
      if (text[0] == '!') fail(ErrorKind::kUnavailable, text.slice(1));
      auto copy = kj::heapArray(text.asArray().slice(0, text.size()));
      return FoundConfig{kj::mv(copy), kj::str("http://source/")};
    });
  }
};

// The config part of a brain; destroying it simulates a crash.
struct ModelBrain final : private ConfigHost, private KeyChanges {
  FakeProcess1 process1;
  Store store;
  MachineConfigReader reader;
  DirectForeign foreign;
  bool failed;
  kj::String runningSequence = kj::str();
  bool leaving = false;      // a reset was requested
  bool silentFacts = false;  // the duties of the node cannot be found out
  bool saved = false;        // the running boot has finished its task saveConfig
  unsigned intended = 0, reboots = 0, changes = 0, alarms = 0;
  kj::Vector<kj::String> said, trials, changeTrials;
  // The duties of the node with a config.
  kj::Function<TrialFacts(config::Config::Reader)> facts = [](config::Config::Reader) {
    return TrialFacts{};
  };
  std::string persisted;     // the mode of the last persist()
  std::string stagedBefore;  // the config of the next boot when keys were changed
  bool keysFail = false, keysWrong = false;
  std::set<std::string> lacks;                  // paths of files that the image does not have
  kj::Maybe<kj::ForkedPromise<void>> keysGate;  // blocks deriving a key
  ConfigManager manager;

  ModelBrain(FakeMachine& machine, const Registry& registry, const kj::Clock& clock,
             ModelConfigDisk& disk, ModelConfigDisk& records, ModelSources& sources,
             kj::Timer& timer, config::Mode mode, bool startsFailed, kj::WaitScope& scope)
      : process1(machine),
        store(registry, clock),
        failed(startsFailed),
        manager({.mode = mode,
                 .process1 = process1,
                 .store = store,
                 .reader = reader,
                 .sources = sources,
                 .disk = disk,
                 .trialRecords = records,
                 .foreign = foreign,
                 .timer = timer,
                 .host = *this,
                 .keys = *this,
                 .missing = [this](config::Config::Reader wanted) -> kj::Promise<MissingFromImage> {
                   return missingIn(wanted.getMachine());
                 }}) {
    store.attachJournal(process1).wait(scope);
    manager.recover().wait(scope);
  }

  // Everything in `lacks` is missing.
  MissingFromImage missingIn(config::Machine::Reader machine) const {
    MissingFromImage missing;
    auto files = machine.getFiles();
    for (auto i : kj::indices(files)) {
      if (lacks.count(files[i].getPath().cStr()) == 0) continue;
      missing.files.add(
          MissingImageFile{i, kj::str(files[i].getPath()), kj::str("no such file in the system")});
    }
    auto providers = machine.getKubelet().getCredentialProviderConfig().getProviders();
    for (auto i : kj::indices(providers)) {
      if (lacks.count(providers[i].getName().cStr()) == 0) continue;
      missing.programs.add(MissingProgram{i, kj::str(providers[i].getName()),
                                          kj::str("this system has no such program")});
    }
    return missing;
  }
  bool saidThat(const char* part) const {
    for (auto& line : said) {
      if (std::string(line.cStr()).find(part) != std::string::npos) return true;
    }
    return false;
  }

 private:
  void print(kj::StringPtr line, Tone tone) override {
    said.add(kj::str(line));
    alarms += tone == Tone::kAlarm;
  }
  kj::String sequence() const override { return kj::str(runningSequence); }
  bool isLeaving() const override { return leaving; }
  bool bootHasSaved() const override { return saved; }
  bool bootFailed() const override { return failed; }
  kj::Promise<void> intendReboot() override {
    ++intended;
    return kj::READY_NOW;
  }
  void reboot() override { ++reboots; }
  void maintenanceChanged() override { ++changes; }
  void trialChanged(kj::StringPtr what) override { trials.add(kj::str(what)); }
  void changeTrialChanged(kj::StringPtr what, Tone) override { changeTrials.add(kj::str(what)); }
  kj::Promise<TrialFacts> trialFacts(config::Config::Reader, bool) override {
    if (silentFacts) co_await kj::Promise<void>(kj::NEVER_DONE);
    KJ_IF_MAYBE (running, reader.document(store)) co_return facts(running->get());
    co_return TrialFacts{};
  }

  void check(config::Config::Reader, ApplyMode) override {
    if (keysWrong) fail(ErrorKind::kFailedPrecondition, "no key can be made of nodeID");
  }
  kj::Promise<void> persist(config::Config::Reader, ApplyMode mode,
                            kj::Maybe<config::Config::Reader> staged, Persist write,
                            Step step) override {
    stagedBefore = staged
                       .map([](config::Config::Reader config) {
                         return config.getMachine().getNetwork().getHostname().cStr();
                       })
                       .orDefault("");
    if (keysFail) return error(ErrorKind::kFailedPrecondition, "no key opens it");
    step("adding a key");
    kj::Promise<void> first = kj::READY_NOW;
    KJ_IF_MAYBE (gate, keysGate) first = gate->addBranch();
    return first.then([this, mode, write = kj::mv(write)]() mutable {
      persisted += nameOf(mode).cStr();
      return write().attach(kj::mv(write));
    });
  }
};

inline bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// Blocks the readers of large documents for its lifetime.
class HeldReaders {
 public:
  explicit HeldReaders(DirectForeign& foreign) : foreign(foreign) {
    auto paf = kj::newPromiseAndFulfiller<void>();
    open = kj::mv(paf.fulfiller);
    foreign.held = paf.promise.fork();
  }
  ~HeldReaders() noexcept(false) {
    foreign.held = nullptr;
    open->fulfill();
  }
  KJ_DISALLOW_COPY_AND_MOVE(HeldReaders);

 private:
  DirectForeign& foreign;
  kj::Own<kj::PromiseFulfiller<void>> open;
};

struct ConfigManagerTest : public testing::Test {
  ~ConfigManagerTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Registry registry;
  TestClock clock;
  FakeMachine machine;
  ModelConfigDisk disk, records;
  ModelSources sources;
  config::Mode mode = config::Mode::kCloud;
  kj::Maybe<kj::Own<ModelBrain>> current;
  bool startsFailed = false;  // the next brain starts with a failed boot

  // Replaces the machine by a new one that has never run, with an empty disk.
  void anotherMachine() {
    machine.drop();
    disk.content = nullptr;
    records.content = nullptr;
  }
  ModelBrain& start() {
    current = nullptr;
    auto made = kj::heap<ModelBrain>(machine, registry, clock, disk, records, sources, timer, mode,
                                     startsFailed, io.waitScope);
    return *current.emplace(kj::mv(made));
  }
  ModelBrain& brain() { return *KJ_ASSERT_NONNULL(current); }
  // Starts a machine whose boot has ended, with this config running and on disk.
  ModelBrain& booted(kj::StringPtr text) {
    sources.answers.clear();
    sources.answers.add(kj::str(text));
    auto& b = start();
    load();
    b.manager.save().wait(io.waitScope);
    return b;
  }

  void load() {
    auto loading = brain().manager.load();
    if (loading.poll(io.waitScope)) return loading.wait(io.waitScope);
    KJ_FAIL_REQUIRE("no config was taken", brain().said);
  }

  // Starts a brain that gets no config at first; it waits in maintenance mode with this promise.
  kj::Promise<void> waitForAConfig() {
    auto loading = start().manager.load();
    KJ_REQUIRE(!loading.poll(io.waitScope) && brain().manager.inMaintenance(), brain().said);
    return loading;
  }

  kj::Promise<ConfigManager::Outcome> apply(
      kj::StringPtr text, ApplyMode mode, bool dryRun = false,
      ConfigManager::Caller caller = ConfigManager::Caller::kAdmin) {
    return brain().manager.apply({.document = kj::heapArray(text.asArray().slice(0, text.size())),
                                  .mode = mode,
                                  .dryRun = dryRun,
                                  .caller = caller});
  }
  kj::Promise<ConfigManager::Outcome> tryOut(kj::StringPtr text,
                                             kj::Duration length = 1 * kj::MINUTES) {
    return brain().manager.apply({.document = kj::heapArray(text.asArray().slice(0, text.size())),
                                  .mode = ApplyMode::TRY,
                                  .trial = length});
  }
  std::string refusal(kj::Promise<ConfigManager::Outcome> promise) {
    return refused(promise.ignoreResult());
  }
  std::string refused(kj::Promise<void> promise) {
    std::string text = "nothing was refused";
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { promise.wait(io.waitScope); })) {
      text = std::string(nameOf(kindOf(*e)).cStr()) + ": " + messageOf(*e).cStr();
    }
    return text;
  }

  // Returns the host name of a document, or "-".
  static std::string named(kj::StringPtr text) {
    auto parsed = config::parse(text.asArray(), "f");
    if (!parsed.good() || parsed.empty()) return "broken";
    return parsed.get().getMachine().getNetwork().getHostname().cStr();
  }
  std::string running() {
    KJ_IF_MAYBE (r, brain().store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId)) {
      return named(r->getDocument());
    }
    return "-";
  }
  std::string onDisk() {
    KJ_IF_MAYBE (text, disk.content) return named(*text);
    return "-";
  }
  // Returns "running/disk", "*" if a change is pending, "?" if a trial is running.
  std::string state() {
    return running() + "/" + onDisk() + (machine.holds(kPendingName) ? "*" : "") +
           (machine.holds(kTrialName) ? "?" : "");
  }
  // Lets the trial of a good change end.
  void confirmChange() {
    for (int second = 0; second < 20; ++second) pass(1 * kj::SECONDS);
  }
  // Does all that can be done without time passing.
  void settle() {
    for (int i = 0; i < 20; i++) io.waitScope.poll();
  }
  void pass(kj::Duration time) {
    settle();
    timer.advanceTo(timer.now() + time);
    settle();
  }
};

}  // namespace talos::machined
