// secrets.JoinController: secrets/JoinSpecs[api], what apid asks trustd with.
//
// Only on a machine whose config has no key of machine.ca: there ApiCertificates is apid's to
// write. Holds nothing; recomputed from the config and the machine's names after any crash.
#pragma once

#include "machined/config/controllers/machine-config-reader.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

constexpr kj::StringPtr kJoinId = "api"_kj;

class JoinController final : public Controller {
 public:
  using ReadConfig = kj::Function<kj::Maybe<MachineConfigView>(Store&)>;
  explicit JoinController(ReadConfig readConfig);

  kj::StringPtr name() const override { return "secrets.JoinController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  ReadConfig readConfig;
};

// Whether this machine's own config makes it ask trustd.
bool asksTrustd(const MachineConfigView& config);

// Why the API of a machine that asks trustd has no certificate that is valid: what JoinStatuses
// says. None when it has one, and on machines that ask nobody.
kj::Maybe<kj::String> whyNotJoined(Store& store);

}  // namespace talos::machined
