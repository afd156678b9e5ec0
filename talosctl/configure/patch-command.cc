// patch <type> [<id>]
//
// Patches each node's own running config, and sends it only to this node. Nothing is sent before
// all configs have been patched.
#include <kj/debug.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/memory/zeroize.h"
#include "talosctl/cli/table.h"
#include "talosctl/config/patches.h"
#include "talosctl/configure/apply-configs.h"
#include "talosctl/configure/configure-commands.h"

namespace talos::talosctl {

namespace {

struct Work {
  kj::String node;
  kj::String running, patched;
  uint64_t version = 0;
};

struct Patching {
  Invocation& call;
  Session& session;
  kj::Vector<Patch> patches;
  kj::Vector<Work> work;
  kj::Vector<Failure> failures;
};

// Fetches and patches one node's config.
kj::Promise<void> prepare(Patching& task, size_t index) {
  auto& work = task.work[index];
  kj::Maybe<kj::Exception> failure;
  try {
    auto read = co_await configToChange(task.call, task.session, work.node);
    work.running = kj::mv(read.document);
    work.version = read.version;
    work.patched = applyPatches(work.running, "the node's config", task.patches);
    KJ_IF_MAYBE (mistakes, mistakesOf(work.patched, "the patched config")) {
      if (work.patched != work.running) fail(ErrorKind::kInvalidArgument, *mistakes);
    }
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) task.failures.add(kj::str(work.node), kj::mv(*e));
}

kj::Vector<Patch> patchesOf(Invocation& call) {
  auto patches = readPatches(call.list("patch"), "patch");
  for (auto& patch : readPatchFiles(call.list("patch-file"))) patches.add(kj::mv(patch));
  if (patches.empty()) failUsage("no patch given; use --patch or --patch-file");
  return patches;
}

kj::Promise<int> runPatch(Invocation& call) {
  auto settings = configChangeSettings(call);
  auto patches = patchesOf(call);
  auto session = co_await openSession(call);
  Patching task{
      .call = call, .session = *session, .patches = kj::mv(patches), .work = {}, .failures = {}};
  for (auto& node : session->client.nodes()) task.work.add(Work{kj::str(node), {}, {}});
  KJ_DEFER({
    for (auto& work : task.work) {
      zeroize(work.running);
      zeroize(work.patched);
    }
  });
  auto waits = kj::heapArrayBuilder<kj::Promise<void>>(task.work.size());
  for (size_t i = 0; i < task.work.size(); ++i) waits.add(prepare(task, i));
  co_await kj::joinPromises(waits.finish());
  if (task.failures.size() > 0) {
    if (task.work.size() > 1) call.err("nothing was sent to any node\n");
    co_return conclude(call, task.failures, 0, Partial::kIsFailure);
  }
  kj::Vector<Parcel> parcels;
  for (auto& work : task.work) {
    // In mode no-reboot, an unchanged config confirms a config on trial.
    bool confirms = settings.mode == rpc::ApplyMode::NO_REBOOT;
    if (work.patched == work.running && !confirms) {
      printSkipped(call, work.node, "no changes detected");
    } else {
      parcels.add(Parcel{work.node, work.patched, work.version});
    }
  }
  if (parcels.empty()) co_return 0;
  // The documents have this text for every spelling of the type, and scripts match it.
  co_return co_await applyAll(call, *session, parcels.releaseAsArray(), settings,
                              kj::str("patched mc at the node"));
}

}  // namespace

void addPatchCommands(Command& root) {
  auto& patch = root.add("patch", "Patch the machine config of nodes");
  patch.details =
      "A patch is a JSON Patch (a list of operations) or a part of a config to merge into it. "
      "Each node's own config is patched.";
  patch.flag({.name = "patch",
              .letter = "p",
              .kind = FlagKind::kTexts,
              .help = "the patch, or @FILE; may be repeated"});
  patch.flag({.name = "patch-file",
              .kind = FlagKind::kTexts,
              .help = "file with a patch; may be repeated"});
  declareConfigChange(patch);
  patch.run = runPatch;
}

}  // namespace talos::talosctl
