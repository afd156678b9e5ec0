// The part of ConfigManager that examines the machine, and the copy on disk, before a change.
#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/text/diff.h"
#include "machined/config/config-manager.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
Situation ConfigManager::situation() {
  Situation now;
  now.maintenance = inMaintenance();
  now.failed = deps.host.bootFailed();
  KJ_IF_MAYBE (running, deps.reader.document(deps.store)) {
    now.running = running->get();
  }
  now.identity = identityOf(deps.store);
  // On metal a config applied in maintenance is installed with the system.
  bool installed = now.maintenance && deps.mode == config::Mode::kMetal;
  if (!installed) now.notDurable = deps.disk.whyNotDurable();
  return now;
}

void ConfigManager::checkFree(Caller caller, rpc::ApplyMode mode) {
  if (caller == Caller::kVisitor) requireMaintenance();
  KJ_IF_MAYBE (w, work) {
    fail(ErrorKind::kConflict, kj::str("another config is being applied (", w->what,
                                       "); this one was not applied; retry"));
  }
  auto sequence = deps.host.sequence();
  if (inMaintenance() || sequence.size() == 0) return;
  bool stageable = deps.host.bootHasSaved();
  if (stageable && mode == rpc::ApplyMode::STAGED) return;
  fail(ErrorKind::kConflict,
       kj::str("the sequence ", sequence,
               " is running; the config was not applied; retry when it has ended",
               stageable ? ", or use --on-reboot and reboot the node" : ""));
}

// Returns the version of the published config: the resource's version counts its changes.
uint64_t ConfigManager::publishedVersion() {
  KJ_IF_MAYBE (running, deps.store.tryGet<rpc::MachineConfigSpec>(kMachineConfigId)) {
    return running->version();
  }
  return 0;
}

void ConfigManager::checkVersion(uint64_t ifVersion) {
  if (ifVersion == 0) return;
  auto version = publishedVersion();
  if (version == ifVersion) return;
  fail(ErrorKind::kConflict,
       kj::str("the config changed in the meantime: this one is based on version ", ifVersion,
               ", but version ", version, " is active; repeat the change on that version"));
}

// Returns the config of the next boot if it differs from the running one; a trial ends with this
// boot in any case.
kj::Maybe<kj::String> ConfigManager::stagedText() {
  auto differs = [&](kj::ArrayPtr<const char> running) -> kj::Maybe<kj::String> {
    kj::Maybe<kj::String> text;
    auto unreadable = kj::runCatchingExceptions([&]() { text = deps.disk.read(); });
    if (unreadable != nullptr) return nullptr;  // writing reports the error
    KJ_IF_MAYBE (kept, text) {
      if (kept->asArray() != running) return kj::mv(text);
      zeroize(*kept);
    }
    return nullptr;
  };
  KJ_IF_MAYBE (t, trial) return differs(t->before);
  KJ_IF_MAYBE (running, deps.reader.document(deps.store)) {
    return differs(running->bytes());
  }
  return nullptr;
}

// Returns the config that is staged; nullptr also if `next` is on disk already, as after a crash.
kj::Promise<kj::Maybe<ConfigManager::Checked>> ConfigManager::stagedBefore(
    const KnownConfig& next) {
  auto staged = stagedText();
  KJ_IF_MAYBE (text, staged) {
    KJ_DEFER(zeroize(*text));
    if (text->asArray() == next.bytes()) co_return nullptr;
    auto checked = co_await checkAgain(*text);
    if (checked.errors.empty()) co_return kj::mv(checked);
  }
  co_return nullptr;
}

// Compares with the running config; empty on a machine without a config, and for a document of the
// same meaning. Documents in the same notation are compared as text, so comments count; a document
// in the other notation, JSON or YAML, is compared by its meaning.
kj::Promise<kj::String> ConfigManager::difference(const KnownConfig& wanted) {
  KJ_IF_MAYBE (running, deps.reader.document(deps.store)) {
    auto from = running->get(), to = wanted.get();
    if (config::changes(from, to).empty()) co_return kj::str();
    auto shown = co_await deps.foreign.redact(running->bytes(), wanted.bytes());
    co_return unifiedDiff(shown.from, shown.to, "running", "new");
  }
  co_return kj::str();
}

// Returns the config from before the trial; nullptr if there is no trial.
kj::Promise<kj::Maybe<ConfigManager::Checked>> ConfigManager::beforeTrial() {
  KJ_IF_MAYBE (t, trial) {
    auto before = kj::heapArray(t->before.asPtr());
    KJ_DEFER(zeroize(before));
    co_return co_await checkAgain(before);
  }
  co_return nullptr;
}

}  // namespace talos::machined
