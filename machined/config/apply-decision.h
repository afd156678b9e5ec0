// Decides the mode of an apply before anything changes. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/config/config-change.h"
#include "machined/config/node-identity.h"
#include "rpc/configuration.capnp.h"

namespace talos::machined {

// A trial that is still running.
struct RunningTrial {
  config::Config::Reader before;  // the config that is restored when the trial ends
  kj::Duration left;
};

// The state of the machine when a config arrives.
struct Situation {
  bool maintenance = false;  // without a config, waiting for one
  bool failed = false;       // the boot has failed
  kj::Maybe<config::Config::Reader> running;
  kj::Maybe<kj::String> notDurable;  // why the next boot would not find a copy on disk
  uint64_t ephemeralBytes = 0;       // size of the partition EPHEMERAL; 0: unknown
  kj::Maybe<RunningTrial> trial;
  NodeIdentity identity;
};

struct Decision {
  rpc::ApplyMode mode;                 // never auto; in maintenance always noReboot
  kj::Vector<config::Change> changes;  // from the running config; empty without one
  kj::Vector<kj::String> warnings;
  bool confirms = false;  // the config is the one on trial; applying it ends the trial and keeps it
};

// Throws FailedPrecondition, with the reason and an alternative, if the requested mode is not
// possible. During a trial it accepts only another trial, the config on trial (which confirms it)
// and the config from before the trial (which ends it): a change is based on the running config, so
// any other change would make a part of the config on trial permanent.
Decision decide(rpc::ApplyMode requested, config::Config::Reader wanted, const Situation& now);

// Returns true for changes of the keys of volumes, which mode try cannot make.
bool changesKeys(kj::ArrayPtr<const config::Change> changes);

// The activity of the machine when a config arrives.
struct Activity {
  kj::Maybe<kj::StringPtr> applying;  // another config, with this mode
  bool maintenance = false;
  kj::StringPtr sequence;     // the running one, or empty
  bool bootHasSaved = false;  // the sequence is a boot that has written its config
};
// Throws Conflict if the machine cannot take a config now: it applies another one, or runs a
// sequence. Maintenance takes one at any time; a boot that has written its config takes one for the
// next boot.
void requireFree(const Activity& now, rpc::ApplyMode requested);
// Throws Conflict if the change is based on another version than the active one; 0: on any.
void requireVersion(uint64_t ifVersion, uint64_t active);

kj::StringPtr nameOf(rpc::ApplyMode mode);  // the user's spelling: no-reboot

}  // namespace talos::machined
