// secrets.ApiController: secrets/ApiCertificates[api], what apid serves and dials with.
//
// Issued here on a machine whose config has the key of machine.ca. New ones are made only when what
// they are made of has changed (authority, names, addresses) or half of their life is over;
// otherwise they stay, over restarts of the brain too. In maintenance mode there is one that the
// machine signs itself, which anybody may be served by; its key is the same until the machine
// leaves that mode, over restarts of the brain too, because an operator compares its fingerprint.
// The key operations run in the thread pool. A machine without that key gets its certificate from
// trustd: apid asks for it and writes it here (join-controller.h), and this controller writes nothing.
#pragma once

#include <kj/timer.h>

#include "machined/controllers/api-names.h"
#include "machined/controllers/machine-config-reader.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

class ApiController final : public Controller {
 public:
  using ReadConfig = kj::Function<kj::Maybe<MachineConfigView>(Store&)>;

  ApiController(
      UvLoop& uv, kj::Timer& timer, const kj::Clock& clock,
      ReadConfig readConfig = storedMachineConfig,
      kj::Function<bool()> inMaintenance = [] { return false; });

  kj::StringPtr name() const override { return "secrets.ApiController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;
  void wakeBy(kj::Function<void()> function) override { wake = kj::mv(function); }

 private:
  UvLoop& uv;
  kj::Timer& timer;
  const kj::Clock& clock;
  ReadConfig readConfig;
  kj::Function<bool()> inMaintenance;  // whoever changes it pokes this controller
  kj::Function<void()> wake = [] {};
  kj::Promise<void> renewal = nullptr;

  kj::Promise<void> maintain(Store& store);
  kj::Promise<void> renew(Store& store, MachineConfigView config, NodeNames names);
  void scheduleRenewal(kj::Date due);
};

}  // namespace talos::machined
