// etcd.LocalMemberController: publishes this node's member of etcd, as long as its etcd is healthy,
// for clients that read EtcdMembers/local.
#include "machined/config/controllers/controller-dependencies.h"
#include "machined/resources/controller-outputs.h"
#include "rpc/etcd-resources.capnp.h"
#include "rpc/inventory-resources.capnp.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kEtcdId = "etcd"_kj;
constexpr size_t kDigits = 16;

class LocalEtcdMemberController final : public Controller {
 public:
  kj::StringPtr name() const override { return "etcd.LocalMemberController"; }
  kj::Array<Input> inputs() const override {
    return kj::arr(input<rpc::EtcdStatusSpec>(kEtcdId), input<rpc::ServiceSpec>(kEtcdId));
  }
  kj::Array<kj::StringPtr> outputs() const override {
    return typeNames<rpc::LocalEtcdMemberSpec>();
  }

  kj::Promise<void> reconcile(Store& store) override {
    Outputs<rpc::LocalEtcdMemberSpec> outputs(name());
    KJ_IF_MAYBE (status, store.tryGet<rpc::EtcdStatusSpec>(kEtcdId)) {
      kj::StringPtr member = status->getMember();
      if (member.size() > 0 && member.size() <= kDigits && isHealthy(store)) {
        auto zeros = kj::repeat('0', kDigits - member.size());
        outputs.add("local").setMemberId(kj::str(zeros, member));
      }
    }
    outputs.apply(store);
    return kj::READY_NOW;
  }

 private:
  static bool isHealthy(Store& store) {
    KJ_IF_MAYBE (service, store.tryGet<rpc::ServiceSpec>(kEtcdId)) return service->getHealthy();
    return false;
  }
};

}  // namespace

kj::Own<Controller> localEtcdMemberController(ControllerDependencies&) {
  return kj::heap<LocalEtcdMemberController>();
}

}  // namespace talos::machined
