#include "machined/upgrade/upgrade-server.h"

namespace talos::machined {
namespace {

class UpgradesServer final : public rpc::Upgrades::Server {
 public:
  UpgradesServer(Upgrader& upgrader, kj::StringPtr bootId)
      : upgrader(upgrader), bootId(kj::str(bootId)) {}

  kj::Promise<void> upgrade(UpgradeContext context) override {
    auto params = context.getParams();
    context.getResults().setBootId(bootId);
    UpgradeWish wish{kj::str(params.getImage()), params.getPreserve(), params.getHealthTimeoutS(),
                     kj::str(params.getQuery())};
    wish.force = params.getForce();
    auto file = params.getFile();
    if (file.hasBytes()) {
      wish.file = ClientFile{file.getBytes(), file.getSize(), kj::heapArray(file.getSha256()),
                             kj::heapArray(file.getSignature())};
    }
    return upgrader.upgrade(kj::mv(wish));
  }
  kj::Promise<void> rollback(RollbackContext context) override {
    context.getResults().setBootId(bootId);
    auto params = context.getParams();
    return upgrader.rollback(params.getHealthTimeoutS(), params.getForce());
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
