#include "machined/extensions/extension-container.h"

#include "common/base/lines.h"
#include "common/base/sha256.h"
#include "common/extension/extension-names.h"

namespace talos::machined {
namespace {

// The path of a program below the root of the container; a name alone is looked for in the search
// path.
kj::String programOf(kj::StringPtr entrypoint) {
  if (entrypoint.startsWith("/") || entrypoint.findFirst('/') == nullptr)
    return kj::str(entrypoint);
  if (entrypoint.startsWith("./")) return kj::str(entrypoint.slice(1));
  return kj::str("/", entrypoint);
}

kj::Array<kj::String> textsOf(capnp::List<capnp::Text>::Reader list) {
  return KJ_MAP(text, list) {
    return kj::str(text);
  };
}

ContainerMount mountOfFile(extension::ContainerMount::Reader mount) {
  ContainerMount result{.source = kj::str(mount.getSource()),
                        .destination = kj::str(mount.getDestination())};
  result.type = kj::str(mount.getType());
  if (result.type.size() == 0) result.type = kj::str("bind");
  result.options = textsOf(mount.getOptions());
  return result;
}

ExtensionBounds boundsOfFile(extension::ServiceFile::Reader service) {
  auto security = service.getContainer().getSecurity();
  ExtensionBounds bounds{.rootFolder = kj::str(extension::kContainerFolder, "/", service.getName()),
                         .writableRoot = security.getWriteableRootfs(),
                         .writableSysfs = security.getWriteableSysfs(),
                         .propagation = kj::str(security.getRootfsPropagation())};
  if (security.hasMaskedPaths()) bounds.masked = textsOf(security.getMaskedPaths());
  if (security.hasReadonlyPaths()) bounds.readOnly = textsOf(security.getReadonlyPaths());
  return bounds;
}

void addText(Sha256& digest, kj::StringPtr text) {
  auto size = kj::str(text.size(), ":");
  digest.add(size.asBytes());
  digest.add(text.asBytes());
}

}  // namespace

kj::String extensionConfigPath(kj::StringPtr folder, kj::StringPtr service,
                               kj::StringPtr mountPath) {
  auto name = kj::heapString(mountPath.startsWith("/") ? mountPath.slice(1) : mountPath);
  for (char& c : name.asArray()) {
    if (c == '/') c = '-';
  }
  return kj::str(folder, "/", service, "/", name);
}

ContainerSpec extensionContainer(extension::ServiceFile::Reader service,
                                 kj::ArrayPtr<const kj::String> environment,
                                 kj::Maybe<const ExtensionConfig&> config,
                                 kj::StringPtr configFolder) {
  auto container = service.getContainer();
  kj::Vector<kj::String> arguments, variables;
  arguments.add(programOf(container.getEntrypoint()));
  for (auto argument : container.getArgs()) arguments.add(kj::str(argument));
  for (auto variable : container.getEnvironment()) variables.add(kj::str(variable));
  for (auto& variable : environment) variables.add(kj::str(variable));
  kj::Vector<ContainerMount> mounts;
  for (auto mount : container.getMounts()) mounts.add(mountOfFile(mount));
  KJ_IF_MAYBE (given, config) {
    for (auto& variable : given->environment) variables.add(kj::str(variable));
    for (auto& file : given->files) {
      mounts.add(ContainerMount{
          .source = extensionConfigPath(configFolder, service.getName(), file.mountPath),
          .destination = kj::str(file.mountPath)});
    }
  }
  ContainerSpec spec;
  spec.arguments = arguments.releaseAsArray();
  spec.environment = variables.releaseAsArray();
  spec.mounts = mounts.releaseAsArray();
  spec.extension = boundsOfFile(service);
  return spec;
}

kj::Vector<kj::String> variablesOf(kj::StringPtr text) {
  kj::Vector<kj::String> variables;
  for (auto line : Lines(text)) {
    auto variable = kj::heapString(line);
    KJ_IF_MAYBE (equals, variable.findFirst('=')) {
      if (*equals > 0 && !variable.startsWith("#")) variables.add(kj::mv(variable));
    }
  }
  return variables;
}

kj::String digestOfConfig(kj::Maybe<const ExtensionConfig&> config) {
  KJ_IF_MAYBE (given, config) {
    Sha256 digest;
    for (auto& file : given->files) {
      addText(digest, file.mountPath);
      addText(digest, file.content);
    }
    addText(digest, "environment");
    for (auto& variable : given->environment) addText(digest, variable);
    return digest.hex();
  }
  return kj::String();
}

}  // namespace talos::machined
