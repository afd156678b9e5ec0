#include "machined/upgrade/upgrade-server.h"

#include "common/base/error.h"

namespace talos::machined {
namespace {

class UpgradesServer final : public rpc::Upgrades::Server {
 public:
  UpgradesServer(Upgrader& upgrader, kj::StringPtr bootId)
      : upgrader(upgrader), bootId(kj::str(bootId)) {}

  kj::Promise<void> upgrade(UpgradeContext context) override {
    auto params = context.getParams();
    if (params.getFile().hasBytes() || params.getQuery().size() > 0) {
      return error(ErrorKind::kUnimplemented, "only images in registries can be fetched");
    }
    context.getResults().setBootId(bootId);
    return upgrader.upgrade(kj::str(params.getImage()), params.getPreserve(),
                            params.getHealthTimeoutS());
  }
  kj::Promise<void> rollback(RollbackContext context) override {
    context.getResults().setBootId(bootId);
    return upgrader.rollback(context.getParams().getHealthTimeoutS());
  }

 private:
  Upgrader& upgrader;
  kj::String bootId;
};

}  // namespace

rpc::Upgrades::Client serveUpgrades(Upgrader& upgrader, kj::StringPtr bootId) {
  return kj::heap<UpgradesServer>(upgrader, bootId);
}

}  // namespace talos::machined
