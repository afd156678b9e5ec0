#include "talosctl/etcd/bootstrap-call.h"

#include "common/base/fill-list.h"
#include "rpc/etcd-resources.capnp.h"
#include "talosctl/client/long-calls.h"
#include "talosctl/client/node-answers.h"

namespace talos::talosctl {
namespace {

constexpr auto kPause = 500 * kj::MILLISECONDS, kAnswer = 5 * kj::SECONDS;

}  // namespace

kj::Promise<bool> callBootstrap(Invocation& call, Session& session, kj::StringPtr name,
                                const BootstrapCall& how, Progress& progress, kj::String& last) {
  auto node = session.client.node(name);
  auto request = node.etcdRequest().send().getEtcd().bootstrapRequest();
  fillTexts(request.initAmong(how.among.size()), how.among);
  fillTexts(request.initWithout(how.without.size()), how.without);
  KJ_IF_MAYBE (file, how.snapshot) {
    auto recovery = request.initRecovery();
    recovery.setBytes(file->source([&](uint64_t done, uint64_t size) {
      progress.set(0, sendingText(done, size, call.deps.console.drawsOnErr()));
    }));
    recovery.setSize(file->size());
    recovery.setSkipHashCheck(how.skipHashCheck);
  }
  using Answer = capnp::Response<rpc::Etcd::BootstrapResults>;
  auto& timer = call.deps.timer;
  auto answer = whileAnswering(timer, node, kj::Promise<Answer>(request.send()));
  co_return co_await within(timer, session.deadline, kj::mv(answer))
      .then([](Answer&& answer) { return answer.getDone(); })
      .exclusiveJoin(followEtcd(call, node, progress, last).then([]() -> kj::Promise<bool> {
        return kj::NEVER_DONE;
      }));
}

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
