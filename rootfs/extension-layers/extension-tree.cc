#include "rootfs/extension-layers/extension-tree.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/file.h"
#include "common/base/folder.h"

namespace talos::extension {
namespace {

// Folders to which an extension may add files.
constexpr kj::StringPtr kModules = "/usr/lib/modules"_kj, kUdevRules = "/usr/lib/udev/rules.d"_kj,
                        kCriParts = "/etc/cri/conf.d"_kj;
constexpr kj::StringPtr kAllowed[] = {"/usr/lib/firmware"_kj, kModules, kUdevRules,
                                      "/usr/local"_kj};
constexpr kj::StringPtr kMicrocode[] = {"/usr/lib/firmware/intel-ucode"_kj,
                                        "/usr/lib/firmware/amd-ucode"_kj};
constexpr kj::StringPtr kManifestFile = "manifest.yaml"_kj, kTree = "rootfs"_kj;
constexpr size_t kMostYamlBytes = 1u << 20;

bool isBelow(kj::StringPtr path, kj::StringPtr folder) {
  return path.size() > folder.size() && path.startsWith(folder) && path[folder.size()] == '/';
}

std::string textOf(kj::StringPtr text) {
  return {text.begin(), text.size()};
}

// Returns the kind of a file; 0 if it does not exist.
mode_t kindOfFile(kj::StringPtr path) {
  struct stat info;
  return lstat(path.cStr(), &info) == 0 ? info.st_mode & S_IFMT : 0;
}

// Returns the first component below `folder`: the release of a path of modules.
kj::String componentBelow(kj::StringPtr path, kj::StringPtr folder) {
  auto rest = path.slice(folder.size() + 1);
  return kj::heapString(rest.slice(0, strcspn(rest.cStr(), "/")));
}

}  // namespace

void ExtensionTrees::mistake(const GivenExtension& given, kj::String text) {
  mistakes.add(kj::str(given.name, ": ", text));
}

void ExtensionTrees::add(const GivenExtension& given) {
  for (auto& name : namesIn(given.folder)) {
    if (name == kManifestFile || name == kTree) continue;
    mistake(given, kj::str("unexpected file ", name, "; an extension has ", kManifestFile, " and ",
                           kTree, " alone"));
  }
  auto before = mistakes.size();
  addManifest(given);
  if (kindOfFile(kj::str(given.folder, "/", kTree)) != S_IFDIR) {
    return mistake(given, kj::str("the folder ", kTree, " is missing"));
  }
  if (mistakes.size() > before) return;
  addFolder(given, kj::str());
}

void ExtensionTrees::addManifest(const GivenExtension& given) {
  auto text = tryReadFile(kj::str(given.folder, "/", kManifestFile), kMostYamlBytes);
  KJ_IF_MAYBE (content, text) {
    auto manifest = readManifest(*content, kj::str(given.name, ":", kManifestFile));
    for (auto& problem : manifest->problems) mistakes.add(problem.toString());
    if (!manifest->isGood()) return;
    KJ_IF_MAYBE (reason, incompatibility(manifest->get(), version)) {
      mistake(given, kj::str(*reason, "; use a release of the extension for it"));
    }
    auto name = textOf(manifest->get().getMetadata().getName());
    auto [other, isNew] = names.emplace(name, textOf(given.name));
    if (!isNew) {
      mistake(given, kj::str("the extension ", name, " is given twice, as ", other->second,
                             ", too; leave one of them out"));
    }
    manifests.add(kj::mv(manifest));
    images.add(kj::str(given.name));
  } else {
    mistake(given, kj::str("not a system extension: it has no ", kManifestFile));
  }
}

void ExtensionTrees::addFolder(const GivenExtension& given, const kj::String& path) {
  for (auto& name : namesIn(kj::str(given.folder, "/", kTree, path))) {
    addEntry(given, kj::str(path, "/", name));
  }
}

void ExtensionTrees::addEntry(const GivenExtension& given, const kj::String& path) {
  auto kind = kindOfFile(kj::str(given.folder, "/", kTree, path));
  auto present = kindOfFile(kj::str(root, path));
  if (kind == S_IFDIR) {
    if (present != 0 && present != S_IFDIR) {
      return mistake(given, kj::str(path,
                                    " is not a folder in the root; extensions replace none "
                                    "of its files"));
    }
    return addFolder(given, path);
  }
  if (kind != S_IFREG && kind != S_IFLNK) {
    return mistake(given, kj::str(path, " is neither a folder nor a file nor a link"));
  }
  if (!isAllowed(given, path)) return;
  if (present != 0) {
    return mistake(given, kj::str(path,
                                  " exists in the root; extensions replace none of its "
                                  "files"));
  }
  addFile(given, path);
}

bool ExtensionTrees::isAllowed(const GivenExtension& given, kj::StringPtr path) {
  if (isBelow(path, kCriParts)) {
    mistake(given, kj::str(path,
                           ": this system takes no configuration of containerd from "
                           "extensions; use a CRICustomizationConfig document"));
    return false;
  }
  for (auto folder : kMicrocode) {
    if (!isBelow(path, folder)) continue;
    mistake(given, kj::str(path,
                           ": the kernel takes microcode before there is a root; use "
                           "FIRMWARE=intel-microcode or FIRMWARE=amd64-microcode"));
    return false;
  }
  for (auto folder : kAllowed) {
    if (isBelow(path, folder)) return true;
  }
  mistake(given,
          kj::str(path, ": an extension may have files only below ", kj::strArray(kAllowed, ", ")));
  return false;
}

void ExtensionTrees::addFile(const GivenExtension& given, kj::StringPtr path) {
  auto [other, isNew] = files.emplace(textOf(path), textOf(given.name));
  if (!isNew) {
    return mistake(given, kj::str(path, " is in ", other->second, ", too"));
  }
  if (isBelow(path, kUdevRules)) {
    notes.add(kj::str(given.name, ": ", path, " has no effect: this system has no udev"));
  }
  if (isBelow(path, kModules)) {
    auto release = componentBelow(path, kModules);
    if (kindOfFile(kj::str(root, kModules, "/", release)) != S_IFDIR) {
      auto own = kj::strArray(namesIn(kj::str(root, kModules)), ", ");
      return mistake(given, kj::str(path, " is a module for the kernel ", release,
                                    ", but that of the "
                                    "image is ",
                                    own, "; build the extension for this kernel"));
    }
    modules = true;
  }
  if (isBelow(path, kServiceFolder) && path.endsWith(".yaml")) addService(given, path);
}

void ExtensionTrees::addService(const GivenExtension& given, kj::StringPtr path) {
  auto tree = kj::str(given.folder, "/", kTree);
  auto service =
      readService(readFile(kj::str(tree, path), kMostYamlBytes), kj::str(given.name, ":", path));
  for (auto& problem : service->problems) mistakes.add(problem.toString());
  if (!service->isGood()) return;
  auto name = service->get().getName();
  auto [other, isNew] = services.emplace(textOf(name), textOf(given.name));
  if (!isNew) {
    mistake(given, kj::str(path, ": the service ", name, " is in ", other->second, ", too"));
  }
  auto folder = kj::str(kContainerFolder, "/", name);
  if (kindOfFile(kj::str(tree, folder)) != S_IFDIR) {
    mistake(given, kj::str(path, ": the root of its container is missing: ", folder));
  }
  serviceFiles.add(kj::mv(service));
}

void ExtensionTrees::fill(ImageExtensions::Builder out) const {
  auto layers = out.initLayers(static_cast<unsigned>(manifests.size()));
  for (unsigned i = 0; i < layers.size(); ++i) {
    layers[i].setImage(images[i]);
    layers[i].setMetadata(manifests[i]->get().getMetadata());
  }
  auto list = out.initServices(static_cast<unsigned>(serviceFiles.size()));
  for (unsigned i = 0; i < list.size(); ++i) list.setWithCaveats(i, serviceFiles[i]->get());
}

}  // namespace talos::extension
