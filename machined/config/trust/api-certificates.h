// secrets.ApiController: writes secrets/ApiCertificates[api], the certificates of apid as a server
// and as a client.
//
// A node whose config has the key of machine.ca issues them itself. They are renewed only when
// their inputs (CA, names, addresses) changed or half of their lifetime has passed, and survive
// restarts of the brain. Without a config (in maintenance mode, or when the boot has failed) there
// is one self-signed certificate, which any client may meet; its key stays the same until the node
// has a config, over restarts of the brain too, because an operator compares its fingerprint. Key
// operations run in the thread pool. A node without the key gets its certificate from trustd: apid
// requests and writes it (join-controller.h), and this controller writes nothing; once the config
// has the key, it replaces that record.
#pragma once

#include <kj/timer.h>

#include "common/tls/authorities.h"
#include "common/tls/node-certificate.h"
#include "machined/config/controllers/machine-config-reader.h"
#include "machined/config/trust/certificate-renewal.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::machined {

// Decides whether the certificates of the API must be renewed. Pure.

// Returns the reason to renew the stored certificates; nullptr if they stay.
kj::Maybe<kj::StringPtr> whyIssue(rpc::ApiCertificateSpec::Reader stored,
                                  const pki::Authorities& authorities, const NodeNames& names,
                                  kj::Duration lifetime, kj::Date now);

// Returns the time when half of the lifetime of these certificates has passed.
kj::Date halfLife(rpc::ApiCertificateSpec::Reader stored);

// Returns true if the temporary certificate of maintenance mode need not be renewed.
bool isGoodForMaintenance(rpc::ApiCertificateSpec::Reader stored, const NodeNames& names,
                          kj::Date now);
kj::Date maintenanceHalfLife(rpc::ApiCertificateSpec::Reader stored);

class ApiController final : public Controller {
 public:
  ApiController(
      UvLoop& uv, kj::Timer& timer, const kj::Clock& clock, ReadConfig readConfig,
      kj::Function<bool()> showsStateToAnybody = [] { return false; });

  kj::StringPtr name() const override { return "secrets.ApiController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override;
  kj::Promise<void> reconcile(Store& store) override;
  void wakeBy(kj::Function<void()> function) override { renewal.wakeBy(kj::mv(function)); }

 private:
  UvLoop& uv;
  const kj::Clock& clock;
  ReadConfig readConfig;
  kj::Function<bool()> showsStateToAnybody;  // changes must poke this controller
  RenewalTimer renewal;

  kj::Promise<void> maintain(Store& store);
  kj::Promise<void> renew(Store& store, config::Config::Reader config, NodeNames names);
};

}  // namespace talos::machined
