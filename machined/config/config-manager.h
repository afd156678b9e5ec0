// Manages the machine config: the running one, the one on disk, and every change of either.
//
// The running config is the resource MachineConfigs/v1alpha1: controllers derive everything from
// it. It is published by load() (at boot: the copy on disk, else the sources) or by apply(). A
// machine that finds no config is in maintenance: it waits for an apply, and, if a named source has
// failed, keeps retrying that source; the first valid document ends maintenance. An unknown
// platform is an alarm at each boot; a machine without a copy on disk then uses no source at all.
// From the end of maintenance on, and before the document becomes visible, callers without a
// certificate are refused (inMaintenance()).
//
// A copy on disk that is damaged or cannot be read fails the boot, with neither source nor
// maintenance: an attacker who can damage the copy must not be able to replace it. A copy on a
// locked encrypted disk gives way to a source, which has the keys, until the keys have opened the
// disk (preferKept()), but not to maintenance. A machine whose boot has failed is never in
// maintenance; if it has no config, it shows its state to any caller (showsStateToAnybody()).
//
// apply() is all or nothing, and its caller gets the outcome:
//   1. a separate confined process checks the whole document (foreign-bytes.h), and the mode is
//      decided (apply-decision.h): nothing has changed;
//   2. process 1 holds the document and the mode (held-config.h);
//   3. the copy on disk is replaced in one rename, or removed (persist: false); the keys of volumes
//      are changed around that;
//   4. no-reboot: the document is published; reboot: process 1 holds that the node shuts down;
//   5. process 1 drops the document; in mode no-reboot the caller does not wait for its reply.
// A change of a volume's keys takes as long as deriving keys takes: its caller is answered after 2,
// and follows the rest as an operation (apply-operation.h), which a new brain continues. In modes
// reboot and staged only a caller that chose the operation's number is answered early. If the brain
// crashes before 2 is done, nothing has happened. If it crashes later, the next brain finds
// the document (recover()) and does 3 to 5; repeating a finished step changes nothing. A failure at
// 3 ends the apply: the old copy is whole, and the old config runs. A crash of the machine leaves
// either the old or the new copy. The caller may disconnect at any time; the config manager owns
// the work and runs one apply at a time.
//
// Mode try has its own steps, and never writes the disk (config-trial.h). During a trial only the
// config on trial and the previous one can be applied (apply-decision.h). With mode no-reboot this
// ends the trial for good, whichever brain finishes it; an apply that fails, is staged or reboots
// does not.
//
// A change in another mode is on trial, too: if the node does not do with it what it did before,
// the last good config comes back (change-trial.h). The record of the trial is written before 2.
// During such a trial a change that cannot be undone waits for the end of a good one, or else is
// refused.
//
// The parts: config-checks.h (documents in confined processes), change-steps.h (2 to 5),
// config-trial.h, change-trial.h, apply-decision.h (pure), apply-operation.h, state-disk.h (the
// copy on disk), held-config.h (what process 1 holds).
//
// A maintenance that has begun (its certificate is in the store) continues at once after a crash of
// the brain: the fingerprint that an operator has read stays valid.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include "machined/config/apply-decision.h"
#include "machined/config/change-steps.h"
#include "machined/config/config-checks.h"
#include "machined/config/config-sources.h"
#include "machined/config/config-trial.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/config/state-disk.h"
#include "machined/process1/uv-loop.h"
#include "machined/system/user-files.h"

namespace talos::machined {

class ConfigManager final : private kj::TaskSet::ErrorHandler {
 public:
  struct Dependencies {
    config::Mode mode;
    Process1& process1;
    Store& store;
    MachineConfigReader& reader;
    ConfigSources& sources;
    ConfigDisk& disk;
    ConfigDisk& trialRecords;  // the record of a change on trial
    ForeignBytes& foreign;
    kj::Timer& timer;
    ConfigHost& host;
    KeyChanges& keys;
    // Returns what the config names and this system lacks.
    kj::Function<kj::Promise<MissingFromImage>(config::Config::Reader)> missing =
        [](config::Config::Reader) -> kj::Promise<MissingFromImage> { return MissingFromImage(); };
  };
  explicit ConfigManager(Dependencies given);
  ~ConfigManager() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ConfigManager);

  // Reads the published document and finishes an interrupted change of the predecessor. Called
  // once, when the store has its journal and before the controllers run. Rejects if no process can
  // be started for reading: no brain is better than a brain that believes that the machine has no
  // config. After an interrupted change that ends in a reboot, intendReboot() has been called.
  kj::Promise<void> recover();

  // Runs the task loadConfig: resolves when a valid config is published, however long that takes.
  // Throws FailedPrecondition, naming the copy on disk, if the copy cannot be used.
  kj::Promise<void> load();
  // Called when the disk was opened with the keys of a source's config: publishes the copy on the
  // disk instead, as if it had been readable before; with persist: false the source's config stays.
  // Throws as load() does: a copy that cannot be used is not overwritten. Does nothing if the copy
  // runs already.
  kj::Promise<void> preferKept();
  // Run the tasks validateConfig and saveConfig.
  kj::Promise<void> validate();
  kj::Promise<void> save();
  // Runs the task clearConfigSource: removes the config from a source that every process of the
  // machine can read, after the copy on disk exists, so that the next boot no longer needs the
  // source. Runs at each boot, because a machine may have crashed in between, and a hypervisor may
  // restore the old value. With persist: false the source stays, and a message says so. Never fails
  // the boot.
  kj::Promise<void> clearSource();

  enum class Caller { kAdmin, kVisitor };  // a visitor has shown no certificate
  struct Request {
    kj::Array<char> document;
    rpc::ApplyMode mode = rpc::ApplyMode::AUTO;
    bool dryRun = false;
    Caller caller = Caller::kAdmin;
    kj::Duration trial = 1 * kj::MINUTES;
    uint64_t ifVersion = 0;
    uint64_t operation = 0;                   // number that the caller chose; 0: none
    kj::Duration changeTrial = kChangeTrial;  // modes other than try
    bool noTrial = false;
    bool callsAgain = false;  // the client calls the node after the answer
  };
  struct Outcome {
    rpc::ApplyMode mode;
    kj::Vector<kj::String> warnings;
    kj::Vector<config::Change> changes;
    kj::String diff;
    kj::Maybe<KnownConfig> wanted = nullptr;        // the config of a dry run
    uint64_t operation = 0;                         // not 0: continues as this operation
    bool confirms = false;                          // the config is the one that was on trial
    kj::Maybe<kj::Duration> changeTrial = nullptr;  // the change is on trial for this time
    kj::Array<kj::String> trialDuties = nullptr;    // what the node has to do then
  };
  // Applies a config; rpc/configuration.capnp has the rules and errors.
  kj::Promise<Outcome> apply(Request request);

  // Returns the time until the previous config is active again; nullptr if no config is on trial.
  kj::Maybe<kj::Duration> revertsIn() const { return trial.revertsIn(); }

  ChangeTrial& changeTrial() { return changes; }

  // Returns true if the machine has no config and waits for one.
  bool inMaintenance() const;
  // Returns true if the machine has no config and shows its state to callers without a certificate:
  // in maintenance, or after a failed boot. Only in maintenance it accepts a config from them.
  bool showsStateToAnybody() const;
  // Throws Unauthenticated with the state of the machine unless it is in maintenance.
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
  Dependencies deps;
  kj::Maybe<Maintenance> maintenance;
  kj::Maybe<Work> work;
  kj::Vector<kj::String> inheritedErrors;  // errors of a document that the predecessor published
  ConfigChecks checks;
  ConfigTrial trial;
  ChangeTrial changes;
  ChangeSteps steps;
  kj::TaskSet tasks;

  enum class Kept { kTaken, kAbsent, kPassedOver };  // kPassedOver: persist is false
  kj::Promise<Kept> takeKept();
  kj::Promise<void> knowPublished();
  kj::Promise<bool> search(kj::Vector<kj::String>& reasons);
  kj::Promise<void> searchOn(bool atOnce);
  void enterMaintenance(kj::Vector<kj::String> reasons);
  void setReasons(kj::Vector<kj::String> reasons);
  void publish(KnownConfig config);

  void warnOfStaged(rpc::ApplyMode mode, kj::Vector<kj::String>& warnings);
  Situation situation();
  void checkFree(Caller caller, rpc::ApplyMode mode);
  kj::Promise<void> restore(rpc::ApplyMode mode, KnownConfig config);
  kj::Maybe<ChangeTrial::Plan> planOf(Outcome& outcome, const KnownConfig& wanted,
                                      const Request& request, kj::Maybe<const KnownConfig&> before,
                                      kj::Maybe<kj::Vector<kj::String>> duties);
  kj::ForkedPromise<void> occupy(rpc::ApplyMode mode, kj::Promise<void> doing);
  kj::Promise<Outcome> begin(Outcome outcome, KnownConfig config, Request request,
                             kj::Maybe<ChangeTrial::Plan> plan);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
