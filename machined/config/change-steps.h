// The steps 2 to 5 of an apply (config-manager.h): the change is held by process 1, the keys of
// volumes and the copy on disk are changed, and the config is published or the node reboots. Each
// step may be repeated: a new brain finds the held change, and repeats all of them.
#pragma once

#include "machined/config/apply-operation.h"
#include "machined/config/change-trial.h"
#include "machined/config/config-trial.h"

namespace talos::machined {

// Changes the keys of encrypted volumes with the config
// (machined/disk/encryption/luks-key-change.h).
class KeyChanges {
 public:
  using Persist = kj::Function<kj::Promise<void>()>;
  using Step = kj::Function<void(kj::StringPtr step)>;
  virtual ~KeyChanges() noexcept(false) = default;

  // Throws FailedPrecondition if the keys could not be changed; nothing has changed.
  virtual void check(config::Config::Reader wanted, rpc::ApplyMode mode) = 0;
  // Changes keys before and after `persist` writes the copy on disk; with mode no-reboot it changes
  // all of them. `staged` is the config that the next boot would have without this change, if it is
  // neither the running config nor this one. Calls `step` with the progress.
  virtual kj::Promise<void> persist(config::Config::Reader wanted, rpc::ApplyMode mode,
                                    kj::Maybe<config::Config::Reader> staged, Persist persist,
                                    Step step) = 0;
};

class ChangeSteps {
 public:
  struct Dependencies {
    Process1& process1;
    kj::Timer& timer;
    ConfigHost& host;
    ConfigDisk& disk;
    KeyChanges& keys;
    Store& store;
    ConfigChecks& checks;
    ConfigTrial& trial;
    ChangeTrial& changes;
    kj::TaskSet& tasks;
    kj::Function<kj::Maybe<const KnownConfig&>()> running;
    kj::Function<void(KnownConfig)> publish;
  };
  explicit ChangeSteps(Dependencies given) : deps(kj::mv(given)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ChangeSteps);

  // Finishes the change that the predecessor has begun.
  kj::Promise<void> recover();

  // Fulfilled with the number of the operation as soon as it continues without its caller.
  using Operating = kj::Maybe<kj::Own<kj::PromiseFulfiller<uint64_t>>>;
  // Carries out a change, on trial if it has a plan. `number` is the one that the caller chose.
  kj::Promise<void> change(Pending pending, KnownConfig config, uint64_t number,
                           kj::Maybe<ChangeTrial::Plan> plan, Operating operating);

  // Returns the config of the next boot if it differs from the running one.
  kj::Maybe<kj::String> staged();
  // Returns true if the copy on disk is newer than this boot.
  bool isStagedInBoot() const { return stagedInBoot; }

 private:
  Dependencies deps;
  bool stagedInBoot = false;
  ApplyOperation operation{deps.store};

  kj::Promise<kj::Maybe<CheckedConfig>> stagedBefore(const KnownConfig& next);
  kj::Promise<void> carryOut(Pending pending, KnownConfig config, uint64_t number,
                             Operating operating);
  kj::Promise<void> followed(kj::Promise<void> work);
  kj::Promise<void> finish(rpc::ApplyMode mode, KnownConfig config);
};

}  // namespace talos::machined
