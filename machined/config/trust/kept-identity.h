// runtime.KeptIdentityController: keeps the API certificate of a node that gets it from trustd,
// with its key, on STATE: after a reboot the node serves this certificate at once and renews it,
// even while no trustd answers or after machine.token has changed.
//
// The controller writes the certificate to the store, as apid would, if apid has not written one
// yet, and only if a CA that the config names has issued it; the config decides whom apid trusts.
// Each later certificate is written to the file when it is in the store. A power cut between the
// two leaves the previous one. The file is mode 0600, whole or missing; a file that cannot be read
// is logged and counts as missing, and the node joins with its token. The file is removed when the
// config has the CA's key.
#pragma once

#include <kj/function.h>

#include "machined/config/controllers/machine-config-reader.h"
#include "machined/process1/uv-loop.h"
#include "machined/resources/controller-runtime.h"

namespace talos::machined {

constexpr kj::StringPtr kKeptIdentityFile = "/system/state/api-certificate"_kj;
constexpr kj::StringPtr kApidOwner = "apid"_kj;

class KeptIdentityController final : public Controller {
 public:
  struct Dependencies {
    UvLoop& uv;
    Store& store;  // the whole store: the record is apid's, and not an output of a controller
    ReadConfig readConfig;
    kj::Function<bool()> isMounted;  // STATE
    kj::StringPtr file = kKeptIdentityFile;
  };
  explicit KeptIdentityController(Dependencies d) : deps(kj::mv(d)) {}

  kj::StringPtr name() const override { return "runtime.KeptIdentityController"; }
  kj::Array<Input> inputs() const override;
  kj::Array<kj::StringPtr> outputs() const override { return nullptr; }
  kj::Promise<void> reconcile(Store& store) override;

 private:
  Dependencies deps;
  bool loaded = false;
  kj::String written;  // the certificate in the file

  kj::Promise<void> load(Store& store);
  kj::Promise<void> keep(Store& store);
};

}  // namespace talos::machined
