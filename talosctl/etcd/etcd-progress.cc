#include "talosctl/etcd/etcd-progress.h"

#include "rpc/etcd-resources.capnp.h"
#include "talosctl/client/node-answers.h"

namespace talos::talosctl {
namespace {

constexpr auto kPause = 500 * kj::MILLISECONDS, kAnswer = 5 * kj::SECONDS;

}  // namespace

kj::Promise<void> followEtcd(Invocation& call, rpc::Node::Client node, Progress& progress,
                             kj::String& last) {
  for (;;) {
    co_await call.deps.timer.afterDelay(kPause);
    auto get = node.resourcesRequest().send().getResources().getRequest();
    get.initKind().setType("EtcdStatuses.etcd.talos.dev");
    get.setId("etcd");
    co_await within(call.deps.timer, kAnswer,
                    kj::Promise<capnp::Response<rpc::Resources::GetResults>>(get.send()))
        .then(
            [&](capnp::Response<rpc::Resources::GetResults>&& found) {
              auto status = found.getResource().getSpec().getAs<rpc::EtcdStatusSpec>();
              auto message = status.getMessage();
              last = message.size() == 0 ? kj::str(status.getPhase())
                                         : kj::str(status.getPhase(), ": ", message);
              progress.set(0, last);
            },
            [](kj::Exception&&) {});  // the bootstrap request itself reports the error
  }
}

kj::String sendingText(uint64_t done, uint64_t size, bool terminal) {
  auto all = kj::str(size >> 20, " MiB");
  if (!terminal) return kj::str("sending the snapshot: ", all);
  return kj::str("sending the snapshot: ", done * 20 / kj::max(size, uint64_t{1}) * 5, " % of ",
                 all);
}

}  // namespace talos::talosctl
