// What an apply does, decided before anything is done. Pure.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "machined/config/config-change.h"
#include "rpc/configuration.capnp.h"

namespace talos::machined {

// What the machine is doing when a document comes.
struct Situation {
  bool maintenance = false;  // it has no config and waits for one
  bool failed = false;       // its boot has failed
  kj::Maybe<config::Config::Reader> running;
  kj::Maybe<kj::String> notDurable;  // why a copy on disk would be gone at the next boot
};

struct Decision {
  rpc::ApplyMode mode;                 // never auto; in maintenance always noReboot
  kj::Vector<config::Change> changes;  // from the config that runs; empty when there is none
  kj::Vector<kj::String> warnings;
};

// FailedPrecondition when it cannot be done as it was asked for, saying why and what would do.
Decision decide(rpc::ApplyMode asked, config::Config::Reader wanted, const Situation& now);

kj::StringPtr nameOf(rpc::ApplyMode mode);  // as users write it: no-reboot

}  // namespace talos::machined
