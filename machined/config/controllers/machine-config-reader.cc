#include "machined/config/controllers/machine-config-reader.h"

#include "common/base/error.h"
#include "common/wire/roles.h"

namespace talos::machined {

rpc::MachineType machineTypeOf(config::Config::Reader config) {
  switch (config.getMachine().getType()) {
    case config::MachineType::INIT:
      return rpc::MachineType::INIT;
    case config::MachineType::CONTROLPLANE:
      return rpc::MachineType::CONTROLPLANE;
    case config::MachineType::WORKER:
      return rpc::MachineType::JOIN;
  }
  return rpc::MachineType::UNKNOWN;
}

kj::StringPtr roleName(config::ApiRole role) {
  switch (role) {
    case config::ApiRole::ADMIN:
      return kRoleAdmin;
    case config::ApiRole::OPERATOR:
      return kRoleOperator;
    case config::ApiRole::READER:
      return kRoleReader;
    case config::ApiRole::ETCD_BACKUP:
      return kRoleEtcdBackup;
  }
  return ""_kj;  // a role of a later release
}

void MachineConfigReader::know(KnownConfig document) {
  next = kj::mv(document);
}

bool MachineConfigReader::is(const kj::Maybe<KnownConfig>& known, kj::ArrayPtr<const char> text) {
  KJ_IF_MAYBE (k, known) return k->bytes() == text;
  return false;
}

kj::Maybe<const KnownConfig&> MachineConfigReader::document(Store& store) {
  KJ_IF_MAYBE (stored, store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId)) {
    auto text = stored->getDocument().asArray();
    if (is(next, text)) {
      current = kj::mv(next);
      next = nullptr;
    }
    if (is(current, text)) return KJ_ASSERT_NONNULL(current);
  }
  return nullptr;
}

kj::Maybe<config::Config::Reader> MachineConfigReader::tryConfig(Store& store) {
  KJ_IF_MAYBE (config, document(store)) return config->get();
  return nullptr;
}

kj::Maybe<config::Machine::Reader> MachineConfigReader::tryMachine(Store& store) {
  return tryConfig(store).map([](config::Config::Reader config) { return config.getMachine(); });
}

config::Machine::Reader MachineConfigReader::machine(Store& store) {
  KJ_IF_MAYBE (machine, tryMachine(store)) return *machine;
  fail(ErrorKind::kNotFound, "no machine config");
}

}  // namespace talos::machined
