#include "machined/upgrade/upgrade-server.h"

namespace talos::machined {
namespace {

kj::Maybe<ClientFile> fileOf(rpc::ImageFile::Reader file) {
  if (!file.hasBytes()) return nullptr;
  return ClientFile{.bytes = file.getBytes(),
                    .size = file.getSize(),
                    .sha256 = kj::heapArray(file.getSha256()),
                    .signature = kj::heapArray(file.getSignature())};
}

class UpgradesServer final : public rpc::Upgrades::Server {
 public:
  UpgradesServer(Upgrader& upgrader, kj::StringPtr bootId)
      : upgrader(upgrader), bootId(kj::str(bootId)) {}

  kj::Promise<void> upgrade(UpgradeContext context) override {
    auto params = context.getParams();
    context.getResults().setBootId(bootId);
    UpgradeRequest request{.image = kj::str(params.getImage()),
                           .preserve = params.getPreserve(),
                           .healthTimeoutS = params.getHealthTimeoutS(),
                           .query = kj::str(params.getQuery())};
    request.force = params.getForce();
    request.stage = params.getStage();
    request.file = fileOf(params.getFile());
    return upgrader.upgrade(kj::mv(request));
  }
  kj::Promise<void> rollback(RollbackContext context) override {
    context.getResults().setBootId(bootId);
    auto params = context.getParams();
    return upgrader.rollback(params.getHealthTimeoutS(), params.getForce())
        .then([context](kj::Maybe<kj::String> withdrawn) mutable {
          KJ_IF_MAYBE (target, withdrawn) context.getResults().setWithdrawn(*target);
        });
  }
  kj::Promise<void> confirm(ConfirmContext context) override {
    context.getResults().setLacked(co_await upgrader.confirmTrial());
  }
  kj::Promise<void> fetch(FetchContext context) override {
    auto params = context.getParams();
    UpgradeRequest request{.image = kj::str(params.getImage()),
                           .query = kj::str(params.getQuery())};
    request.force = params.getForce();
    request.file = fileOf(params.getFile());
    auto fetched = co_await upgrader.fetch(kj::mv(request), params.getKeep());
    auto results = context.getResults();
    results.setDigest(fetched.digest);
    results.setVersion(fetched.version);
    results.setSigned(fetched.isSigned);
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
