// Compares a config that was applied without a reboot with what the node has made of it, for the
// answer of apply: each part that is not in effect, with the cause.
//
// Only parts whose keys have changed are looked at, all of them at the same time; each has a
// deadline within that of a client. What cannot be found out in time counts as not in effect.
// Changes nothing but kernel settings and the bundle of public CAs, which it applies at once
// instead of at their next turn.
#pragma once

#include <kj/timer.h>

#include "machined/config/config-change.h"
#include "machined/resources/controller-runtime.h"
#include "rpc/config.capnp.h"

namespace talos::machined {

class ConfigEffects {
 public:
  using Texts = kj::Array<kj::String>;
  struct Dependencies {
    kj::Timer& timer;
    Store& store;
    ControllerRuntime& controllers;
    // Applies the kernel settings of the running config. Resolves with those that the kernel does
    // not have.
    kj::Function<kj::Promise<Texts>()> kernel;
    // Makes the bundle of public CAs that the running config wants. Resolves with what is not in
    // it.
    kj::Function<kj::Promise<Texts>()> trustedRoots;
    // Returns the parts of machine.network that the plan of the network leaves out, each with the
    // cause.
    kj::Function<kj::Vector<kj::String>()> networkProblems;
    // Makes the volumes of the running config. Resolves with those that are not in use.
    kj::Function<kj::Promise<Texts>()> volumes;
    // Returns them.
    kj::Function<kj::Vector<kj::String>()> volumeProblems;
    // Returns the volumes of a config that this node will never make.
    kj::Function<kj::Vector<kj::String>(config::Machine::Reader)> impossibleVolumes;
    // Waits until etcd runs with the arguments of the config, at most the duration. Resolves with
    // the reason why it does not; nullptr if it does, or need not run.
    kj::Function<kj::Promise<kj::Maybe<kj::String>>(kj::Duration)> etcd;
    // Returns true if a change of machine.install.image needs no other installation. The argument
    // is true if the config already has the change.
    kj::Function<bool(bool)> imageActs;
  };
  explicit ConfigEffects(Dependencies deps) : deps(kj::mv(deps)) {}
  KJ_DISALLOW_COPY_AND_MOVE(ConfigEffects);

  // Resolves with "KEY: CAUSE" for each part of these changes that is not in effect.
  kj::Promise<Texts> missing(kj::ArrayPtr<const config::Change> changes);
  // Returns those that are known before the changes are applied; `wanted` has them.
  Texts foreseen(kj::ArrayPtr<const config::Change> changes, config::Machine::Reader wanted);
  // Returns "KEY: CAUSE" for each part of the running config that is not in effect: volumes, what
  // the plan of the network leaves out and networkd does not report, each setting that a link's
  // driver does not have, the address of etcd as long as the members have another one, and each
  // setting that the Node object does not have.
  Texts leftOut();

 private:
  Dependencies deps;

  Texts later(kj::ArrayPtr<const config::Change> changes, bool applied);
  kj::Promise<Texts> kernelSettings(kj::StringPtr key);
  kj::Promise<Texts> trustedRoots();
  kj::Promise<Texts> volumes();
  kj::Promise<Texts> network();
  kj::Promise<Texts> nodeObject(kj::Vector<kj::StringPtr> keys);
  kj::Promise<Texts> etcd(bool advertised, bool others);
  kj::Promise<kj::Maybe<kj::String>> peerUrl(kj::TimePoint until);
  kj::Promise<Texts> kubePrism();
};

}  // namespace talos::machined
