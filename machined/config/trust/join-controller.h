// secrets.JoinController: writes secrets/JoinSpecs[api], the request with which apid gets a
// certificate from trustd.
//
// It names the host of the Kubernetes API, cluster.trustd.endpoints, the API servers that
// Kubernetes has (Endpoints) and the control-plane nodes among its members. It exists only on a
// machine whose config has no key of machine.ca: there apid writes ApiCertificates. With a join
// token it has the key of the request, too (join-key.h). Keeps no other state; the request is
// computed again from its inputs after any crash.
#pragma once

#include "machined/config/controllers/machine-config-reader.h"
#include "machined/config/trust/join-key.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

constexpr kj::StringPtr kJoinId = "api"_kj;

class JoinController final : public Controller {
 public:
  explicit JoinController(ReadConfig readConfig, kj::Maybe<kj::Own<JoinKey>> key = nullptr);

  kj::StringPtr name() const override { return "secrets.JoinController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;

 private:
  ReadConfig readConfig;
  kj::Maybe<kj::Own<JoinKey>> key;

  kj::Promise<pki::Pem> keyFor(Store& store, kj::StringPtr token);
};

// Returns true if the config has no key of machine.ca.
bool asksTrustd(config::Config::Reader config);

// Returns the message of JoinStatuses while a machine that depends on trustd has no valid
// certificate; else nullptr.
kj::Maybe<kj::String> whyNotJoined(Store& store);

}  // namespace talos::machined
