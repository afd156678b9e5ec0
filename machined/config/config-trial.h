// A config on trial: it is published, and at the deadline the previous one is published again. The
// disk is never written.
//
// Process 1 holds the trial (held-config.h) before the document is published, and drops it after
// the end. A brain that crashed in between leaves
//
//   a held trial, before its deadline   the next brain publishes the document and continues
//   a held trial, after its deadline    the next brain reverts at once
//   no trial                            the document that is published stays
#pragma once

#include <kj/function.h>
#include <kj/timer.h>

#include "machined/config/config-checks.h"
#include "machined/config/held-config.h"

namespace talos::machined {

class ConfigTrial {
 public:
  struct Dependencies {
    Process1& process1;
    kj::Timer& timer;
    ConfigHost& host;
    ConfigChecks& checks;
    kj::TaskSet& tasks;
    kj::Function<void(KnownConfig)> publish;
    // Resolves when the running apply has ended, which may end or replace the trial; nullptr if
    // none runs.
    kj::Function<kj::Maybe<kj::Promise<void>>()> applying;
  };
  explicit ConfigTrial(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ConfigTrial);

  // Takes the predecessor's trial, without an effect until resume().
  void take() { trial = takeTrial(deps.process1); }
  kj::Promise<void> resume();
  // Publishes the config for `length`. `running` is restored then, or, if a trial is running, the
  // config from before that.
  kj::Promise<void> begin(kj::Duration length, KnownConfig config, kj::Array<char> document,
                          kj::Maybe<const KnownConfig&> running);
  // Ends the trial, if there is one, and publishes nothing.
  kj::Promise<void> end(kj::StringPtr reason);

  bool isRunning() const { return trial != nullptr; }
  kj::Maybe<kj::Duration> revertsIn() const;
  // Returns the config from before the trial, valid until the next change; nullptr if there is no
  // trial.
  kj::Maybe<kj::ArrayPtr<const char>> before() const;
  // Resolves to that config.
  kj::Promise<kj::Maybe<CheckedConfig>> checkBefore();

 private:
  Dependencies deps;
  kj::Maybe<Trial> trial;
  kj::Promise<void> alarm = kj::READY_NOW;  // fires at the end of the trial

  void arm();
  kj::Promise<void> revert();
};

}  // namespace talos::machined
