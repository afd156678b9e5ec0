#include "machined/config/config-checks.h"

#include "common/base/backoff.h"
#include "common/base/error.h"
#include "common/memory/zeroize.h"
#include "common/text/diff.h"
#include "machined/config/config-change.h"
#include "machined/resources/store.h"

namespace talos::machined {
namespace {

// Leaves room for the other fields of the resource.
constexpr size_t kLargestDocument = kLargestResource - 4096;

// In maintenance mode anybody may send documents, and parsing a large one costs memory. Half of the
// parsers that may run are reserved for the machine's own documents.
constexpr size_t kLarge = 64u << 10;
constexpr unsigned kMostChecks = 4;

// The pace of retries to read a document that was valid before. They take about half a minute in
// all; after that, restarting the brain helps as much.
constexpr Backoff::Pace kAgainPace = {1 * kj::SECONDS, 16 * kj::SECONDS};
constexpr unsigned kMostTries = 6;

bool changesFile(config::Config::Reader config, kj::StringPtr path) {
  for (auto file : config.getMachine().getFiles()) {
    if (file.getOp() != config::FileOp::CREATE && file.getPath() == path) return true;
  }
  return false;
}

bool namesProgram(config::Config::Reader config, kj::StringPtr name) {
  auto providers = config.getMachine().getKubelet().getCredentialProviderConfig().getProviders();
  for (auto provider : providers) {
    if (provider.getName() == name) return true;
  }
  return false;
}

}  // namespace

kj::Promise<CheckedConfig> ConfigChecks::check(kj::Array<char> text, kj::String file, bool kept) {
  KJ_DEFER(zeroize(text));
  auto checked = co_await foreign.config(text, file, ConfigRules(mode, kept));
  if (text.size() > kLargestDocument) {
    checked.errors.add(kj::str(file, ": too large: a machine config has at most ", kLargestDocument,
                               " bytes, this one has ", text.size()));
  }
  co_return kj::mv(checked);
}

ConfigChecks::Admission ConfigChecks::admit(size_t bytes, bool visitor) {
  if (!visitor && bytes <= kLarge) return Admission();
  if (checking >= kMostChecks) {
    fail(ErrorKind::kResourceExhausted,
         kj::str(checking, " configs are being checked already; retry"));
  }
  return Admission(checking);
}

kj::Promise<CheckedConfig> ConfigChecks::checkAgain(kj::ArrayPtr<const char> text) {
  auto document = kj::heapArray(text);
  KJ_DEFER(zeroize(document));
  Backoff backoff(kAgainPace);
  for (unsigned tries = 1;; ++tries) {
    kj::Maybe<CheckedConfig> checked;
    kj::Maybe<kj::Exception> failure;
    co_await checkKept(kj::heapArray(document.asPtr()), kj::str("machine config"))
        .then([&](CheckedConfig&& c) { checked = kj::mv(c); },
              [&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (c, checked) co_return kj::mv(*c);
    auto& e = KJ_ASSERT_NONNULL(failure);
    if (tries == kMostTries) kj::throwFatalException(kj::mv(e));
    host.print(kj::str("machine config: ", messageOf(e), "; retrying"), Tone::kAlarm);
    co_await timer.afterDelay(backoff.next());
  }
}

kj::Promise<kj::String> ConfigChecks::difference(kj::Maybe<const KnownConfig&> running,
                                                 const KnownConfig& wanted) {
  KJ_IF_MAYBE (r, running) {
    if (config::changes(r->get(), wanted.get()).empty()) co_return kj::str();
    auto shown = co_await foreign.redact(r->bytes(), wanted.bytes());
    co_return unifiedDiff(shown.from, shown.to, "running", "new");
  }
  co_return kj::str();
}

void checkImage(const MissingFromImage& missing, CheckedConfig& checked,
                kj::Maybe<const KnownConfig&> running, bool installs) {
  auto report = [&](bool isRunning, kj::String line, kj::StringPtr effect, kj::StringPtr hint) {
    if (isRunning || installs) {
      checked.warnings.add(kj::str(line, "; ", effect));
    } else {
      checked.errors.add(kj::str("machine config: ", line, "; ", hint));
    }
  };
  auto runs = [&](auto has, kj::StringPtr name) {
    KJ_IF_MAYBE (r, running) return has(r->get(), name);
    return false;
  };
  for (auto& file : missing.files) {
    report(runs(changesFile, file.path),
           kj::str("machine.files[", file.entry, "].path: ", file.path, ": ", file.problem),
           "a boot of this system leaves the file out",
           "use a path below /var, or an image that has the file");
  }
  for (auto& program : missing.programs) {
    report(runs(namesProgram, program.name),
           kj::str("machine.kubelet.credentialProviderConfig.providers[", program.entry,
                   "].name: ", program.problem),
           "the kubelet of this system does not start",
           "remove it, or upgrade to an image that has the program");
  }
}

}  // namespace talos::machined
