// k8s.SeccompProfilesController: writes machine.seccompProfiles to the folder of the kubelet's
// seccomp profiles, and removes those that the config has no longer, at each change of the config.
// It removes only what it has written, by the note beside the folder: users put files there as
// well, with machine.files or a DaemonSet. A pod has the profile NAME as localhostProfile:
// profiles/NAME; a pod that runs keeps the filter with which it was started.
//
// The folder is on EPHEMERAL, so the files are written from the first start of the service kubelet
// on. Each is replaced as a whole: after a crash the next run does the rest. A profile in which the
// checks of the config have found a mistake is left out.
#pragma once

#include "machined/config/controllers/controller-dependencies.h"

namespace talos::machined {

constexpr kj::StringPtr kSeccompProfiles = "/var/lib/kubelet/seccomp/profiles"_kj;

class SeccompProfilesController final : public Controller {
 public:
  struct Dependencies {
    // Runs blocking work on the thread pool.
    kj::Function<kj::Promise<void>(kj::Function<void()> work)> blocking;
    kj::Function<kj::Maybe<config::Config::Reader>(Store&)> readConfig;
    kj::StringPtr folder = kSeccompProfiles;
  };
  explicit SeccompProfilesController(Dependencies deps) : deps(kj::mv(deps)) {}

  kj::StringPtr name() const override { return "k8s.SeccompProfilesController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Dependencies deps;
};

}  // namespace talos::machined
