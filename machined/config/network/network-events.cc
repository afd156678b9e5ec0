#include "machined/config/network/network-events.h"

#include "rpc/network-resources.capnp.h"

namespace talos::machined {
namespace {

struct Repair {
  kj::String link, what;
};

}  // namespace

kj::Array<Controller::Input> NetworkEventController::inputs() const {
  return kj::arr(input<rpc::NetworkStatusSpec>());
}

kj::Promise<void> NetworkEventController::reconcile(Store& store) {
  kj::Vector<Repair> fresh;
  uint64_t newest = lastReported;
  for (auto status : store.list<rpc::NetworkStatusSpec>()) {
    for (auto one : status.getRepaired()) {
      if (one.getNumber() <= lastReported) continue;
      newest = kj::max(newest, one.getNumber());
      fresh.add(Repair{kj::str(one.getLink()), kj::str(one.getWhat())});
    }
  }
  if (fresh.empty()) return kj::READY_NOW;
  return keep(newest).then([this, newest, fresh = kj::mv(fresh)]() {
    lastReported = newest;
    for (auto& one : fresh) report(one.link, one.what);
  });
}

}  // namespace talos::machined
