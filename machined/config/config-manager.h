// Which machine config runs, which one is on disk, and every change of either.
//
// The config that runs is the resource MachineConfigs/v1alpha1: controllers derive everything from
// it. It gets there by load() (at boot: the copy on disk, else the sources) or by apply(). A
// machine that finds none is in maintenance: it waits for an apply, and, if a source is named that
// gave nothing good, goes on asking it; the first good document ends that. From then on, and before
// anybody can see the document, callers without a certificate are refused (inMaintenance()). A copy
// on disk that is damaged or cannot be read is the end of the boot, with neither source nor
// maintenance: whoever can damage it must not be able to replace it. One that is locked away on an
// encrypted disk gives way to a source, which has the keys, until that has opened it
// (preferKept()), but not to maintenance. A machine whose boot has failed is never in maintenance;
// if it has no config, it tells anybody why (tellsAnybody()).
//
// apply() is all or nothing, and whoever asked is told what became true:
//   1. the document is checked whole, by a confined process of its own (foreign.h), the mode
//      decided (apply-decision.h): nothing has changed;
//   2. process 1 holds the document and the mode (pending-config.h);
//   3. the copy on disk is replaced in one rename, or removed (persist: false); the keys of volumes
//      are changed around that;
//   4. no-reboot: the document is published; reboot: process 1 holds that the node shuts down;
//   5. process 1 drops what it held.
// A change of a volume's keys takes as long as it takes to derive keys: who asked for that is
// answered after 2, and follows the rest as an operation (apply-operation.h), which a new brain
// goes on with. A crash of the brain before 2 is done: nothing has happened. After it: the next
// brain finds the document (recover()) and does 3 to 5, again where they had been done, which
// changes nothing. A failure at 3 ends it there: the old copy is whole, the old config runs. A
// crash of the machine leaves the one copy or the other. The caller may go away at any time; the
// work is owned here, and one is done at a time.
//
// Mode try has steps of its own: process 1 holds the document, the previous one and the deadline
// (config-trial.h), then the document is published; the disk is never written. At the deadline the
// previous one is published and process 1 drops the trial; a brain that starts later does that at
// once, one that starts earlier continues the trial. A change with mode no-reboot that succeeds
// ends the trial for good, whichever brain finishes it; one that fails, is staged or reboots does
// not.
//
// Maintenance that has begun (its certificate is in the store) continues at once after a crash of
// the brain: the fingerprint that an operator has read stays valid.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "machined/config/apply-decision.h"
#include "machined/config/apply-operation.h"
#include "machined/config/config-sources.h"
#include "machined/config/config-trial.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/config/pending-config.h"
#include "machined/config/state-disk.h"
#include "machined/confined/parser-client/foreign-bytes.h"
#include "machined/logs/node-console.h"
#include "machined/process1/uv-loop.h"

namespace talos::machined {

class ConfigKeeper final : private kj::TaskSet::ErrorHandler {
 public:
  using Persist = kj::Function<kj::Promise<void>()>;
  using Step = kj::Function<void(kj::StringPtr step)>;
  struct Dependencies {
    config::Mode mode;
    Process1& process1;
    Store& store;
    MachineConfigReader& reader;
    ConfigSources& sources;
    ConfigDisk& disk;
    ForeignBytes& foreign;
    kj::Timer& timer;
    kj::Function<void(kj::StringPtr line, Tone tone)> say;
    kj::Function<kj::String()> sequence;  // the one that runs, or empty
    kj::ConstFunction<bool()> failed;     // the boot has failed; a new brain knows from the start
    // Process 1 is told that the machine goes down; then the machine does, so late that the answer
    // to who asked for it gets out.
    kj::Function<kj::Promise<void>()> intendReboot;
    kj::Function<void()> reboot;
    // Maintenance begins or ends, or its reasons are others.
    kj::Function<void()> changed;
    // A trial has begun, goes on, or is over, in words; revertsIn() is what holds now.
    kj::Function<void(kj::StringPtr what)> trialChanged;
    // Does what has to be done of a change before and after the copy on disk is written by
    // `persist`, with mode no-reboot all of it (machined/disk/encryption/luks-key-change.h).
    // `staged` is what the next boot would have until then, when it is neither the config that runs
    // nor this one. `step` hears how far it is.
    kj::Function<kj::Promise<void>(config::Config::Reader wanted, rpc::ApplyMode mode,
                                   kj::Maybe<config::Config::Reader> staged, Persist persist,
                                   Step step)>
        persisting = [](config::Config::Reader, rpc::ApplyMode, kj::Maybe<config::Config::Reader>,
                        Persist persist, Step) { return persist().attach(kj::mv(persist)); };
    // Throws FailedPrecondition, before anything has changed, when that could not be done.
    kj::Function<void(config::Config::Reader wanted, rpc::ApplyMode mode)> checkVolumes =
        [](config::Config::Reader, rpc::ApplyMode) {};
  };
  explicit ConfigKeeper(Dependencies deps);
  ~ConfigKeeper() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ConfigKeeper);

  // Once, when the store has its journal and before the controllers run: has the document read that
  // is published, and takes up what the predecessor left. Rejects when no process can be had for
  // that: better no brain yet than one that takes the machine for one without a config. After a
  // change that it had begun and that ends in a reboot, intendReboot() has been called.
  kj::Promise<void> recover();

  // The task loadConfig: resolves when a good config is published, however long that takes. Throws
  // FailedPrecondition, naming the copy on disk, when that cannot be used.
  kj::Promise<void> load();
  // When the disk was opened with the keys of a source's config: the copy on it counts, as if it
  // had been there before, and is published in its place; with persist: false the source's stays.
  // Throws as load() does: a copy that cannot be used is not overwritten. Does nothing when the
  // copy runs already.
  kj::Promise<void> preferKept();
  // The tasks validateConfig and saveConfig.
  kj::Promise<void> validate();
  kj::Promise<void> save();

  enum class Caller { kAdmin, kVisitor };  // a visitor showed no certificate
  struct Request {
    kj::Array<char> document;
    rpc::ApplyMode mode = rpc::ApplyMode::AUTO;
    bool dryRun = false;
    Caller caller = Caller::kAdmin;
    kj::Duration trial = 1 * kj::MINUTES;
    uint64_t ifVersion = 0;
  };
  struct Outcome {
    rpc::ApplyMode mode;
    kj::Vector<kj::String> warnings;
    kj::Vector<config::Change> changes;
    kj::String diff;
    kj::Maybe<KnownConfig> wanted = nullptr;  // of a dry run
    uint64_t operation = 0;                   // not 0: it goes on (apply-operation.h)
  };
  // Rules and errors: rpc/configuration.capnp.
  kj::Promise<Outcome> apply(Request request);

  // How long it is until the config of before comes back; none when none is on trial.
  kj::Maybe<kj::Duration> revertsIn() const;

  // The machine has no config and waits for one.
  bool inMaintenance() const;
  // It has no config, and says how it is to callers without a certificate: in maintenance, or after
  // a boot that failed. Only the former accepts anything from them.
  bool tellsAnybody() const;
  // Throws Unauthenticated, saying what the machine is instead.
  void requireMaintenance() const;
  kj::ArrayPtr<const kj::String> maintenanceReasons() const;

 private:
  struct Maintenance {
    kj::Vector<kj::String> reasons;
    kj::Own<kj::PromiseFulfiller<void>> end;
    kj::ForkedPromise<void> over;
  };
  struct Work {
    kj::String what;
    kj::ForkedPromise<void> done;
  };
  struct Checked {
    KnownConfig config;
    kj::Vector<kj::String> warnings, errors;  // as they are printed
  };
  Dependencies deps;
  kj::Maybe<Maintenance> maintenance;
  kj::Maybe<Work> work;
  kj::Vector<kj::String> inheritedErrors;  // of the published document, if the predecessor's
  unsigned checking = 0;  // documents of visitors, and large ones, that are looked at
  kj::Maybe<Trial> trial;
  kj::Promise<void> alarm = kj::READY_NOW;  // of its end
  ApplyOperation operation{deps.store};
  kj::TaskSet tasks;

  kj::Promise<Checked> check(kj::Array<char> text, kj::String file);
  kj::Promise<Checked> checkAgain(kj::ArrayPtr<const char> text);

  enum class Kept { kTaken, kAbsent, kPassedOver };  // over: must not be kept
  kj::Promise<Kept> takeKept();
  kj::Promise<void> knowPublished();
  kj::Promise<bool> search(kj::Vector<kj::String>& reasons);
  kj::Promise<void> searchOn(bool atOnce);
  void enterMaintenance(kj::Vector<kj::String> reasons);
  void setReasons(kj::Vector<kj::String> reasons);
  void publish(KnownConfig config);

  kj::Maybe<kj::String> stagedText();
  kj::Promise<kj::Maybe<Checked>> stagedBefore(const KnownConfig& next);
  Situation situation();
  void checkFree(Caller caller);
  void checkVersion(uint64_t ifVersion);
  kj::Promise<void> beginTrial(kj::Duration length, KnownConfig config, kj::Array<char> document);
  kj::Promise<void> takeUpTrial();
  void arm();
  kj::Promise<void> revert();
  kj::Promise<void> endTrial(kj::StringPtr why);
  kj::Promise<void> carryOut(Pending pending, KnownConfig config,
                             kj::Maybe<kj::Own<kj::PromiseFulfiller<uint64_t>>> operating);
  kj::Promise<void> toDisk(const KnownConfig& config);
  kj::Promise<void> finish(rpc::ApplyMode mode, KnownConfig config);
  uint64_t publishedVersion();
  kj::Promise<kj::String> difference(const KnownConfig& wanted);
  kj::Promise<Outcome> begin(Outcome outcome, KnownConfig config, Request request);
  kj::Promise<kj::Maybe<kj::Exception>> ended(kj::Promise<void> work);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
