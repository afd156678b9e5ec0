#include "common/extension/extension-files.h"

#include <string.h>

#include "common/extension/version-range.h"
#include "common/text/foreign-text.h"
#include "common/yaml/yaml-codec.h"

namespace talos::extension {
namespace {

constexpr kj::StringPtr kManifestVersion = "v1alpha1"_kj;
constexpr kj::StringPtr kPropagations[] = {"private"_kj,   "rprivate"_kj, "shared"_kj,
                                           "rshared"_kj,   "slave"_kj,    "rslave"_kj,
                                           "unbindable"_kj};

template <typename T>
kj::Own<ExtensionFile<T>> read(kj::StringPtr text, kj::StringPtr file, codec::Places& places) {
  auto result = kj::heap<ExtensionFile<T>>();
  auto root = result->message.template initRoot<T>();
  codec::readYaml(text, root, result->problems, {.file = file}, &places);
  return result;
}

// Reports mistakes of values, each at its place.
class ValueCheck {
 public:
  ValueCheck(kj::StringPtr file, const codec::Places& places, Problems& problems)
      : file(file), places(places), problems(problems) {}

  void report(kj::StringPtr path, kj::String message, kj::StringPtr hint) {
    auto place = places.find(path);
    problems.add(Problem{.file = kj::str(file),
                         .line = place.line,
                         .column = place.column,
                         .path = kj::str(path),
                         .message = kj::mv(message),
                         .hint = kj::str(hint)});
  }
  void absolute(kj::StringPtr path, kj::StringPtr value) {
    if (value.startsWith("/") && !hasParent(value)) return;
    report(path, kj::str(jsonString(value), " is not an absolute path"), "begin it with /");
  }
  void variables(kj::StringPtr path, capnp::List<capnp::Text>::Reader values) {
    for (auto i : kj::indices(values)) {
      auto equals = values[i].findFirst('=');
      KJ_IF_MAYBE (at, equals) {
        if (*at > 0) continue;
      }
      report(kj::str(path, "[", i, "]"), kj::str("the variable has no name"), "use NAME=value");
    }
  }
  static bool hasParent(kj::StringPtr path) {
    auto padded = kj::str("/", path, "/");
    return strstr(padded.cStr(), "/../") != nullptr;
  }

 private:
  kj::StringPtr file;
  const codec::Places& places;
  Problems& problems;
};

void checkContainer(ValueCheck& check, Container::Reader container) {
  auto entrypoint = container.getEntrypoint();
  if (entrypoint.size() > 0 && ValueCheck::hasParent(entrypoint)) {
    check.report("container.entrypoint", kj::str(jsonString(entrypoint), " leaves the container"),
                 "use a path below its root");
  }
  check.variables("container.environment", container.getEnvironment());
  if (container.hasEnvironmentFile()) {
    check.absolute("container.environmentFile", container.getEnvironmentFile());
  }
  for (auto i : kj::indices(container.getMounts())) {
    check.absolute(kj::str("container.mounts[", i, "].destination"),
                   container.getMounts()[i].getDestination());
  }
  auto security = container.getSecurity();
  for (auto i : kj::indices(security.getMaskedPaths())) {
    check.absolute(kj::str("container.security.maskedPaths[", i, "]"),
                   security.getMaskedPaths()[i]);
  }
  for (auto i : kj::indices(security.getReadonlyPaths())) {
    check.absolute(kj::str("container.security.readonlyPaths[", i, "]"),
                   security.getReadonlyPaths()[i]);
  }
  if (!security.hasRootfsPropagation()) return;
  for (auto known : kPropagations) {
    if (security.getRootfsPropagation() == known) return;
  }
  check.report("container.security.rootfsPropagation",
               kj::str(jsonString(security.getRootfsPropagation()), " is not a propagation"),
               kj::str("use one of ", kj::strArray(kPropagations, ", ")));
}

void checkDependency(ValueCheck& check, kj::StringPtr path, Dependency::Reader dependency) {
  unsigned set = dependency.hasService() + dependency.hasPath() + dependency.hasNetwork() +
                 dependency.getTime() + dependency.getConfiguration();
  if (set != 1) {
    check.report(path, kj::str("the dependency has ", set == 0 ? "no" : "more than one", " kind"),
                 "set exactly one of service, path, network, time: true, configuration: true");
  }
  if (dependency.hasPath()) check.absolute(kj::str(path, ".path"), dependency.getPath());
}

}  // namespace

kj::Own<ExtensionFile<Manifest>> readManifest(kj::StringPtr text, kj::StringPtr file) {
  codec::Places places;
  auto result = read<Manifest>(text, file, places);
  ValueCheck check(file, places, result->problems);
  auto manifest = result->get();
  if (manifest.hasVersion() && manifest.getVersion() != kManifestVersion) {
    check.report("version",
                 kj::str(jsonString(manifest.getVersion()), " is not a version of manifests"),
                 kj::str("use ", kManifestVersion));
  }
  auto metadata = manifest.getMetadata();
  if (metadata.hasName() && !isExtensionName(metadata.getName())) {
    check.report("metadata.name",
                 kj::str(jsonString(metadata.getName()), " is not a name of an extension"),
                 "use letters of lower case, digits, dashes and underlines");
  }
  auto range = metadata.getCompatibility().getTalos().getVersion();
  if (isInRange("v1.0.0", range) == nullptr) {
    check.report("metadata.compatibility.talos.version",
                 kj::str(jsonString(range), " is not a range of versions"),
                 "use a range such as \">= v1.5.0 < v2.0.0\"");
  }
  return result;
}

kj::Own<ExtensionFile<ExtensionList>> readList(kj::StringPtr text, kj::StringPtr file) {
  codec::Places places;
  return read<ExtensionList>(text, file, places);
}

kj::Own<ExtensionFile<ServiceFile>> readService(kj::StringPtr text, kj::StringPtr file) {
  codec::Places places;
  auto result = read<ServiceFile>(text, file, places);
  ValueCheck check(file, places, result->problems);
  auto service = result->get();
  if (service.hasName() && !isExtensionName(service.getName())) {
    check.report("name", kj::str(jsonString(service.getName()), " is not a name of a service"),
                 "use letters of lower case, digits, dashes and underlines");
  }
  checkContainer(check, service.getContainer());
  for (auto i : kj::indices(service.getDepends())) {
    checkDependency(check, kj::str("depends[", i, "]"), service.getDepends()[i]);
  }
  if (service.getLogToConsole()) {
    check.report(
        "logToConsole",
        kj::str("the log of a service is not written to the console by this system"),
        kj::str("remove it; talosctl logs ", kServicePrefix, service.getName(), " shows the log"));
  }
  return result;
}

kj::Maybe<kj::String> incompatibility(Manifest::Reader manifest, kj::StringPtr version) {
  auto range = manifest.getMetadata().getCompatibility().getTalos().getVersion();
  if (isInRange(version, range).orDefault(false)) return nullptr;
  return kj::str("version constraint ", range, " can't be satisfied with Talos version ", version);
}

}  // namespace talos::extension
