// runtime.KeptIdentityController: the API certificate of a node that gets it from trustd, kept on
// STATE with its key: after a reboot the node serves it at once and renews it, also while no trustd
// answers, and when machine.token is another by now.
//
// It is put into the store, as apid would, when apid has none yet, and only when it is of a CA that
// the config names; whom apid trusts is what the config says now. Each later one is written to the
// file when it is in the store. A power cut between the two leaves the one before. The file is mode
// 0600, whole or missing; one that cannot be read is logged and counts as missing, and the node
// joins with its token. It is removed when the config has the CA's key.
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
    Store& store;  // the whole one: the record is apid's, and no output of a controller
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
  kj::String written;  // the certificate that is in the file

  kj::Promise<void> load(Store& store);
  kj::Promise<void> keep(Store& store);
};

}  // namespace talos::machined
