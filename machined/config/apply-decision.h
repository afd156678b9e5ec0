// Decides the mode of an apply before anything changes. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/config/config-change.h"
#include "machined/config/node-identity.h"
#include "rpc/configuration.capnp.h"

namespace talos::machined {

// A trial that has not ended.
struct RunningTrial {
  config::Config::Reader before;  // the config that its end brings back
  kj::Duration left;
};

// The state of the machine when a document arrives.
struct Situation {
  bool maintenance = false;  // without a config, waiting for one
  bool failed = false;       // the boot has failed
  kj::Maybe<config::Config::Reader> running;
  kj::Maybe<kj::String> notDurable;  // why a copy on disk would be gone at the next boot
  kj::Maybe<RunningTrial> trial;
  NodeIdentity identity;
};

struct Decision {
  rpc::ApplyMode mode;                 // never auto; in maintenance always noReboot
  kj::Vector<config::Change> changes;  // from the running config; empty without one
  kj::Vector<kj::String> warnings;
  bool confirms = false;  // the config is the one on trial, and stays
};

// FailedPrecondition when the requested mode is not possible, with the reason and an alternative.
// During a trial that is each change but another trial, the config on trial itself, which confirms
// it, and the one from before, which ends it: a change is made of the running config, so anything
// else would keep a part of what is on trial for good.
Decision decide(rpc::ApplyMode asked, config::Config::Reader wanted, const Situation& now);

kj::StringPtr nameOf(rpc::ApplyMode mode);  // as users write it: no-reboot

}  // namespace talos::machined
