#include "common/config/config.h"

#include "common/config/config-reading.h"
#include "common/config/rules/config-check.h"
#include "common/config/rules/free-form.h"
#include "common/config/rules/new-keys.h"
#include "common/memory/zeroize.h"
#include "common/text/foreign-text.h"
#include "common/text/texts.h"
#include "common/yaml/yaml-later-keys.h"
#include "common/yaml/yaml.h"

namespace talos::config {
namespace {

const codec::YamlNode* member(const codec::YamlNode& document, kj::StringPtr key) {
  for (auto& entry : document.entries) {
    if (entry.key == key) return entry.value;
  }
  return nullptr;
}

constexpr kj::StringPtr kAnotherConfig = "another machine config; the first begins in line "_kj;

// Returns true for a document of a kind with an effect, which is read with the main document.
bool acts(const codec::YamlNode& document) {
  auto* kind = member(document, "kind");
  if (kind == nullptr || member(document, "machine") != nullptr) return false;
  return contains(documentKinds(), kind->text);
}

// Returns the known kind of a document that is not the main one.
kj::Maybe<const LaterKind&> laterKindOf(const codec::YamlNode& document) {
  if (member(document, "machine") != nullptr) return nullptr;
  auto* kind = member(document, "kind");
  if (kind == nullptr || kind->kind != codec::YamlNode::Kind::kScalar) return nullptr;
  for (auto& row : laterKinds()) {
    if (row.name == kind->text) return row;
  }
  return nullptr;
}

// Returns true for a document of a later version that has no effect and needs none.
bool asksForNothing(const codec::YamlNode& document) {
  KJ_IF_MAYBE (known, laterKindOf(document)) {
    return known->asksForNothing != nullptr && known->asksForNothing(document);
  }
  return false;
}

// Returns the problem of a document besides the machine config: an error, or a warning about a kind
// of a later version or an allowed one.
Problem otherDocument(const codec::YamlNode& document, const codec::YamlNode& main,
                      UnknownDocuments unknown) {
  Problem problem;
  problem.line = document.place.line;
  problem.column = document.place.column;
  auto* kind = member(document, "kind");
  KJ_IF_MAYBE (known, laterKindOf(document)) {
    if (known->treatment == codec::LaterTreatment::kError) {
      problem.path = kj::str(known->name);
      problem.message = kj::str(known->reason);
    } else {
      problem.severity = Problem::Severity::kWarning;
      problem.message = kj::str(known->name, " documents are supported from version ", known->since,
                                " on; this one has no effect");
    }
    if (known->replacement.size() > 0) problem.hint = kj::str("use ", known->replacement);
  } else if (member(document, "machine") != nullptr) {
    problem.message = kj::str(kAnotherConfig, main.place.line);
    problem.hint = kj::str("put each into a file of its own");
  } else if (kind != nullptr && kind->kind == codec::YamlNode::Kind::kScalar) {
    kj::Vector<kj::StringPtr> names;
    for (auto& row : laterKinds()) names.add(row.name);
    for (auto name : documentKinds()) names.add(name);
    problem.message = kj::str("unknown kind ", jsonString(kind->text), " of a document");
    problem.hint = kj::str("remove it");
    KJ_IF_MAYBE (name, closest(kind->text, names))
      problem.hint = kj::str("did you mean \"", *name, "\"?");
    if (unknown == UnknownDocuments::kAllowed) {
      problem.severity = Problem::Severity::kWarning;
      problem.hint = kj::str("a node refuses it");
    }
  } else {
    problem.message = kj::str("the document has neither the key \"machine\" nor \"kind\"");
  }
  return problem;
}

// Checks the documents that are not empty; codec::kMaxProblems of each severity.
void checkOthers(const codec::YamlStream& stream, const codec::YamlNode& main, kj::StringPtr file,
                 UnknownDocuments unknown, Problems& problems) {
  size_t counts[2] = {};
  for (auto* other : stream.documents()) {
    if (other == &main || other->kind == codec::YamlNode::Kind::kNull) continue;
    if (acts(*other) || asksForNothing(*other)) continue;
    auto problem = otherDocument(*other, main, unknown);
    if (counts[static_cast<int>(problem.severity)]++ >= codec::kMaxProblems) continue;
    problem.file = kj::str(file);
    problems.add(kj::mv(problem));
  }
}

// Removes the problems of keys that the main document lacks and another one gives.
void dropGiven(Config::Reader view, Problems& problems) {
  bool given = false;
  for (auto kind : view.getDocuments()) given = given || kind == "KubeClusterConfig";
  if (!given) return;
  constexpr kj::StringPtr kKeys[] = {"cluster"_kj, "cluster.controlPlane"_kj,
                                     "cluster.controlPlane.endpoint"_kj};
  Problems kept;
  for (auto& problem : problems) {
    bool missing = problem.message == "required key is missing";
    if (!missing || !contains(kKeys, problem.path)) kept.add(kj::mv(problem));
  }
  problems = kj::mv(kept);
}

void check(Report& report, Config::Reader config) {
  auto version = config.getVersion();
  if (version.size() > 0 && version != "v1alpha1")
    report.warn("version", kj::str("\"", version, "\" is read as v1alpha1"));
  if (config.hasMachine()) checkMachine(report, config.getMachine());
  if (config.hasCluster()) checkCluster(report, config.getCluster(), config.getMachine().getType());
  checkMetrics(report, config);
  checkKubePrism(report, config);
  checkKubeletConfiguration(report, config);
}

// Returns the errors in documents beside the main one.
Problems errorsInDocuments(kj::ArrayPtr<const Problem> problems) {
  Problems errors;
  for (auto& problem : problems) {
    bool error = problem.severity == Problem::Severity::kError;
    if (error && isInDocument(problem.path)) errors.add(problem.clone());
  }
  return errors;
}

// Reads the config without the documents that have one of these errors, and checks it again: an
// error can hide another one, in a document with the same value or after codec::kMaxProblems. Ends
// with a view in whose documents and new keys (new-keys.h) the checks find no error.
kj::Own<SecretMessage> readWithout(Problems errors, RefusedDocuments refused,
                                   codec::YamlStream& stream, const codec::YamlNode& main,
                                   kj::StringPtr file) {
  constexpr unsigned kMostRounds = 4;  // after them, no document is read
  for (unsigned round = 1;; ++round) {
    auto message = kj::heap<SecretMessage>();
    auto view = message->initRoot<Config>();
    Problems known;  // all of them were reported before
    codec::Places where;
    Origins origins;
    codec::readNode(stream, main, view, known, {.file = file, .laterKeys = laterKeys()}, &where);
    if (round <= kMostRounds)
      readDocuments(stream, main, file, view, where, origins, known, refused, errors);
    dropGiven(view, known);
    deriveFreeFormValues(view);
    auto decoded = known.size();
    Report report(where, file, known);
    check(report, view.asReader());
    for (auto& problem : known) origins.rename(problem);
    errors = errorsInDocuments(known.asPtr().slice(decoded, known.size()));
    bool isWell = errors.empty() || round > kMostRounds;
    if (!removeWrongNewKeys(stream, main, known) && isWell) return message;
  }
}

}  // namespace

kj::Maybe<size_t> machineConfigIn(const codec::YamlStream& stream) {
  auto documents = stream.documents();
  for (auto i : kj::indices(documents)) {
    if (member(*documents[i], "machine") != nullptr) return i;
  }
  return nullptr;
}

MachineConfig::~MachineConfig() noexcept(false) {
  zeroize(source);
  if (message.get() == nullptr) return;
  zeroize(*message);
}

MachineConfig parse(kj::ArrayPtr<const char> bytes, kj::StringPtr file, UnknownDocuments unknown) {
  MachineConfig config;
  config.source = kj::heapArray(bytes);
  config.message = kj::heap<capnp::MallocMessageBuilder>();
  auto root = config.message->initRoot<Config>();
  config.view = config.checkedView = root.asReader();

  codec::YamlStream stream(config.source, file, config.found);
  if (hasErrors(config.found)) return config;
  auto complain = [&](codec::Place place, kj::StringPtr message, kj::StringPtr hint = "") {
    Problem& problem = config.found.add();
    problem.file = kj::str(file);
    problem.line = place.line;
    problem.column = place.column;
    problem.message = kj::str(message);
    problem.hint = kj::str(hint);
  };
  if (stream.documents().size() == 0) {
    config.nothing = true;
    complain({}, "no machine config: the document is empty");
    return config;
  }
  KJ_IF_MAYBE (main, machineConfigIn(stream)) {
    auto* document = stream.documents()[*main];
    checkOthers(stream, *document, file, unknown, config.found);
    correct(stream, *document, file, config.found);
    codec::ReadOptions options{.file = file, .laterKeys = laterKeys()};
    codec::readNode(stream, *document, root, config.found, options, &config.where);
    RefusedDocuments refused;
    readDocuments(stream, *document, file, root, config.where, config.origins, config.found,
                  refused);
    dropGiven(root, config.found);
    deriveFreeFormValues(root);
    auto decoded = config.found.size();
    Report report(config.where, file, config.found);
    check(report, root.asReader());
    for (auto& problem : config.found) config.origins.rename(problem);
    auto errors = errorsInDocuments(config.found.asPtr().slice(decoded, config.found.size()));
    if (removeWrongNewKeys(stream, *document, config.found) || !errors.empty()) {
      config.without = readWithout(kj::mv(errors), kj::mv(refused), stream, *document, file);
      config.view = config.without->getRoot<Config>().asReader();
    }
  } else {
    auto* first = stream.documents()[0];
    if (first->kind == codec::YamlNode::Kind::kMapping) {
      complain(first->place, "not a machine config: the key \"machine\" is missing",
               "`talosctl gen config` writes complete ones");
    } else {
      complain(first->place, "not a machine config: expected a mapping (\"key: value\" lines)");
    }
  }
  return config;
}

Problems problemsOfKept(const MachineConfig& config, kj::StringPtr file) {
  Problems again, result;
  Report report(config.places(), file, again, Report::Of::kKeptConfig);
  if (!config.good()) check(report, config.checked());
  for (auto& problem : again) config.origin().rename(problem);
  auto isWarning = [&](const Problem& problem) {
    if (isInDocument(problem.path)) return true;  // earlier releases did not read these documents
    if (isInNewKey(problem.path) || codec::isLaterError(laterKeys(), problem)) return true;
    if (problem.path.size() == 0) return problem.message.startsWith(kAnotherConfig);
    for (auto& p : again) {
      if (p.path == problem.path && p.message == problem.message)
        return p.severity == Problem::Severity::kWarning;
    }
    return false;
  };
  for (auto& p : config.problems()) {
    auto& problem = result.add(p.clone());
    if (isWarning(p)) problem.severity = Problem::Severity::kWarning;
  }
  return result;
}

kj::Maybe<Mode> modeNamed(kj::StringPtr name) {
  if (name == "metal") return Mode::kMetal;
  if (name == "cloud") return Mode::kCloud;
  if (name == "container") return Mode::kContainer;
  return nullptr;
}

void checkMode(const MachineConfig& config, Mode mode, kj::StringPtr file, Problems& problems) {
  if (mode != Mode::kMetal) return;
  Report report(config.places(), file, problems);
  auto machine = config.get().getMachine();
  if (!machine.hasInstall()) {
    report.error("machine.install", kj::str("the disk to install to is missing"),
                 "for example install: {disk: /dev/sda}");
  } else if (machine.getInstall().getDisk().size() == 0 &&
             !machine.getInstall().hasDiskSelector() &&
             machine.getInstall().getDiskMatch().size() == 0) {
    report.error("machine.install.disk", kj::str("the disk to install to is missing"),
                 "for example /dev/sda");
  }
}

}  // namespace talos::config
