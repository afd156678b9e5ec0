#include "common/config/rules/containerd-part.h"

#include <kj/exception.h>

#include "common/base/error.h"
#include "common/text/foreign-text.h"

namespace talos::config {
namespace {

using Mistakes = kj::Vector<ContainerdPart::Mistake>;

constexpr char kCri[] = "io.containerd.grpc.v1.cri";
constexpr kj::StringPtr kUseCri = "use [plugins.\"io.containerd.grpc.v1.cri\"]"_kj;
// Prefix of the plugins into which containerd 2 has split that one.
constexpr char kCriOfVersion2[] = "io.containerd.cri.v1.";

// The keys of the system's part (machined/system/containerd-registries.h), with values of the same
// kinds.
constexpr kj::StringPtr kSystemPart = R"(version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = ""
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = ""
conf_dir = ""
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = ""
[plugins."io.containerd.grpc.v1.cri".registry.configs]
)"_kj;

void addMistake(Mistakes& mistakes, bool warning, kj::String message, kj::StringPtr hint) {
  mistakes.add(ContainerdPart::Mistake{warning, kj::mv(message), kj::str(hint)});
}

kj::String quotedKey(const std::string& key) {
  return kj::str('"', fieldText(kj::arrayPtr(key.data(), key.size()), 128), '"');
}

// Returns true for names like io.containerd.grpc.v1.cri; containerd does not start with others.
bool isPluginName(const std::string& name) {
  size_t dots = 0;
  for (char c : name) dots += c == '.';
  return dots >= 3;
}

// containerd 1.7 fails with a version that it does not know; the merged file has its own.
void takeVersion(Mistakes& mistakes, toml::Value& fragment) {
  auto version = fragment.find("version");
  if (version == nullptr) return;
  if (version->text != "2") {
    addMistake(mistakes, true,
               kj::str("version is not used: containerd of this system reads version 2"),
               "use the names of version 2, and version = 2");
  }
  fragment.fields.erase("version");
}

void checkPluginNames(Mistakes& mistakes, const toml::Value& plugins) {
  for (auto& [name, settings] : plugins.fields) {
    if (!isPluginName(name)) {
      addMistake(mistakes, false,
                 kj::str("plugins: ", quotedKey(name), " is not the name of a plugin in version 2"),
                 kUseCri);
    } else if (!settings->isTable()) {
      addMistake(mistakes, false,
                 kj::str("plugins: ", quotedKey(name), " must be a table of its settings"), "");
    } else if (name.starts_with(kCriOfVersion2)) {
      addMistake(mistakes, true,
                 kj::str("plugins: ", quotedKey(name),
                         " has no effect: only containerd 2 has this plugin"),
                 kUseCri);
    }
  }
}

void checkPluginList(Mistakes& mistakes, const toml::Value& fragment, const char* key) {
  auto list = fragment.find(key);
  if (list == nullptr) return;
  if (list->kind != toml::Value::Kind::kList) {
    addMistake(mistakes, false, kj::str(key, " must be a list"), "");
  }
  for (auto& item : list->items) {
    if (isPluginName(item->text)) continue;
    addMistake(mistakes, false,
               kj::str(key, " has an item that is not the name of a plugin in version 2"),
               "for example \"io.containerd.snapshotter.v1.zfs\"");
  }
}

// The plugin does not start with these keys beside config_path, which the system sets.
void checkRegistry(Mistakes& mistakes, const toml::Value& cri) {
  auto registry = cri.find("registry");
  if (registry == nullptr) return;
  auto path = registry->find("config_path");
  if (path != nullptr && path->text == "\"\"") return;  // the user's own registries instead
  auto mirrors = registry->find("mirrors");
  if (mirrors != nullptr && !mirrors->fields.empty()) {
    addMistake(mistakes, false,
               kj::str("registry.mirrors cannot be used with the system's config_path"),
               "use machine.registries.mirrors");
  }
  auto configs = registry->find("configs");
  if (configs == nullptr) return;
  for (auto& [host, settings] : configs->fields) {
    if (settings->find("tls") == nullptr) continue;
    addMistake(mistakes, false,
               kj::str("registry.configs: tls of ", quotedKey(host),
                       " cannot be used with the system's config_path"),
               "use machine.registries.config");
  }
}

// The runtime of pods that name none. containerd has it by default, but not beside another one.
constexpr auto kRunc =
    "[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n"
    "runtime_type = \"io.containerd.runc.v2\"\n"_kj;

bool setsRuntimes(const toml::Value& part) {
  auto* value = &part;
  for (auto key : {"plugins", kCri, "containerd", "runtimes"}) {
    if (value != nullptr) value = value->isTable() ? value->find(key) : nullptr;
  }
  return value != nullptr;
}

bool hasError(const Mistakes& mistakes) {
  for (auto& mistake : mistakes) {
    if (!mistake.warning) return true;
  }
  return false;
}

}  // namespace

kj::Vector<ContainerdPart::Mistake> ContainerdPart::add(kj::ArrayPtr<const char> fragment) {
  Mistakes mistakes;
  toml::Value added;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { added = toml::read(fragment); })) {
    addMistake(mistakes, false, kj::str("not valid TOML: ", messageOf(*e)), "");
    return mistakes;
  }
  takeVersion(mistakes, added);
  for (auto key : {"disabled_plugins", "required_plugins"}) {
    checkPluginList(mistakes, added, key);
  }
  auto plugins = added.find("plugins");
  if (plugins != nullptr) {
    checkPluginNames(mistakes, *plugins);
  }
  if (hasError(mistakes)) return mistakes;
  auto all = toml::copyOf(merged);
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                 auto system = toml::read(kSystemPart.asArray());
                 toml::merge(system, added, toml::SameKey::kIsReplaced);
                 toml::merge(all, added, toml::SameKey::kMustBeEqual);
               })) {
    addMistake(mistakes, false, messageOf(*e), "");
    return mistakes;
  }
  auto allPlugins = all.find("plugins");
  auto cri = allPlugins == nullptr ? nullptr : allPlugins->find(kCri);
  if (cri != nullptr) checkRegistry(mistakes, *cri);
  if (!hasError(mistakes)) merged = kj::mv(all);
  return mistakes;
}

kj::String ContainerdPart::over(kj::ArrayPtr<const char> system) const {
  auto all = toml::read(system);
  if (setsRuntimes(merged)) {
    toml::merge(all, toml::read(kRunc.asArray()), toml::SameKey::kMustBeEqual);
  }
  toml::merge(all, merged, toml::SameKey::kIsReplaced);
  return toml::write(all);
}

}  // namespace talos::config
