#include "talosctl/configure/follow-operation.h"

#include "common/base/error.h"
#include "common/base/resource.h"
#include "common/base/within.h"
#include "rpc/machine-resources.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/client/follow-node.h"

namespace talos::talosctl {

namespace {

constexpr kj::Duration kAnswer = 5 * kj::SECONDS;  // deadline of one request
constexpr kj::Duration kPause = 500 * kj::MILLISECONDS;

enum class Ended { kNo, kYes };

kj::Promise<Ended> look(Client& client, kj::StringPtr node, uint64_t number, Progress& progress,
                        size_t index) {
  co_await client.connect(kAnswer);
  auto request = client.node(node).resourcesRequest().send().getResources().getRequest();
  request.initKind().setType(typeName<rpc::OperationSpec>());
  request.setId("apply-config");
  auto answer = co_await request.send();
  auto operation = answer.getResource().getSpec().getAs<rpc::OperationSpec>();
  if (operation.getNumber() != number) {
    fail(ErrorKind::kConflict,
         "another config was applied meanwhile; the outcome of this one is not known");
  }
  if (operation.getState() == "failed") {
    fail(ErrorKind::kFailedPrecondition, kj::str(printable(operation.getError())));
  }
  if (operation.getState() != "running") co_return Ended::kYes;
  progress.set(index, operation.getStep().size() > 0 ? printable(operation.getStep())
                                                     : printable(operation.getWhat()));
  co_return Ended::kNo;
}

}  // namespace

bool mayPass(const kj::Exception& e) {
  auto kind = kindOf(e);
  return kind == ErrorKind::kUnavailable || kind == ErrorKind::kDeadlineExceeded;
}

kj::Promise<void> followOperation(Invocation& call, kj::StringPtr node, uint64_t number,
                                  Progress& progress, size_t index) {
  auto& timer = call.deps.timer;
  auto start = timer.now();
  auto deadline = call.deadline(kOutcome);
  kj::Maybe<kj::Own<Client>> client;
  for (;;) {
    kj::Maybe<kj::Exception> failure;
    auto ended = Ended::kNo;
    try {
      if (client == nullptr) client = kj::heap<Client>(call.deps, resolveTarget(call));
      ended = co_await within(timer, kAnswer,
                              look(*KJ_ASSERT_NONNULL(client), node, number, progress, index));
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    if (ended == Ended::kYes) co_return;
    KJ_IF_MAYBE (e, failure) {
      if (!mayPass(*e)) kj::throwFatalException(kj::mv(*e));
      client = nullptr;
      progress.set(index, messageOf(*e));
    }
    if (timer.now() - start > deadline) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("timed out after ", durationText(deadline),
                   "; the node continues: talosctl get operations shows the progress"));
    }
    co_await timer.afterDelay(kPause);
  }
}

}  // namespace talos::talosctl
