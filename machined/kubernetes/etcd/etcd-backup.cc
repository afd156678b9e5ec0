// k8s.EtcdBackupController: writes cluster.etcd.backup of a control-plane node with its defaults as
// EtcdBackupConfigs, which etcd-supervisor follows.
#include "common/config/config.h"
#include "common/net/text-values.h"
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/kubernetes/etcd/etcd-config.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/etcd-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kUsualRegion = "us-east-1"_kj;
constexpr auto kUsualEvery = 1 * kj::HOURS;

void fillBackup(rpc::EtcdBackupConfigSpec::Builder out, config::EtcdBackup::Reader in) {
  out.setEndpoint(in.getEndpoint());
  out.setBucket(in.getBucket());
  out.setPrefix(in.getPrefix());
  out.setRegion(in.getRegion().size() > 0 ? kj::StringPtr(in.getRegion()) : kUsualRegion);
  out.setAccessKey(in.getAccessKey());
  out.setSecretKey(in.getSecretKey());
  out.setAuthorities(kj::str(in.getCa().asChars()));
  auto every = config::parseDuration(in.getEvery()).orDefault(kUsualEvery);
  out.setEverySeconds(static_cast<uint32_t>(every / kj::SECONDS));
  out.setKeep(in.getKeep());
  out.setRecipient(kj::str(in.getEncryptTo().asChars()));
}

class EtcdBackupController final : public Controller {
 public:
  explicit EtcdBackupController(MachineConfigReader& config) : config(config) {}

  kj::StringPtr name() const override { return "k8s.EtcdBackupController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::MachineConfigSpec>(kMachineConfigId));
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::EtcdBackupConfigSpec>();
  }
  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::EtcdBackupConfigSpec> outputs(name());
    KJ_IF_MAYBE (found, config.tryConfig(store)) {
      auto etcd = found->getCluster().getEtcd();
      if (runsEtcd(*found) && etcd.hasBackup()) fillBackup(outputs.add(kEtcdId), etcd.getBackup());
    }
    outputs.apply(store);
    return kj::READY_NOW;
  }

 private:
  MachineConfigReader& config;
};

}  // namespace

kj::Own<Controller> etcdBackupController(ControllerDependencies& deps) {
  return kj::heap<EtcdBackupController>(deps.config);
}

}  // namespace talos::machined
