#include "common/config/config.h"

#include "common/config/config-check.h"
#include "common/memory/zeroize.h"
#include "common/yaml/yaml.h"

namespace talos::config {
namespace {

kj::Maybe<const codec::YamlNode&> findMachineConfig(const codec::YamlStream& stream) {
  for (auto* document : stream.documents()) {
    for (auto& entry : document->entries) {
      if (entry.key == "machine") return *document;
    }
  }
  return nullptr;
}

void check(Report& report, Config::Reader config) {
  auto version = config.getVersion();
  if (version.size() > 0 && version != "v1alpha1")
    report.warn("version", kj::str("\"", version, "\" is read as v1alpha1"));
  if (config.hasMachine()) checkMachine(report, config.getMachine());
  if (config.hasCluster()) checkCluster(report, config.getCluster(), config.getMachine().getType());
}

}  // namespace

MachineConfig::~MachineConfig() noexcept(false) {
  zeroize(source);
  if (message.get() == nullptr) return;
  zeroize(*message);
}

MachineConfig parse(kj::ArrayPtr<const char> bytes, kj::StringPtr file) {
  MachineConfig config;
  config.source = kj::heapArray(bytes);
  config.message = kj::heap<capnp::MallocMessageBuilder>();
  auto root = config.message->initRoot<Config>();
  config.view = root.asReader();

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
  KJ_IF_MAYBE (document, findMachineConfig(stream)) {
    for (auto* other : stream.documents()) {
      bool another = false;
      for (auto& entry : other->entries) another = another || entry.key == "machine";
      if (!another)
        complain(other->place, "the document has neither the key \"machine\" nor a known kind");
    }
    correct(stream, *document, file, config.found);
    codec::ReadOptions options{.file = file, .laterKeys = laterKeys()};
    codec::readNode(stream, *document, root, config.found, options, &config.where);
    Report report(config.where, file, config.found);
    check(report, root.asReader());
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
             !machine.getInstall().hasDiskSelector()) {
    report.error("machine.install.disk", kj::str("the disk to install to is missing"),
                 "for example /dev/sda");
  }
}

}  // namespace talos::config
