// patch <type> [<id>]
//
// Patches each node's own running config, and sends it only to this node. Nothing is sent before
// all configs have been patched. A config that another client has changed meanwhile is patched
// again.
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
  kj::Maybe<Remake> remake = nullptr;
};

struct Patching {
  Invocation& call;
  Session& session;
  kj::Vector<Patch> patches;
  kj::Vector<Work> work;
  kj::Vector<Failure> failures;
  kj::Vector<kj::String> warnings;  // of the patches
};

// Fetches and patches one node's config.
kj::Promise<void> patchConfig(Patching& task, Work& work) {
  auto read = co_await configToChange(task.call, task.session, work.node);
  zeroize(work.running);
  zeroize(work.patched);
  work.running = kj::mv(read.document);
  work.version = read.version;
  work.patched = applyPatches(work.running, "the node's config", task.patches, Patched::kConfig,
                              task.warnings);
  KJ_IF_MAYBE (mistakes, mistakesOf(work.patched, "the patched config")) {
    if (work.patched != work.running) fail(ErrorKind::kInvalidArgument, *mistakes);
  }
}

kj::Promise<void> prepare(Patching& task, Work& work) {
  kj::Maybe<kj::Exception> failure;
  try {
    co_await patchConfig(task, work);
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) task.failures.add(kj::str(work.node), kj::mv(*e));
}

// Returns nullptr if the node runs the patched config already. In mode no-reboot, an unchanged
// config confirms a config on trial.
kj::Maybe<Parcel> parcelOf(Work& work, const ApplySettings& settings) {
  bool confirms = settings.mode == rpc::ApplyMode::NO_REBOOT;
  if (work.patched == work.running && !confirms) return nullptr;
  return Parcel{work.node, work.patched, work.version, KJ_ASSERT_NONNULL(work.remake)};
}

// Patches the config that the node runs after the change of another client.
kj::Promise<kj::Maybe<Parcel>> patchAgain(Patching& task, Work& work, ApplySettings settings) {
  co_await patchConfig(task, work);
  co_return parcelOf(work, settings);
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
  Patching task{.call = call,
                .session = *session,
                .patches = kj::mv(patches),
                .work = {},
                .failures = {},
                .warnings = {}};
  for (auto& node : session->client.nodes()) task.work.add(Work{.node = kj::str(node)});
  KJ_DEFER({
    for (auto& work : task.work) {
      zeroize(work.running);
      zeroize(work.patched);
    }
  });
  auto waits = kj::heapArrayBuilder<kj::Promise<void>>(task.work.size());
  for (auto& work : task.work) {
    work.remake = [&task, &work, settings]() { return patchAgain(task, work, settings); };
    waits.add(prepare(task, work));
  }
  co_await kj::joinPromises(waits.finish());
  printWarnings(call, task.warnings);
  if (task.failures.size() > 0) {
    if (task.work.size() > 1) call.err("nothing was sent to any node\n");
    co_return conclude(call, task.failures, 0, Partial::kIsFailure);
  }
  kj::Vector<Parcel> parcels;
  for (auto& work : task.work) {
    KJ_IF_MAYBE (parcel, parcelOf(work, settings)) {
      parcels.add(*parcel);
    } else {
      printSkipped(call, work.node, "no changes detected");
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
      "Each node's own config is patched, and patched again if another client changes it "
      "meanwhile.";
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
