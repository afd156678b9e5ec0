#include "talosctl/cluster/nodes/cluster-wait.h"

#include <string.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/memory/zeroize.h"
#include "common/talosconfig/talosconfig.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/progress-lines.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/client/follow-node.h"
#include "talosctl/cluster/nodes/cluster-control.h"
#include "talosctl/report/file-end.h"

namespace talos::cluster {
namespace {

constexpr kj::Duration kAnswer = 5 * kj::SECONDS;  // deadline of one request
constexpr size_t kConsole = 1 << 20;  // read from the end of a console to find its fingerprint
constexpr kj::Duration kPause = 100 * kj::MILLISECONDS;

talosctl::Target targetOf(const Context& context, kj::StringPtr endpoint) {
  talosctl::Target target{
      .endpoints = {}, .nodes = {}, .credentials = context.credentials(), .fingerprints = {}};
  target.endpoints.add(kj::str(endpoint));
  return target;
}

struct Wait {
  talosctl::Invocation& call;
  kj::StringPtr stateFolder;
  ControlClient& control;
  kj::TimePoint until;
  talosctl::Progress progress;
};

// The request that is repeated for each node; a rejection is an answer, too.
class Question {
 public:
  virtual ~Question() noexcept(false) = default;
  virtual kj::Promise<talosctl::Judgement> ask() = 0;
  virtual talosctl::Judgement silent(kj::StringPtr error) = 0;
};

// Done when the node answers and its services are up.
class IsUp final : public Question {
 public:
  IsUp(talosctl::Dependencies& deps, talosctl::Target target, kj::StringPtr address)
      : deps(deps), target(kj::mv(target)), address(kj::str(address)) {}
  // Keeps one connection as long as the node answers: with an emulated processor, a handshake takes
  // longer than all requests.
  kj::Promise<talosctl::Judgement> ask() override {
    if (client == nullptr) client = kj::heap<talosctl::Client>(deps, again());
    auto& one = *KJ_ASSERT_NONNULL(client);
    co_await one.connect(kAnswer);
    co_return co_await talosctl::judge(one, address, outcome);
  }
  talosctl::Judgement silent(kj::StringPtr) override {
    client = nullptr;  // the connection to a machine that was switched off stays open
    return outcome.silent();
  }

 private:
  talosctl::Dependencies& deps;
  talosctl::Target target;
  kj::String address;
  talosctl::Outcome outcome{talosctl::Outcome::Kind::kBoot, ""};
  kj::Maybe<kj::Own<talosctl::Client>> client;

  talosctl::Target again() {
    talosctl::Target copy{
        .endpoints = {},
        .nodes = {},
        .credentials = {kj::str(target.credentials.authorities),
                        kj::str(target.credentials.certificate), target.credentials.key.clone()},
        .fingerprints = {}};
    for (auto& endpoint : target.endpoints) copy.endpoints.add(kj::str(endpoint));
    return copy;
  }
};

talosctl::Target insecureTarget(kj::StringPtr endpoint, kj::StringPtr fingerprint) {
  talosctl::Target target{
      .endpoints = {}, .nodes = {}, .credentials = {}, .insecure = true, .fingerprints = {}};
  target.endpoints.add(kj::str(endpoint));
  target.nodes.add(kj::str(endpoint));
  target.fingerprints.add(kj::str(fingerprint));
  return target;
}

// Done when the node waits for its config.
class IsInMaintenance final : public Question {
 public:
  IsInMaintenance(talosctl::Dependencies& deps, kj::StringPtr endpoint, kj::String console,
                  kj::String& fingerprint)
      : deps(deps),
        endpoint(kj::str(endpoint)),
        console(kj::mv(console)),
        fingerprint(fingerprint) {}

  kj::Promise<talosctl::Judgement> ask() override {
    KJ_IF_MAYBE (shown, fingerprintOn(tryReadEnd(console, kConsole).orDefault(kj::str()))) {
      fingerprint = kj::mv(*shown);
    } else {
      co_return talosctl::Judgement{talosctl::Verdict::kWait, kj::str("booting")};
    }
    auto made = kj::heap<talosctl::Client>(deps, insecureTarget(endpoint, fingerprint));
    co_await made->connect(kAnswer);
    co_await made->node("").machineRequest().send().getMachine().statusRequest().send();
    co_return talosctl::Judgement{talosctl::Verdict::kDone, kj::str("waiting for its config")};
  }
  talosctl::Judgement silent(kj::StringPtr error) override {
    return {talosctl::Verdict::kWait, kj::str("no answer: ", error)};
  }

 private:
  talosctl::Dependencies& deps;
  kj::String endpoint, console;
  kj::String& fingerprint;
};

// Returns the end of a file. Never throws, because it is part of another message.
kj::String tail(kj::StringPtr what, kj::StringPtr path) {
  constexpr size_t kShown = 1500;
  kj::String text;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&] { text = tryReadEnd(path, kShown).orDefault(kj::str()); })) {
    return kj::str("\n", messageOf(*e));
  }
  if (text.size() == 0) return kj::str();
  return kj::str("\nend of ", what, ":\n", text);
}

kj::String consoleTail(kj::StringPtr stateFolder, kj::StringPtr node) {
  return kj::str(tail("its console", kj::str(stateFolder, "/", node, ".log")),
                 tail("the supervisor's log", kj::str(stateFolder, "/supervisor.log")));
}

// Returns why the node can no longer come up: its run has ended and no other starts. The
// supervisor's log has details.
kj::Promise<kj::Maybe<kj::String>> endOf(Wait& wait, rpc::LocalNode::Reader node) {
  kj::String state, error;
  try {
    auto answer = co_await talosctl::within(wait.call.deps.timer, kAnswer, wait.control.states());
    for (auto each : answer.getNodes()) {
      if (each.getName() != node.getName()) continue;
      state = kj::str(each.getState());
      error = kj::str(each.getError());
    }
  } catch (const kj::Exception& e) {
    if (kindOf(e) == ErrorKind::kDeadlineExceeded) co_return nullptr;  // the supervisor is busy
    co_return kj::str("the cluster's supervisor has exited: ", messageOf(e));
  }
  if (state == "off") co_return kj::str("the node switched itself off");
  if (state == "failed") co_return kj::mv(error);
  co_return nullptr;
}

kj::Promise<void> waitForNode(Wait& wait, size_t index, rpc::LocalNode::Reader node,
                              Question& question) {
  auto& timer = wait.call.deps.timer;
  for (;;) {
    talosctl::Judgement judgement{talosctl::Verdict::kWait, kj::str()};
    try {
      judgement = co_await talosctl::within(timer, kAnswer, question.ask());
    } catch (const kj::Exception& e) {
      judgement = question.silent(messageOf(e));
    }
    wait.progress.set(index, judgement.text);
    auto end = co_await endOf(wait, node);
    KJ_IF_MAYBE (reason, end) judgement = {talosctl::Verdict::kFailed, kj::mv(*reason)};
    if (judgement.verdict == talosctl::Verdict::kDone) co_return;
    if (judgement.verdict == talosctl::Verdict::kFailed) {
      fail(ErrorKind::kFailedPrecondition, kj::str(node.getName(), ": ", judgement.text,
                                                   consoleTail(wait.stateFolder, node.getName())));
    }
    if (timer.now() > wait.until) {
      fail(ErrorKind::kDeadlineExceeded, kj::str(node.getName(), ": timed out: ", judgement.text,
                                                 consoleTail(wait.stateFolder, node.getName())));
    }
    co_await timer.afterDelay(kPause);
  }
}

// Returns nullptr for a node that is not waited for.
using MakeQuestion =
    kj::Function<kj::Maybe<kj::Own<Question>>(size_t index, rpc::LocalNode::Reader node)>;

// Waits for all nodes at once, with one question for each.
kj::Promise<void> waitForAll(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                             kj::StringPtr stateFolder, kj::Duration deadline, MakeQuestion make) {
  kj::Vector<kj::String> names;
  kj::Vector<kj::Own<Question>> questions;
  kj::Vector<rpc::LocalNode::Reader> nodes;
  for (auto i : kj::indices(cluster.getNodes())) {
    auto node = cluster.getNodes()[static_cast<unsigned>(i)];
    KJ_IF_MAYBE (question, make(i, node)) {
      names.add(kj::str(node.getName()));
      questions.add(kj::mv(*question));
      nodes.add(node);
    }
  }
  auto control = co_await ControlClient::connect(call.deps.lowLevel, call.deps.timer, stateFolder);
  Wait wait{.call = call,
            .stateFolder = stateFolder,
            .control = *control,
            .until = call.deps.timer.now() + deadline,
            .progress = talosctl::Progress(call.deps.console, names)};
  auto all = kj::heapArrayBuilder<kj::Promise<void>>(nodes.size());
  for (auto i : kj::indices(nodes)) all.add(waitForNode(wait, i, nodes[i], *questions[i]));
  co_await kj::joinPromisesFailFast(all.finish());
}

kj::Promise<void> applyConfig(talosctl::Invocation& call, kj::String endpoint,
                              kj::String fingerprint, kj::String file) {
  auto text = readFile(file);
  KJ_DEFER(zeroize(text));
  talosctl::Client client(call.deps, insecureTarget(endpoint, fingerprint));
  co_await client.connect(kAnswer);
  auto request = client.node("").configurationRequest().send().getConfiguration().applyRequest();
  request.initRequest().setDocument(text.asBytes());
  auto answer = request.send();
  co_await talosctl::within(call.deps.timer, talosctl::kDeadline,
                            kj::Promise<void>(answer.ignoreResult()));
}

}  // namespace

kj::Promise<void> waitUntilUp(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                              kj::StringPtr stateFolder, kj::Duration deadline, Among among) {
  auto config = Talosconfig::load(kj::str(stateFolder, "/talosconfig"));
  auto& context = config.resolve();
  // A worker's certificate does not have the loopback address used here, so the worker is reached
  // through the first control-plane node.
  kj::StringPtr first = cluster.getNodes()[0].getEndpoint();
  co_await waitForAll(call, cluster, stateFolder, deadline,
                      [&](size_t, rpc::LocalNode::Reader node) -> kj::Maybe<kj::Own<Question>> {
                        if (among == Among::kControlPlane && node.getType() == "join") {
                          return nullptr;
                        }
                        kj::StringPtr through =
                            node.getType() == "join" ? first : kj::StringPtr(node.getEndpoint());
                        return kj::Own<Question>(kj::heap<IsUp>(
                            call.deps, targetOf(context, through), node.getAddress()));
                      });
}

kj::Promise<kj::Array<kj::String>> waitForMaintenance(talosctl::Invocation& call,
                                                      rpc::LocalCluster::Reader cluster,
                                                      kj::StringPtr stateFolder,
                                                      kj::Duration deadline) {
  auto fingerprints = kj::heapArray<kj::String>(cluster.getNodes().size());
  co_await waitForAll(
      call, cluster, stateFolder, deadline,
      [&](size_t index, rpc::LocalNode::Reader node) -> kj::Maybe<kj::Own<Question>> {
        return kj::Own<Question>(kj::heap<IsInMaintenance>(
            call.deps, node.getEndpoint(), kj::str(stateFolder, "/", node.getName(), ".log"),
            fingerprints[index]));
      });
  co_return kj::mv(fingerprints);
}

kj::Promise<void> applyConfigs(talosctl::Invocation& call, rpc::LocalCluster::Reader cluster,
                               kj::StringPtr stateFolder,
                               kj::ArrayPtr<const kj::String> fingerprints) {
  auto all = kj::heapArrayBuilder<kj::Promise<void>>(fingerprints.size());
  for (size_t i = 0; i < fingerprints.size(); ++i) {
    auto node = cluster.getNodes()[i];
    auto name = kj::str(node.getName());
    auto file = kj::str(stateFolder, "/", name, ".yaml");
    all.add(applyConfig(call, kj::str(node.getEndpoint()), kj::str(fingerprints[i]), kj::mv(file))
                .catch_([name = kj::mv(name)](kj::Exception&& e) -> kj::Promise<void> {
                  return error(kindOf(e), kj::str(name, ": ", messageOf(e)));
                }));
  }
  co_await kj::joinPromises(all.finish());
}

kj::Maybe<kj::String> fingerprintOn(kj::StringPtr console) {
  constexpr kj::StringPtr kLabel = "fingerprint"_kj;
  constexpr size_t kLength = 44;  // base64 of 32 bytes
  auto belongs = [](char c) {
    return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') || c == '+' ||
           c == '/';
  };
  kj::Maybe<kj::String> found;
  const char* at = console.cStr();
  while ((at = strstr(at, kLabel.cStr())) != nullptr) {
    at += kLabel.size();
    const char* end = at + strcspn(at, "\r\n");
    for (const char* begin = at; begin < end;) {
      const char* stop = begin;
      while (stop < end && belongs(*stop)) ++stop;
      if (stop - begin == kLength - 1 && *stop == '=') found = kj::heapString(begin, kLength);
      begin = stop + 1;
    }
  }
  return found;
}

}  // namespace talos::cluster
