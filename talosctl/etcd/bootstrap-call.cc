#include "talosctl/etcd/bootstrap-call.h"

#include "talosctl/client/long-call.h"
#include "talosctl/etcd/etcd-progress.h"

namespace talos::talosctl {
namespace {

template <typename Builder>
void fillTexts(Builder list, kj::ArrayPtr<const kj::String> texts) {
  for (auto i : kj::indices(texts)) list.set(i, texts[i]);
}

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
      progress.set(0, sendingText(done, size, call.deps.console.errIsTerminal()));
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

}  // namespace talos::talosctl
