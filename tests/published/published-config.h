// The machine configs of tests/client/configs, as people publish them, with the output of `talosctl
// validate` at their ends, and the placeholders in them.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/config/config-generate.h"

namespace talos::published {

constexpr const char* kMark = "# talosctl validate --mode ";

// A file of the folder: the config, the mode of `validate`, and its expected output.
struct PublishedConfig {
  std::filesystem::path path;
  std::string config, mode, expected;

  std::string name() const { return path.filename().string(); }
};

// Returns the configs of the folder, sorted by name. The test fails if a file does not say its
// mode.
std::vector<PublishedConfig> readAll(const std::filesystem::path& folder);

// Returns the values of the placeholders, such as @OS_CRT@.
using Placeholders = std::map<std::string, std::string>;
Placeholders placeholdersFor(const config::Secrets& secrets);

// Returns the text with the values of the placeholders.
std::string filled(std::string text, const Placeholders& placeholders);

}  // namespace talos::published
