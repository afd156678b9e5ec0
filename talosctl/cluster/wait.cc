#include "talosctl/cluster/wait.h"

#include <string.h>

#include "common/error.h"
#include "common/file.h"
#include "common/talosconfig.h"
#include "talosctl/client.h"
#include "talosctl/judge.h"
#include "talosctl/progress.h"
#include "talosctl/text.h"

namespace talos::cluster {
namespace {

constexpr kj::Duration kAnswer = 5 * kj::SECONDS;  // of one question
constexpr kj::Duration kPause = 100 * kj::MILLISECONDS;

talosctl::Target targetOf(const Context& context, kj::StringPtr endpoint) {
  talosctl::Target target{.endpoints = {}, .nodes = {}, .credentials = context.credentials()};
  target.endpoints.add(kj::str(endpoint));
  return target;
}

struct Wait {
  talosctl::Invocation& call;
  const Context& context;
  kj::StringPtr stateFolder;
  kj::TimePoint until;
  talosctl::Progress progress;
};

kj::String tail(kj::StringPtr what, kj::StringPtr path) {
  KJ_IF_MAYBE (text, tryReadFile(path)) {
    constexpr size_t kShown = 1500;
    auto from = text->size() > kShown ? text->size() - kShown : 0;
    if (text->size() > 0) return kj::str("\nthe end of ", what, ":\n", text->slice(from));
  }
  return kj::str();
}

kj::String consoleTail(kj::StringPtr stateFolder, kj::StringPtr node) {
  return kj::str(tail("its console", kj::str(stateFolder, "/", node, ".log")),
                 tail("the supervisor's log", kj::str(stateFolder, "/supervisor.log")));
}

// The supervisor's log says so; its end is shown with the failure.
bool guestEnded(kj::StringPtr stateFolder, kj::StringPtr node) {
  auto words = kj::str("message=\"guest ended\" node=", node, " ");
  KJ_IF_MAYBE (log, tryReadFile(kj::str(stateFolder, "/supervisor.log"))) {
    return strstr(log->cStr(), words.cStr()) != nullptr;
  }
  return false;
}

kj::Promise<void> waitForNode(Wait& wait, size_t index, rpc::LocalNode::Reader node) {
  auto& timer = wait.call.world.timer;
  talosctl::Outcome outcome(talosctl::Outcome::Kind::kBoot, "");
  for (;;) {
    talosctl::Judgement judgement{talosctl::Verdict::kWait, kj::str()};
    try {
      talosctl::Client client(wait.call.world, targetOf(wait.context, node.getEndpoint()));
      judgement = co_await talosctl::within(
          timer, kAnswer, talosctl::judge(client, node.getAddress(), outcome, kAnswer));
    } catch (const kj::Exception& e) {
      judgement = outcome.silent(messageOf(e));
    }
    wait.progress.set(index, judgement.text);
    if (guestEnded(wait.stateFolder, node.getName())) {
      judgement = {talosctl::Verdict::kFailed, kj::str("its virtual machine has ended")};
    }
    if (judgement.verdict == talosctl::Verdict::kDone) co_return;
    if (judgement.verdict == talosctl::Verdict::kFailed) {
      fail(ErrorKind::kFailedPrecondition, kj::str(node.getName(), ": ", judgement.text,
                                                   consoleTail(wait.stateFolder, node.getName())));
    }
    if (timer.now() > wait.until) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str(node.getName(), ": not up in time: ", judgement.text,
                   consoleTail(wait.stateFolder, node.getName())));
    }
    co_await timer.afterDelay(kPause);
  }
}

}  // namespace

kj::Promise<void> waitUntilUp(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                              kj::StringPtr stateFolder, kj::Duration deadline) {
  auto config = Talosconfig::load(kj::str(stateFolder, "/talosconfig"));
  kj::Vector<kj::String> names;
  for (auto node : cluster.getNodes()) names.add(kj::str(node.getName()));
  Wait wait{.call = call,
            .context = config.resolve(),
            .stateFolder = stateFolder,
            .until = call.world.timer.now() + deadline,
            .progress = talosctl::Progress(call.world.console, names)};
  auto all = kj::heapArrayBuilder<kj::Promise<void>>(names.size());
  size_t index = 0;
  for (auto node : cluster.getNodes()) all.add(waitForNode(wait, index++, node));
  co_await kj::joinPromisesFailFast(all.finish());
}

}  // namespace talos::cluster
