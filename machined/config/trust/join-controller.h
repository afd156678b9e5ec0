// secrets.JoinController: secrets/JoinSpecs[api], the request with which apid asks trustd for a
// certificate.
//
// It names the host of the Kubernetes API, cluster.trustd.endpoints, the API servers that
// Kubernetes has (Endpoints) and the control-plane nodes among its members. Only on a machine whose
// config has no key of machine.ca: there ApiCertificates is apid's to write. With a join token it
// has the key of the request, too (join-key.h). Holds nothing else; recomputed from its inputs
// after any crash.
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

// True when the config has no key of machine.ca.
bool asksTrustd(config::Config::Reader config);

// The message of JoinStatuses while a machine that asks trustd has no valid certificate; else none.
kj::Maybe<kj::String> whyNotJoined(Store& store);

}  // namespace talos::machined
