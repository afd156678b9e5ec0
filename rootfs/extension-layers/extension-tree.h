// The check of system extensions before they become layers of an image: each mistake is reported
// with the extension and the file, and nothing is made of a set with a mistake.
//
// An extension is a folder with manifest.yaml and rootfs/, as its image has them. It adds files to
// the root below a few folders; it replaces no file of the root and none of another extension, so
// the order of the layers has no meaning. Reads only.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include <map>
#include <string>

#include "common/extension/extension-files.h"

namespace talos::extension {

struct GivenExtension {
  kj::String folder;
  kj::String name;  // as the user has named it: a reference or a path
};

class ExtensionTrees {
 public:
  // `root`: the tree of the root image. `version`: that of Talos, for the constraints of manifests.
  ExtensionTrees(kj::StringPtr root, kj::StringPtr version) : root(root), version(version) {}
  KJ_DISALLOW_COPY_AND_MOVE(ExtensionTrees);

  void add(const GivenExtension& given);

  kj::ArrayPtr<const kj::String> errors() const { return mistakes; }
  kj::ArrayPtr<const kj::String> warnings() const { return notes; }
  // True if an extension has modules of the kernel, which need a new index.
  bool hasModules() const { return modules; }
  // Fills in the extensions and their services, if there is no mistake.
  void fill(ImageExtensions::Builder out) const;

 private:
  kj::StringPtr root, version;
  kj::Vector<kj::String> mistakes, notes;
  std::map<std::string, std::string> names, files, services;  // with the extension that has them
  kj::Vector<kj::Own<ExtensionFile<Manifest>>> manifests;
  kj::Vector<kj::Own<ExtensionFile<ServiceFile>>> serviceFiles;
  kj::Vector<kj::String> images;
  bool modules = false;

  void mistake(const GivenExtension& given, kj::String text);
  void addManifest(const GivenExtension& given);
  void addFolder(const GivenExtension& given, const kj::String& path);
  void addEntry(const GivenExtension& given, const kj::String& path);
  void addFile(const GivenExtension& given, kj::StringPtr path);
  void addService(const GivenExtension& given, kj::StringPtr path);
  bool isAllowed(const GivenExtension& given, kj::StringPtr path);
};

}  // namespace talos::extension
