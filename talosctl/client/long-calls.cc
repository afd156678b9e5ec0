#include "talosctl/client/long-calls.h"

#include "common/base/error.h"
#include "talosctl/cli/cli-text.h"

namespace talos::talosctl {

namespace {

constexpr kj::Duration kInterval = 10 * kj::SECONDS;

// Never resolves. Rejects when the node no longer answers.
kj::Promise<void> probe(Session& session, rpc::Node::Client node, Alive& alive) {
  auto& timer = session.client.deps.timer;
  for (;;) {
    kj::Promise<capnp::Response<rpc::Version>> answer =
        node.machineRequest().send().getMachine().versionRequest().send();
    try {
      auto version = co_await within(timer, session.deadline, kj::mv(answer));
      alive.bootId = kj::str(version.getBootId());
    } catch (const kj::Exception& e) {
      // The node answers; a role for backups alone may not call more.
      if (kindOf(e) != ErrorKind::kPermissionDenied) throw;
    }
    alive.answered = true;
    if (session.endless) session.client.deps.console.waiting("");
    co_await timer.afterDelay(kInterval);
  }
}

}  // namespace

kj::Promise<void> watched(Session& session, rpc::Node::Client node, Alive& alive,
                          kj::Promise<void> stream) {
  return stream.exclusiveJoin(probe(session, kj::mv(node), alive));
}

kj::Promise<int> streamAll(
    Invocation& call, Session& session, Format format,
    kj::Function<kj::Promise<void>(kj::StringPtr, rpc::Node::Client)> start) {
  auto names = session.client.nodes();
  auto alive = kj::heapArray<Alive>(names.size());
  auto waits = kj::heapArrayBuilder<kj::Promise<void>>(names.size());
  size_t good = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    auto node = session.client.node(names[i]);
    auto stream = start(names[i], node);
    waits.add(watched(session, kj::mv(node), alive[i], kj::mv(stream))
                  .then([&good]() { ++good; },
                        [&call, format, &name = names[i]](kj::Exception&& e) {
                          streamFailure(call, format, {kj::str(name), kj::mv(e)});
                        })
                  .eagerlyEvaluate(nullptr));  // the other streams may run forever
  }
  co_await kj::joinPromises(waits.finish());
  co_return good > 0 ? 0 : 1;
}

namespace {

constexpr auto kBetweenQuestions = 5 * kj::SECONDS, kQuestion = 8 * kj::SECONDS;
constexpr unsigned kMost = 3;  // unanswered requests in a row

}  // namespace

kj::Promise<void> untilSilent(kj::Timer& timer, rpc::Node::Client node) {
  for (unsigned unanswered = 0; unanswered < kMost;) {
    co_await timer.afterDelay(kBetweenQuestions);
    auto version = node.machineRequest().send().getMachine().versionRequest();
    kj::Promise<void> answer = version.send().ignoreResult();
    try {
      co_await within(timer, kQuestion, kj::mv(answer));
      unanswered = 0;
    } catch (const kj::Exception& e) {
      // A refusal is an answer. The end of the connection also ends the call.
      unanswered = kindOf(e) == ErrorKind::kDeadlineExceeded ? unanswered + 1 : 0;
    }
  }
  fail(ErrorKind::kDeadlineExceeded,
       kj::str("no answer for ", durationText(kMost * (kBetweenQuestions + kQuestion)),
               "; a node that has accepted the request continues"));
}

}  // namespace talos::talosctl
