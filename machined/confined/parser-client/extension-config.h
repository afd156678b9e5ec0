// A document ExtensionServiceConfig of the machine config, as a confined process has read it. Its
// contents are secrets, which are zeroed at the end.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/memory/zeroize.h"

namespace talos::machined {

constexpr unsigned kMostExtensionConfigs = 256;

// A file that a document gives to a service.
struct ExtensionConfigFile {
  kj::String mountPath, content;
};
struct ExtensionConfig {
  kj::String name;
  kj::Vector<ExtensionConfigFile> files;
  kj::Vector<kj::String> environment;  // K=V

  ExtensionConfig() = default;
  ExtensionConfig(ExtensionConfig&&) = default;
  ExtensionConfig& operator=(ExtensionConfig&&) = default;
  ~ExtensionConfig() noexcept(false) {
    for (auto& file : files) zeroize(file.content);
    for (auto& variable : environment) zeroize(variable);
  }
};

}  // namespace talos::machined
