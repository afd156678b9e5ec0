// For tests: the keeper on a model of process 1, of the disk and of the sources.
#pragma once

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <kj/encoding.h>

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

// A worker's config for mode cloud, told from others by its host name.
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

// What outlives the brain: its own copy of a file.
struct ModelDisk final : public ConfigDisk {
  kj::Maybe<kj::String> content;
  bool broken = false, unreadable = false;
  kj::Maybe<kj::String> volatileBecause, lockedBecause;
  unsigned writes = 0, removals = 0;
  kj::Maybe<kj::Promise<void>> gate;  // the next write is done when this resolves

  kj::StringPtr name() const override { return "config.yaml"; }
  kj::Maybe<kj::String> lockedProblem() override {
    return lockedBecause.map([](kj::String& why) { return kj::str(why); });
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
    content = nullptr;
    return kj::READY_NOW;
  }
  kj::Maybe<kj::String> whyNotDurable() override {
    return volatileBecause.map([](kj::String& why) { return kj::str(why); });
  }
};

struct ModelSources final : public ConfigSources {
  // What the next searches give, in turn; the last one stays. "": none; "!…": an error.
  kj::Vector<kj::String> answers;
  unsigned searches = 0;
  kj::Maybe<kj::Promise<void>> gate;

  kj::Promise<kj::Maybe<FoundConfig>> find(kj::Duration) override {
    auto& answer = answers[kj::min(searches++, answers.size() - 1)];
    kj::Promise<void> first = kj::READY_NOW;
    KJ_IF_MAYBE (g, gate) {
      first = kj::mv(*g);
      gate = nullptr;
    }
    return first.then([text = kj::str(answer)]() mutable -> kj::Maybe<FoundConfig> {
      if (text.size() == 0) return nullptr;
      if (text[0] == '!') fail(ErrorKind::kUnavailable, text.slice(1));
      auto copy = kj::heapArray(text.asArray().slice(0, text.size()));
      return FoundConfig{kj::mv(copy), kj::str("http://source/")};
    });
  }
};

// A whole brain as far as configs go; destroy it, and that is its crash.
struct ModelBrain {
  FakeProcess1 process1;
  Store store;
  MachineConfigReader reader;
  DirectForeign foreign;
  bool failed;
  kj::String sequence = kj::str();
  unsigned intended = 0, reboots = 0, changes = 0;
  kj::Vector<kj::String> said, trials;
  std::string persisted;     // how
  std::string stagedBefore;  // the one that the next boot would have had, when keys were changed
  bool keysFail = false, keysWrong = false;
  kj::Maybe<kj::ForkedPromise<void>> keysGate;  // deriving one takes so long
  ConfigKeeper keeper;

  ModelBrain(FakeMachine& machine, const Registry& registry, const kj::Clock& clock,
             ModelDisk& disk, ModelSources& sources, kj::Timer& timer, config::Mode mode,
             bool startsFailed, kj::WaitScope& scope)
      : process1(machine),
        store(registry, clock),
        failed(startsFailed),
        keeper(ConfigKeeper::Dependencies{
            mode, process1, store, reader, sources, disk, foreign, timer,
            [this](kj::StringPtr line, Tone) { said.add(kj::str(line)); },
            [this]() { return kj::str(sequence); }, [this]() { return failed; },
            [this]() -> kj::Promise<void> {
              ++intended;
              return kj::READY_NOW;
            },
            [this]() { ++reboots; }, [this]() { ++changes; },
            [this](kj::StringPtr what) { trials.add(kj::str(what)); },
            [this](config::Config::Reader, ApplyMode mode, kj::Maybe<config::Config::Reader> staged,
                   ConfigKeeper::Persist persist, ConfigKeeper::Step step) -> kj::Promise<void> {
              stagedBefore = staged
                                 .map([](config::Config::Reader config) {
                                   return config.getMachine().getNetwork().getHostname().cStr();
                                 })
                                 .orDefault("");
              if (keysFail) return error(ErrorKind::kFailedPrecondition, "no key opens it");
              step("adding a key");
              kj::Promise<void> first = kj::READY_NOW;
              KJ_IF_MAYBE (gate, keysGate) first = gate->addBranch();
              return first.then([this, mode, persist = kj::mv(persist)]() mutable {
                persisted += nameOf(mode).cStr();
                return persist().attach(kj::mv(persist));
              });
            },
            [this](config::Config::Reader, ApplyMode) {
              if (keysWrong) fail(ErrorKind::kFailedPrecondition, "no key can be made of nodeID");
            }}) {
    store.attachJournal(process1).wait(scope);
    keeper.recover().wait(scope);
  }

  bool saidThat(const char* part) const {
    for (auto& line : said) {
      if (std::string(line.cStr()).find(part) != std::string::npos) return true;
    }
    return false;
  }
};

inline bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// Nobody reads large documents until it is let go.
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

struct KeeperTest : public testing::Test {
  ~KeeperTest() noexcept override {}

  kj::AsyncIoContext io = kj::setupAsyncIo();
  UvLoop uv{io.unixEventPort, io.provider->getTimer()};
  kj::TimerImpl timer{kj::origin<kj::TimePoint>()};
  Registry registry;
  TestClock clock;
  FakeMachine machine;
  ModelDisk disk;
  ModelSources sources;
  config::Mode mode = config::Mode::kCloud;
  kj::Maybe<kj::Own<ModelBrain>> current;
  bool startsFailed = false;  // what the next brain learns of the boot

  // From here on it is one that has never run, and has an empty disk.
  void anotherMachine() {
    machine.drop();
    disk.content = nullptr;
  }
  ModelBrain& start() {
    current = nullptr;
    auto made = kj::heap<ModelBrain>(machine, registry, clock, disk, sources, timer, mode,
                                     startsFailed, io.waitScope);
    return *current.emplace(kj::mv(made));
  }
  ModelBrain& brain() { return *KJ_ASSERT_NONNULL(current); }
  // One whose boot is over, with this config running and on disk.
  ModelBrain& booted(kj::StringPtr text) {
    sources.answers.clear();
    sources.answers.add(kj::str(text));
    auto& b = start();
    load();
    b.keeper.save().wait(io.waitScope);
    return b;
  }

  void load() {
    auto loading = brain().keeper.load();
    if (loading.poll(io.waitScope)) return loading.wait(io.waitScope);
    KJ_FAIL_REQUIRE("no config was taken", brain().said);
  }

  // A brain that gets no config at first: what it waits with in maintenance mode.
  kj::Promise<void> waitForAConfig() {
    auto loading = start().keeper.load();
    KJ_REQUIRE(!loading.poll(io.waitScope) && brain().keeper.inMaintenance(), brain().said);
    return loading;
  }

  kj::Promise<ConfigKeeper::Outcome> apply(
      kj::StringPtr text, ApplyMode mode, bool dryRun = false,
      ConfigKeeper::Caller caller = ConfigKeeper::Caller::kAdmin) {
    return brain().keeper.apply({.document = kj::heapArray(text.asArray().slice(0, text.size())),
                                 .mode = mode,
                                 .dryRun = dryRun,
                                 .caller = caller});
  }
  kj::Promise<ConfigKeeper::Outcome> tryOut(kj::StringPtr text,
                                            kj::Duration length = 1 * kj::MINUTES) {
    return brain().keeper.apply({.document = kj::heapArray(text.asArray().slice(0, text.size())),
                                 .mode = ApplyMode::TRY,
                                 .trial = length});
  }
  std::string refusal(kj::Promise<ConfigKeeper::Outcome> promise) {
    return refused(promise.ignoreResult());
  }
  std::string refused(kj::Promise<void> promise) {
    std::string text = "nothing was refused";
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { promise.wait(io.waitScope); })) {
      text = std::string(nameOf(kindOf(*e)).cStr()) + ": " + messageOf(*e).cStr();
    }
    return text;
  }

  // The host name of a document, or "-".
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
  // "running/disk", "*" when something is pending, "?" when something is on trial.
  std::string state() {
    return running() + "/" + onDisk() + (machine.holds(kPendingName) ? "*" : "") +
           (machine.holds(kTrialName) ? "?" : "");
  }
  // All that can be done without time passing.
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
