#include "talosctl/configure/follow-operation.h"

#include "common/base/error.h"
#include "common/base/resource.h"
#include "common/base/within.h"
#include "common/memory/zeroize.h"
#include "rpc/machine-resources.capnp.h"
#include "rpc/machine.capnp.h"
#include "talosctl/cli/cli-text.h"
#include "talosctl/cli/table.h"
#include "talosctl/client/answer-output.h"
#include "talosctl/client/follow-node.h"
#include "talosctl/client/node-config.h"

namespace talos::talosctl {

namespace {

constexpr kj::Duration kAnswer = 5 * kj::SECONDS;  // deadline of one request
constexpr kj::Duration kPause = 500 * kj::MILLISECONDS;
constexpr kj::Duration kFind = 10 * kj::SECONDS, kFindPause = 1 * kj::SECONDS;

// The newest apply of a node.
struct ApplyRecord {
  kj::String bootId;
  uint64_t number = 0;  // 0: no record
  kj::String state, step, error, mode;
};

kj::Promise<ApplyRecord> readRecord(Client& client, kj::StringPtr node) {
  co_await client.connect(kAnswer);
  auto target = client.node(node);
  auto version = co_await target.machineRequest().send().getMachine().versionRequest().send();
  ApplyRecord record;
  record.bootId = kj::str(version.getBootId());
  auto request = target.resourcesRequest().send().getResources().getRequest();
  request.initKind().setType(typeName<rpc::OperationSpec>());
  request.setId("apply-config");
  try {
    auto answer = co_await request.send();
    auto spec = answer.getResource().getSpec().getAs<rpc::OperationSpec>();
    record.number = spec.getNumber();
    record.state = kj::str(spec.getState());
    record.step = printable(spec.getStep().size() > 0 ? spec.getStep() : spec.getWhat());
    record.error = printable(spec.getError());
    record.mode = kj::str(spec.getMode());
  } catch (const kj::Exception& e) {
    if (kindOf(e) != ErrorKind::kNotFound) throw;
  }
  co_return kj::mv(record);
}

// At another address than the one that the user named may be another machine.
[[noreturn]] void failElsewhere(const MovedNode& node) {
  fail(ErrorKind::kUnavailable, kj::str("another machine answers at ", node.name()));
}

// The operation and its record are of an earlier boot: the config that the node runs shows the
// outcome. While the node boots it may have no config, or that of a source.
kj::Promise<kj::Maybe<OperationEnd>> lookAfterReboot(Client& client, const MovedNode& node,
                                                     kj::StringPtr document) {
  auto target = client.node(node.name());
  auto status = co_await target.machineRequest().send().getMachine().statusRequest().send();
  RunningConfig running;
  KJ_DEFER(zeroize(running.document));
  try {
    running = co_await runningConfig(target);
  } catch (const kj::Exception& e) {
    if (kindOf(e) != ErrorKind::kNotFound) throw;
  }
  if (running.document == document) co_return OperationEnd::kRebooted;
  if (node.isElsewhere()) failElsewhere(node);
  auto stage = status.getStage();
  if (stage == rpc::Status::Stage::RUNNING || stage == rpc::Status::Stage::FAILED) {
    fail(ErrorKind::kFailedPrecondition,
         "the node has rebooted and does not run this config: it was not applied");
  }
  co_return nullptr;
}

// Resolves with nullptr while the operation continues; `step` then says what the node does.
kj::Promise<kj::Maybe<OperationEnd>> look(Client& client, const MovedNode& node,
                                          const NodeOperation& operation, kj::StringPtr document,
                                          kj::String& step) {
  auto record = co_await readRecord(client, node.name());
  if (operation.bootId.size() > 0 && record.bootId != operation.bootId) {
    step = kj::str("the node has rebooted, and boots");
    co_return co_await lookAfterReboot(client, node, document);
  }
  if (record.number != operation.number) {
    if (node.isElsewhere()) failElsewhere(node);
    fail(ErrorKind::kConflict,
         record.number == 0
             ? "the node no longer has the outcome; it is not known"_kj
             : "another config was applied meanwhile; the outcome of this one is not known"_kj);
  }
  if (record.state == "failed") fail(ErrorKind::kFailedPrecondition, record.error);
  if (record.state != "running") co_return OperationEnd::kDone;
  step = kj::mv(record.step);
  co_return nullptr;
}

}  // namespace

bool mayPass(const kj::Exception& e) {
  auto kind = kindOf(e);
  return kind == ErrorKind::kUnavailable || kind == ErrorKind::kDeadlineExceeded;
}

kj::Promise<OperationEnd> followOperation(Invocation& call, MovedNode& node,
                                          const NodeOperation& operation, kj::StringPtr document,
                                          Progress& progress, size_t index) {
  auto& timer = call.deps.timer;
  auto start = timer.now();
  auto deadline = call.deadline(kOutcome);
  kj::String step;
  kj::Maybe<kj::Own<Client>> client;
  for (;;) {
    kj::Maybe<kj::Exception> failure;
    kj::Maybe<OperationEnd> ended;
    try {
      if (client == nullptr) client = kj::heap<Client>(call.deps, node.target());
      ended = co_await within(timer, kAnswer,
                              look(*KJ_ASSERT_NONNULL(client), node, operation, document, step));
    } catch (const kj::Exception& e) {
      failure = kj::cp(e);
    }
    KJ_IF_MAYBE (end, ended) co_return *end;
    KJ_IF_MAYBE (e, failure) {
      if (!mayPass(*e)) kj::throwFatalException(kj::mv(*e));
      client = nullptr;
      node.next();
      step = messageOf(*e);
    }
    progress.set(index, step);
    if (timer.now() - start > deadline) {
      fail(ErrorKind::kDeadlineExceeded,
           kj::str("timed out after ", durationText(deadline), ": ", step,
                   "; the node continues: talosctl get operations shows the progress"));
    }
    co_await timer.afterDelay(kPause);
  }
}

kj::Promise<kj::Maybe<BegunApply>> findOperation(Invocation& call, MovedNode& node, uint64_t number,
                                                 kj::Duration silentFor) {
  auto& timer = call.deps.timer;
  auto end = timer.now() + kFind, silentEnd = timer.now() + kj::max(kFind, silentFor);
  for (;;) {
    bool answers = false;
    kj::Maybe<BegunApply> found;
    try {
      Client client(call.deps, node.target());
      auto record = co_await within(timer, kAnswer, readRecord(client, node.name()));
      answers = !node.isElsewhere() || record.number == number;
      if (record.number == number) {
        found = BegunApply{kj::mv(record.mode), kj::mv(record.bootId)};
      }
    } catch (const kj::Exception&) {
      // The node, or the endpoint, does not answer yet.
    }
    if (found != nullptr || timer.now() >= (answers ? end : silentEnd)) co_return kj::mv(found);
    // A short time is for the address that the user named.
    if (!answers && silentFor > kFind) node.next();
    co_await timer.afterDelay(kFindPause);
  }
}

}  // namespace talos::talosctl
